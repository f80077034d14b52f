package import SyncModel
import SyncPlugins
import SyncSystem

/// The meaning of a hook's name on this machine. Manifests name hooks; programs are named in configuration files only.
extension RunHook {
    static let keys = ["program", "arguments", "timeout", "batch"]

    static func read(_ name: String, _ node: ConfigurationNode, of root: StrictObject) throws(SettingsError) -> RunHook
    {
        guard !name.isEmpty, name.utf8.count <= 255, !name.unicodeScalars.contains(where: isUnsafeOnTerminal) else {
            throw root.fault(node, "hooks", "a hook's name has 1 to 255 bytes and no control characters")
        }
        let object = try StrictObject(node, path: "hooks.\(name)", keys: keys, shown: root.shown)
        guard let program = try object.text("program", "the absolute path of a program") else {
            throw object.fault(node, "program", "missing; write the absolute path of the program to run")
        }
        // The group is set where the name is resolved.
        var hook = RunHook(group: "", arguments: [program] + (try object.anyTexts("arguments")))
        if let fault = objection(to: hook.arguments) { throw object.fault(node, "program", fault) }
        if let timeout = try object.duration("timeout") { hook.timeout = Int(timeout.components.seconds) }
        hook.batch = try object.integer("batch", in: RunHook.batches)
        return hook
    }

    /// Why a hook cannot have these words, for people and without secrets; `nil` if it can.
    package static func objection(to arguments: [String]) -> String? {
        let word = arguments.first ?? ""
        guard isHookProgram(word) else {
            return "'\(escaped(shownHookProgram(word)))' is neither an absolute path nor a URL nor plugin:NAME"
        }
        guard isWebURL(word) else { return nil }
        guard arguments.count == 1 else { return "a webhook takes no arguments, only a URL" }
        do throws(URLError) {
            _ = try CurlURL(word)
            return nil
        } catch {
            // The rest would advise the credentials file, which is not for webhooks.
            return "the URL of a webhook cannot be used: \(error.description.prefix { $0 != ";" })"
        }
    }
}

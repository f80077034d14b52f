package import SyncModel
import SyncPlugins

/// What a hook's name stands for on this machine. Manifests name hooks; programs are named here only.
package struct HookSetting: Sendable, Equatable, Codable {
    /// An absolute path, an http or https URL, or `plugin:NAME`.
    package var program: String
    /// What follows the program's name in argv.
    package var arguments: [String] = []
    /// Most **seconds** it may run.
    package var timeout = 600
    /// Most files a call, for a hook that gets the files that changed; `nil` for one call a group.
    package var batch: Int?

    /// As runs have it; whoever resolves the name knows the group.
    package var hook: RunHook { RunHook(group: "", arguments: [program] + arguments, timeout: timeout, batch: batch) }

    static let keys = ["program", "arguments", "timeout", "batch"]

    static func read(_ name: String, _ node: ConfigurationNode, of root: StrictObject) throws(SettingsError)
        -> HookSetting
    {
        guard !name.isEmpty, name.utf8.count <= 255, !name.unicodeScalars.contains(where: isUnsafeOnTerminal) else {
            throw root.fault(node, "hooks", "a hook's name has 1 to 255 bytes and no control characters")
        }
        let object = try StrictObject(node, path: "hooks.\(name)", keys: keys, shown: root.shown)
        guard let program = try object.text("program", "the absolute path of a program") else {
            throw object.fault(node, "program", "missing; write the absolute path of the program to run")
        }
        guard isHookProgram(program) else {
            throw object.fault(
                node, "program", "'\(escaped(program))' is neither an absolute path nor a URL nor plugin:NAME")
        }
        var hook = HookSetting(program: program)
        hook.arguments = try object.anyTexts("arguments")
        if let timeout = try object.duration("timeout") { hook.timeout = Int(timeout.components.seconds) }
        hook.batch = try object.integer("batch", in: RunHook.batches)
        return hook
    }
}

extension HookSetting {
    /// As it was kept, or the file has it.
    init(_ hook: RunHook) {
        self.init(
            program: hook.arguments.first ?? "", arguments: Array(hook.arguments.dropFirst()), timeout: hook.timeout,
            batch: hook.batch)
    }
}

package import SyncModel
import SyncSystem

/// The content of a configuration file: how to transfer, and which hooks there are.
///
/// The file is JSON5. Every key is written in snake case; `Examples/config.json` has each of them. Unknown keys are
/// refused, so that a misspelt limit is not a missing limit.
package struct ConfigurationFile: Sendable, Equatable {
    /// The settings of transfers.
    package var transfer = TransferSettings()
    /// Hooks by the names that manifests use.
    package var hooks: [String: RunHook] = [:]
    /// The plugins, and their uses.
    package var plugins = PluginSettings()
    /// The path of the file that gets metrics at the end of every run, absolute; `nil` for none.
    package var metricsFile: String?
    /// The pins of this machine, for everybody who pulls, by project: the absolute path of a root's file, or `SHA256:`
    /// and the digest of one.
    package var pins: [String: String] = [:]
    /// The policy for a manifest that no pinned signer has signed.
    package var unsigned = Unsigned.accept

    package enum Unsigned: String, Sendable, CaseIterable { case accept, refuse }

    /// The most files that a pull prunes.
    package var maxDelete: Int?
    /// The directory where pulls keep what they remove or replace, absolute.
    package var backupDir: String?
    /// The permissions that files and directories are created without.
    package var umask: Umask?
    /// The most **bytes** a second for all runs of an agent together; `nil` for no limit.
    package var agentRateLimit: UInt64?

    /// Makes an empty file.
    package init() {}

    /// Every key, those inside objects without their path.
    package static let keys =
        TransferKey.names + TransferKey.innerNames + RunHook.keys + PluginSettings.allKeys + metricsKeys
        + trustKeys + own

    private static let metricsKeys = ["textfile"]
    private static let trustKeys = ["pins", "unsigned"]
    /// The keys at the top, besides those of transfers.
    private static let own = [
        "hooks", "plugins", "metrics", "trust", "agent_limit_rate", "max_delete", "backup_dir", "umask",
    ]

    private mutating func read(_ root: StrictObject, _ base: PathBase) throws(SettingsError) {
        for (name, _, node) in try root.named("hooks") { hooks[name] = try RunHook.read(name, node, of: root) }
        if let object = try root.object("plugins", keys: PluginSettings.keys) {
            plugins = try PluginSettings.read(object, base)
        }
        if let object = try root.object("metrics", keys: Self.metricsKeys) {
            metricsFile = try Self.metrics(object, base)
        }
        if let object = try root.object("trust", keys: Self.trustKeys) {
            unsigned = try object.word("unsigned") ?? .accept
            for (project, _, node) in try object.named("pins") {
                pins[project] = try Self.pin(object, "pins.\(escaped(project))", node, base)
            }
        }
        agentRateLimit = try root.byteCount("agent_limit_rate")
        maxDelete = try root.integer("max_delete", in: 0...Int(Int32.max))
        backupDir = try root.path("backup_dir", base)
        if let text = try root.text("umask", "an octal number such as \"022\""), let node = root.node("umask") {
            umask = try root.reading(node, "umask", SettingValue.umask(text))
        }
    }

    private static func pin(_ object: StrictObject, _ key: String, _ node: ConfigurationNode, _ base: PathBase)
        throws(SettingsError) -> String
    {
        guard case .text(let text) = node.value, !text.isEmpty else {
            throw object.fault(node, key, "\(node.kind) was found; the path of a root, or SHA256:HEX, is expected")
        }
        guard text.hasPrefix("SHA256:") else { return try object.reading(node, key, base.absolute(text)) }
        if SHA256Digest(hex: String(text.dropFirst(7))) != nil { return text }
        throw object.fault(node, key, "SHA256: needs 64 hexadecimal digits")
    }

    private static func metrics(_ object: StrictObject, _ base: PathBase) throws(SettingsError) -> String? {
        guard let path = try object.path("textfile", base), let node = object.node("textfile") else { return nil }
        guard path.hasSuffix(".prom"), !path.hasSuffix("/.prom") else {
            throw object.fault(node, "textfile", "node_exporter only reads files whose names end in .prom")
        }
        return path
    }

    /// The largest file, in **bytes**.
    package static let maximumSize = 1 << 20

    /// Reads a file.
    ///
    /// - Parameters:
    ///   - path: Absolute.
    ///   - home: The home directory, for paths that begin with `~/`.
    /// - Returns: `nil` when there is no such file.
    /// - Throws: ``SettingsError`` with path, line and key, for a file that cannot be read, that others may write to,
    ///   or to whose directory, that has anything unknown or malformed, or that has a secret although others may read
    ///   it.
    package static func read(_ path: String, home: String?) throws(SettingsError) -> ConfigurationFile? {
        let bytes: [UInt8]
        do throws(FileError) {
            bytes = try readFile(path, trust: .settings, limit: maximumSize)
            try checkDirectory(of: path)
        } catch {
            if error.isMissing { return nil }
            throw SettingsError(error)
        }
        let directory = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "/"
        let base = PathBase(directory: directory, home: home)
        let settings = try parse(bytes, base: base, shown: escaped(path))
        guard let secret = settings.transfer.inlineSecrets.first else { return settings }
        _ = try rethrowing(checkFile(path, trust: .secret)) { (error: FileError) in
            SettingsError("\(escaped(path)): it holds \(secret), and \(error.reason)")
        }
        return settings
    }

    /// Reads the files that count if none is named: each adds the settings that those before it leave out.
    ///
    /// - Parameters:
    ///   - paths: Absolute, the user's before the machine's. Missing files are skipped.
    ///   - home: The home directory, for paths that begin with `~/`.
    package static func usual(_ paths: [String], home: String?) throws(SettingsError) -> ConfigurationFile {
        var found = ConfigurationFile()
        for path in paths { if let lower = try read(path, home: home) { found.put(over: lower) } }
        return found
    }

    /// Takes from a lower file the settings that this one leaves out. Lists are joined, these first.
    private mutating func put(over lower: ConfigurationFile) {
        transfer = transfer.over(lower.transfer)
        hooks.merge(lower.hooks) { mine, _ in mine }
        plugins.directory = plugins.directory ?? lower.plugins.directory
        plugins.uses += lower.plugins.uses
        metricsFile = metricsFile ?? lower.metricsFile
        pins.merge(lower.pins) { mine, _ in mine }
        // A refusal in either file counts: a file without the key looks the same here as one that accepts.
        if lower.unsigned == .refuse { unsigned = .refuse }
        maxDelete = maxDelete ?? lower.maxDelete
        backupDir = backupDir ?? lower.backupDir
        umask = umask ?? lower.umask
        agentRateLimit = agentRateLimit ?? lower.agentRateLimit
    }

    /// Reads the text of a file.
    ///
    /// - Parameters:
    ///   - bytes: The text.
    ///   - base: The base of relative paths.
    ///   - shown: The file's name for messages.
    package static func parse(_ bytes: [UInt8], base: PathBase, shown: String) throws(SettingsError)
        -> ConfigurationFile
    {
        let root = try StrictObject(text: bytes, keys: TransferKey.names + own, shown: shown)
        var file = ConfigurationFile()
        file.transfer = try TransferKey.read(root, base)
        try file.read(root, base)
        return file
    }
}

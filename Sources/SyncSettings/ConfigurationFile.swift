package import SyncModel
import SyncSystem

/// What a configuration file says: how to transfer, and which hooks there are.
///
/// The file is JSON5. Every key is written in snake case; `Examples/config.json` has each of them. Whatever is not
/// known is refused, so that a misspelt limit is not a missing limit.
package struct ConfigurationFile: Sendable, Equatable {
    /// How to transfer.
    package var transfer = TransferSettings()
    /// Hooks by the names that manifests use.
    package var hooks: [String: HookSetting] = [:]
    /// Which plugins are used for what.
    package var plugins = PluginSettings()
    /// Where metrics are put at the end of every run, absolute; `nil` for nowhere.
    package var metricsFile: String?
    /// Whom this machine believes.
    package var trust = TrustSetting()

    /// What ``RunKey`` has rows for.
    package var run = RunRecipe(manifest: "")
    /// Most **bytes** a second of all runs of an agent together; `nil` without such a limit.
    package var agentRateLimit: UInt64?

    /// Every key, those inside objects without their path.
    package static let keys =
        TransferKey.names + TransferKey.innerNames + HookSetting.keys + PluginSettings.allKeys + metricsKeys
        + TrustSetting.keys + own.map(\.name)

    private static let metricsKeys = ["textfile"]
    /// A key at the top, besides those of transfers.
    private struct Key: Sendable {
        let name: String
        let read: @Sendable (inout ConfigurationFile, StrictObject, String, PathBase) throws(SettingsError) -> Void
    }

    private static let own =
        [
            Key(name: "hooks") { file, root, key, _ throws(SettingsError) in
                for (name, _, node) in try root.named(key) {
                    file.hooks[name] = try HookSetting.read(name, node, of: root)
                }
            },
            Key(name: "plugins") { file, root, key, base throws(SettingsError) in
                guard let object = try root.object(key, keys: PluginSettings.keys) else { return }
                file.plugins = try PluginSettings.read(object, base)
            },
            Key(name: "metrics") { file, root, key, base throws(SettingsError) in
                file.metricsFile = try root.object(key, keys: metricsKeys).flatMap { object throws(SettingsError) in
                    try metrics(object, base)
                }
            },
            Key(name: "trust") { file, root, key, base throws(SettingsError) in
                guard let object = try root.object(key, keys: TrustSetting.keys) else { return }
                file.trust = try TrustSetting.read(object, base)
            },
            Key(name: "agent_limit_rate") { file, root, key, _ throws(SettingsError) in
                file.agentRateLimit = try root.byteCount(key)
            },
        ]
        + RunKey.all.map { row in
            Key(name: row.name) { file, root, _, base throws(SettingsError) in try row.read(root, base, &file.run) }
        }

    private static func metrics(_ object: StrictObject, _ base: PathBase) throws(SettingsError) -> String? {
        guard let path = try object.path("textfile", base), let node = object.node("textfile") else { return nil }
        guard path.hasSuffix(".prom"), !path.hasSuffix("/.prom") else {
            throw object.fault(node, "textfile", "node_exporter only reads files whose names end in .prom")
        }
        return path
    }

    /// Largest file, in **bytes**.
    package static let maximumSize = 1 << 20

    /// Reads a file.
    ///
    /// - Parameters:
    ///   - path: Absolute.
    ///   - home: For paths that begin with `~/`.
    /// - Returns: `nil` when there is no such file.
    /// - Throws: ``SettingsError`` with path, line and key: it cannot be read, others may write to it or to its directory,
    ///   it holds anything unknown or malformed, or a secret although others may read it.
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

    /// Reads the files that count where nobody names one: each counts where those before it say nothing.
    ///
    /// - Parameters:
    ///   - paths: Absolute, the user's before the machine's. Those that do not exist say nothing.
    ///   - home: For paths that begin with `~/`.
    package static func usual(_ paths: [String], home: String?) throws(SettingsError) -> ConfigurationFile {
        var found = ConfigurationFile()
        for path in paths { if let lower = try read(path, home: home) { found.put(over: lower) } }
        return found
    }

    /// Puts what a lower file says where this one says nothing. Lists are put together, these first.
    private mutating func put(over lower: ConfigurationFile) {
        transfer = transfer.over(lower.transfer)
        hooks.merge(lower.hooks) { mine, _ in mine }
        plugins.directory = plugins.directory ?? lower.plugins.directory
        plugins.uses += lower.plugins.uses
        metricsFile = metricsFile ?? lower.metricsFile
        trust.pins.merge(lower.trust.pins) { mine, _ in mine }
        // Whoever of the two refuses: a file that says nothing about it cannot be told from one that accepts.
        if lower.trust.unsigned == .refuse { trust.unsigned = .refuse }
        for row in RunKey.all { row.merge(&run, lower.run) }
        agentRateLimit = agentRateLimit ?? lower.agentRateLimit
    }

    /// Reads the text of a file.
    ///
    /// - Parameters:
    ///   - bytes: The text.
    ///   - base: What paths in it are relative to.
    ///   - shown: The file's name for messages.
    package static func parse(_ bytes: [UInt8], base: PathBase, shown: String) throws(SettingsError)
        -> ConfigurationFile
    {
        let root = try StrictObject(text: bytes, keys: TransferKey.names + own.map(\.name), shown: shown)
        var file = ConfigurationFile()
        file.transfer = try TransferKey.read(root, base)
        for key in own { try key.read(&file, root, key.name, base) }
        return file
    }
}

import Foundation
import SyncAgent
package import SyncModel

/// How a run is done, put together from everywhere it is said: the command line, the configuration file and the environment,
/// in this order. The agent puts the same together from what is kept with a run.
@dynamicMemberLookup package struct RunSettings: Sendable {
    /// How to transfer, by the command line alone.
    package var said: TransferSettings
    /// How to transfer.
    package var transfer: TransferSettings
    /// What the names of hooks in manifests stand for.
    package var hooks: [String: RunHook]
    /// What the file says, but for the names of hooks and how to transfer.
    private var file: ConfigurationFile
    /// The configuration file that was read.
    package var source: Source

    /// Which configuration file is read.
    package enum Source: Sendable, Equatable {
        /// The user's and, below it, the machine's, if there are any.
        case usual
        case none
        /// This one, absolute.
        case named(String)
    }

    /// What settings are read from, besides the command line.
    package struct Environment: Sendable {
        /// For paths, and for `~/`.
        package var base: PathBase
        /// The configuration files that are read where nobody names one, the user's before the machine's.
        package var files: [String]
        /// Gives a variable's value.
        package var lookup: @Sendable (String) -> String?

        package init(base: PathBase, files: [String], lookup: @escaping @Sendable (String) -> String?) {
            self.base = base
            self.files = files
            self.lookup = lookup
        }
    }

    /// Reads the configuration file and the environment.
    ///
    /// - Parameter said: By the command line.
    /// - Throws: ``SettingsError`` for a file or a variable that cannot be used, and for a file that was named and is not
    ///   there.
    package init(_ said: TransferSettings, _ source: Source, _ environment: Environment) throws(SettingsError) {
        let found = try Self.file(source, environment)
        if case .named(let path) = source, found == nil {
            throw SettingsError("\(path): there is no such configuration file")
        }
        let file = found ?? ConfigurationFile()
        self.init(said, file, source)
        transfer = said.over(file.transfer).over(
            try TransferSettings(environment: environment.lookup, environment.base))
    }

    /// Puts together what the client of a run said: over the agent's own file and environment, or, where the client named a
    /// file or none, in their place.
    ///
    /// - Parameter text: What ``kept()`` made; `nil` for nothing.
    /// - Throws: ``SettingsError`` for a text, a file or a variable that cannot be used.
    package init(kept text: String?, _ environment: Environment) throws(SettingsError) {
        let kept = try text.map { text throws(SettingsError) in try KeptSettings(text) }
        guard let kept, kept.isWhole else {
            try self.init(kept?.transfer ?? TransferSettings(), .usual, environment)
            // What a person waits for says nothing about what nobody waits for: only what was said for this run counts.
            transfer.patience = said.patience
            return
        }
        let source = kept.file.map(Source.named) ?? .none
        // Its plugins and metrics are not kept: the settings of plugins may be secrets.
        self.init(kept.transfer, try Self.file(source, environment) ?? ConfigurationFile(), source)
        transfer = kept.transfer
        hooks = (kept.hooks ?? [:]).mapValues(\.hook)
    }

    private init(_ said: TransferSettings, _ file: ConfigurationFile, _ source: Source) {
        self.said = said
        self.source = source
        transfer = said
        hooks = file.hooks.mapValues(\.hook)
        self.file = file
    }

    /// What is said in the configuration file only.
    package subscript<Value>(dynamicMember path: WritableKeyPath<ConfigurationFile, Value>) -> Value {
        get { file[keyPath: path] }
        set { file[keyPath: path] = newValue }
    }

    private static func file(_ source: Source, _ environment: Environment) throws(SettingsError) -> ConfigurationFile? {
        switch source {
        case .none: nil
        case .usual: try ConfigurationFile.usual(environment.files, home: environment.base.home)
        case .named(let path): try ConfigurationFile.read(path, home: environment.base.home)
        }
    }

    /// The text that is kept with a run, for whoever works on it: JSON without secrets.
    ///
    /// - Throws: ``SettingsError`` that names the settings which hold a secret themselves.
    package func kept() throws(SettingsError) -> String {
        var kept = KeptSettings(transfer: said, isWhole: false)
        if source != .usual {
            kept = KeptSettings(transfer: transfer, isWhole: true, hooks: hooks.mapValues(HookSetting.init))
            if case .named(let path) = source { kept.file = path }
        }
        return try kept.text()
    }
}

/// How the transfers of a run are made, as it is kept with the run.
struct KeptSettings: Codable, Sendable, Equatable {
    /// What was said; see ``isWhole``.
    var transfer: TransferSettings
    /// Whether that is everything, configuration file and environment of the client included, because the client
    /// named a file, or none. Otherwise it is the command line alone, over the agent's own file and environment.
    var isWhole: Bool
    /// What the names of hooks in manifests stand for, where ``isWhole``; otherwise the agent's own file says it.
    var hooks: [String: HookSetting]?
    /// The configuration file that says which plugins are used, where the client named one. Its text is not kept.
    var file: String?
}

extension KeptSettings {
    init(_ text: String) throws(SettingsError) {
        do {
            _ = try StrictJSON.read(Array(text.utf8))
            self = try JSONDecoder().decode(Self.self, from: Data(text.utf8))
        } catch { throw SettingsError("The run's settings cannot be read: \(escaped("\(error)")).") }
    }

    /// - Throws: ``SettingsError`` for settings with ``TransferSettings/inlineSecrets``: what is kept on disk is no place for
    ///   them.
    func text() throws(SettingsError) -> String {
        guard transfer.inlineSecrets.isEmpty else {
            let names = transfer.inlineSecrets.joined(separator: " and ")
            throw SettingsError("\(escaped(names)) cannot be stored with the run; put it in a file and name the file")
        }
        do {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            return String(decoding: try encoder.encode(self), as: UTF8.self)
        } catch { throw SettingsError("the settings cannot be kept: \(escaped("\(error)"))") }
    }
}

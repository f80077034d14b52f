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
    package private(set) var file: ConfigurationFile
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

    /// Reads the configuration file and the environment.
    ///
    /// - Parameter said: By the command line.
    /// - Throws: ``SettingsError`` for a file or a variable that cannot be used, and for a file that was named and is not
    ///   there.
    package init(_ said: TransferSettings, _ source: Source, _ host: HostEnvironment) throws(SettingsError) {
        let found = try Self.file(source, host)
        if case .named(let path) = source, found == nil {
            throw SettingsError("\(path): there is no such configuration file")
        }
        let file = found ?? ConfigurationFile()
        self.init(said, file, source)
        transfer = said.over(file.transfer).over(try TransferSettings(environment: host.lookup, host.base))
    }

    /// Puts together what the client of a run said: over the agent's own file and environment, or, where the client named a
    /// file or none, in their place.
    ///
    /// - Throws: ``SettingsError`` for a file or a variable that cannot be used.
    package init(of recipe: RunRecipe?, _ host: HostEnvironment) throws(SettingsError) {
        let said = recipe?.settings ?? TransferSettings()
        if let own = recipe?.configuration {
            let source = own.file.map(Source.named) ?? .none
            // Its plugins and metrics are not kept: the settings of plugins may be secrets.
            self.init(said, try Self.file(source, host) ?? ConfigurationFile(), source)
            hooks = own.hooks
            return
        }
        try self.init(said, .usual, host)
        // What a person waits for says nothing about what nobody waits for: only what was said for this run counts.
        transfer.patience = said.patience
        transfer.limit(to: file.transfer)
    }

    /// What is said, and nothing else.
    package init(_ said: TransferSettings) { self.init(said, ConfigurationFile(), .none) }

    private init(_ said: TransferSettings, _ file: ConfigurationFile, _ source: Source) {
        (self.said, self.source) = (said, source)
        transfer = said
        hooks = file.hooks
        self.file = file
    }

    /// What is said in the configuration file only.
    package subscript<Value>(dynamicMember path: WritableKeyPath<ConfigurationFile, Value>) -> Value {
        get { file[keyPath: path] }
        set { file[keyPath: path] = newValue }
    }

    private static func file(_ source: Source, _ host: HostEnvironment) throws(SettingsError) -> ConfigurationFile? {
        switch source {
        case .none: nil
        case .usual: try ConfigurationFile.usual(host.files, home: host.base.home)
        case .named(let path): try ConfigurationFile.read(path, home: host.base.home)
        }
    }

    /// Puts into a recipe what is kept with it, for whoever works on it.
    ///
    /// - Throws: ``SettingsError`` that names the settings which hold a secret themselves: what is kept is no place for them.
    package func keep(in recipe: inout RunRecipe) throws(SettingsError) {
        recipe.settings = said
        if source != .usual {
            recipe.settings = transfer
            var file: String?
            if case .named(let path) = source { file = path }
            recipe.configuration = RunConfiguration(file: file, hooks: hooks)
        }
        guard recipe.settings.inlineSecrets.isEmpty else {
            let names = recipe.settings.inlineSecrets.joined(separator: " and ")
            throw SettingsError("\(escaped(names)) cannot be stored with the run; put it in a file and name the file")
        }
    }
}

/// What settings are read from besides the command line, and where programs of plugins are.
package struct HostEnvironment: Sendable {
    /// For paths, and for `~/`.
    package var base: PathBase
    /// The configuration files that are read where nobody names one, the user's before the machine's.
    package var files: [String] = []
    /// Gives a variable's value.
    package var lookup: @Sendable (String) -> String?
    /// What programs get some of.
    package var variables: [String: String]
    /// Where plugins are looked for, unless the configuration says another place.
    package var pluginDirectory = "/nonexistent"
    /// Where plugins get a private directory.
    package var runtimeDirectory = "/tmp"

    /// With nothing to read but what `lookup` says.
    package init(
        base: PathBase, variables: [String: String], lookup: @escaping @Sendable (String) -> String? = { _ in nil }
    ) { (self.base, self.variables, self.lookup) = (base, variables, lookup) }
}

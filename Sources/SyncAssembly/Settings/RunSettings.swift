package import SyncModel

/// How to do a run, combined from the command line, the configuration file and the environment, in this order. The
/// agent combines the same from what is kept with a run.
@dynamicMemberLookup package struct RunSettings: Sendable {
    /// The transfer settings of the command line alone.
    package var said: TransferSettings
    /// The transfer settings.
    package var transfer: TransferSettings
    /// The hooks, by the names that manifests use.
    package var hooks: [String: RunHook]
    /// The content of the file, except for the names of hooks and the transfer settings.
    package private(set) var file: ConfigurationFile
    /// The configuration file that was read.
    package var source: Source

    /// Which configuration file is read.
    package enum Source: Sendable, Equatable {
        /// The user's and, below it, the machine's, if they exist.
        case usual
        case none
        /// The file at this path, absolute.
        case named(String)
    }

    /// Reads the configuration file and the environment.
    ///
    /// - Parameter said: The settings of the command line.
    /// - Throws: ``SettingsError`` for a file or a variable that cannot be used, and for a named file that does not
    ///   exist.
    package init(_ said: TransferSettings, _ source: Source, _ host: HostEnvironment) throws(SettingsError) {
        let file = try Self.file(source, host)
        self.init(said, file, source)
        transfer = said.over(file.transfer).over(try TransferSettings(environment: host.lookup, host.base))
    }

    /// Combines the settings of a run's client with the agent's own file and environment. If the client named a file,
    /// or none, that takes their place.
    ///
    /// - Throws: ``SettingsError`` for a file or a variable that cannot be used, and for a named file that does not
    ///   exist: without it the run would go on without its plugins.
    package init(of recipe: RunRecipe?, _ host: HostEnvironment) throws(SettingsError) {
        let said = recipe?.settings ?? TransferSettings()
        if let own = recipe?.configuration {
            let source = own.file.map(Source.named) ?? .none
            // Its plugins and metrics are not kept: the settings of plugins may be secrets.
            self.init(said, try Self.file(source, host), source)
            hooks = own.hooks
            return
        }
        try self.init(said, .usual, host)
        // The patience of a person does not apply to runs that nobody waits for: only that of this run counts.
        transfer.patience = said.patience
        transfer.limit(to: file.transfer)
    }

    /// Has the given settings only.
    package init(_ said: TransferSettings) { self.init(said, ConfigurationFile(), .none) }

    private init(_ said: TransferSettings, _ file: ConfigurationFile, _ source: Source) {
        (self.said, self.source) = (said, source)
        transfer = said
        hooks = file.hooks
        self.file = file
    }

    /// A setting that only the configuration file has.
    package subscript<Value>(dynamicMember path: WritableKeyPath<ConfigurationFile, Value>) -> Value {
        get { file[keyPath: path] }
        set { file[keyPath: path] = newValue }
    }

    private static func file(_ source: Source, _ host: HostEnvironment) throws(SettingsError) -> ConfigurationFile {
        switch source {
        case .none: return ConfigurationFile()
        case .usual: return try ConfigurationFile.usual(host.files, home: host.base.home)
        case .named(let path):
            if let file = try ConfigurationFile.read(path, home: host.base.home) { return file }
            throw SettingsError("\(escaped(path)): there is no such configuration file")
        }
    }

    /// Puts the settings that are kept with a run into its recipe, for the process that works on it.
    ///
    /// - Throws: ``SettingsError`` that names the settings which hold a secret themselves: secrets are not kept with a
    ///   run.
    package func keep(in recipe: inout RunRecipe) throws(SettingsError) {
        put(in: &recipe)
        guard recipe.settings.inlineSecrets.isEmpty else {
            let names = recipe.settings.inlineSecrets.joined(separator: " and ")
            throw SettingsError("\(escaped(names)) cannot be stored with the run; put it in a file and name the file")
        }
    }

    /// The same for a run in the foreground, in case an agent has to continue it: without the file that it was given,
    /// it would lose the file's plugins. Secrets are left out, and so are a person's deadline and patience.
    package func keepForAgent(in recipe: inout RunRecipe) {
        let planned = recipe.settings.connections
        put(in: &recipe)
        recipe.settings.removeInlineSecrets()
        recipe.settings.connections = planned
        (recipe.settings.deadline, recipe.settings.patience) = (nil, nil)
    }

    private func put(in recipe: inout RunRecipe) {
        recipe.settings = said
        guard source != .usual else { return }
        recipe.settings = transfer
        var file: String?
        if case .named(let path) = source { file = path }
        recipe.configuration = RunConfiguration(file: file, hooks: hooks)
    }
}

/// The sources of settings besides the command line, and the directories of plugins.
package struct HostEnvironment: Sendable {
    /// The base of relative paths, and of `~/`.
    package var base: PathBase
    /// The configuration files to read if none is named, the user's before the machine's.
    package var files: [String] = []
    /// Returns a variable's value.
    package var lookup: @Sendable (String) -> String?
    /// The environment from which programs get some variables.
    package var variables: [String: String]
    /// The directory of plugins, unless the configuration names another.
    package var pluginDirectory = "/nonexistent"
    /// The directory where plugins get a private directory.
    package var runtimeDirectory = "/tmp"

    /// Makes an environment with nothing to read but what `lookup` returns.
    package init(
        base: PathBase, variables: [String: String], lookup: @escaping @Sendable (String) -> String? = { _ in nil }
    ) { (self.base, self.variables, self.lookup) = (base, variables, lookup) }
}

package import SyncModel
package import SyncPluginHost
package import SyncPlugins
package import SyncSchedule
import SyncSystem

/// The condition plugins of an agent: each is made once and lives until the configuration says something else of it,
/// so that one that is a program is not started for every look.
package struct ConditionPlugins: Sendable {
    private let host: HostEnvironment
    /// The places that built-in conditions read.
    private let machine: MachinePlaces
    private let settings: @Sendable (RunRecipe) throws(SettingsError) -> PluginSettings
    private let notice: @Sendable (PluginNotice) -> Void
    /// The conditions, and what they were made of.
    private let made = Monitor<[String: (use: PluginSettings.Use, directory: String?, condition: any Condition)]>([:])

    /// - Parameters:
    ///   - settings: Returns the present configuration for a run.
    ///   - notice: Receives notices about programs.
    package init(
        on host: HostEnvironment, _ machine: MachinePlaces,
        settings: @escaping @Sendable (RunRecipe) throws(SettingsError) -> PluginSettings,
        notice: @escaping @Sendable (PluginNotice) -> Void
    ) { (self.host, self.machine, self.settings, self.notice) = (host, machine, settings, notice) }

    /// The conditions of a run.
    ///
    /// - Throws: ``PluginError`` for a plugin that is not available; it lists the built-in ones.
    package func check(_ run: RunRecipe, blockedSince: [String: Int64]) throws(PluginError) -> ConditionCheck {
        let wanted = run.conditions
        var plugins: [any Condition] = []
        for command in wanted.programs {
            let program = try SmallProgram(
                command, destination: nil, limit: ProgramCondition.limit, environment: host.variables)
            plugins.append(ProgramCondition(program))
        }
        for name in wanted.plugins { plugins.append(try condition(name, run)) }
        return try ConditionCheck(wanted, on: machine, plugins: plugins, blockedSince: blockedSince)
    }

    private func condition(_ name: String, _ run: RunRecipe) throws(PluginError) -> any Condition {
        if builtInConditions.contains(name) { return try builtInCondition(name, for: run.conditions, on: machine) }
        let settings = try rethrowing(settings(run)) { (error: SettingsError) in
            PluginError(plugin: name, code: .unavailable, message: error.description)
        }
        let use =
            settings.uses(of: .condition).first { $0.name == name }
            ?? PluginSettings.Use(plugin: name, point: .condition)
        if let known = made.withLock({ $0[name] }), known.use == use, known.directory == settings.directory {
            return known.condition
        }
        let context = PluginContext(settings: settings, host: host, notice: notice)
        let client = try rethrowing(context.client(use)) { (error: PluginError) in
            error.naming(builtIn: builtInConditions)
        }
        let condition = PluginCondition(client, name: name)
        made.withLock { $0[name] = (use, settings.directory, condition) }
        return condition
    }
}

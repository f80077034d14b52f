package import SyncAgent
package import SyncModel
package import SyncPluginHost
package import SyncPlugins
package import SyncSchedule
package import SyncSettings
import SyncSystem

/// The condition plugins of an agent: each is made once and lives as long as the agent does, so that one that is a
/// program is not started for every look.
package struct ConditionPlugins: Sendable {
    /// Where programs are.
    private let place: PluginPlace
    /// Where built-in conditions look.
    private let machine: MachinePlaces
    private let settings: @Sendable () throws(SettingsError) -> PluginSettings
    private let notice: @Sendable (PluginNotice) -> Void
    private let made = Monitor<[String: any Condition]>([:])

    /// - Parameters:
    ///   - settings: The agent's configuration, as it is now.
    ///   - notice: Told of what happens to programs.
    package init(
        in place: PluginPlace, on machine: MachinePlaces,
        settings: @escaping @Sendable () throws(SettingsError) -> PluginSettings,
        notice: @escaping @Sendable (PluginNotice) -> Void
    ) {
        self.place = place
        self.machine = machine
        self.settings = settings
        self.notice = notice
    }

    /// The conditions of a run.
    ///
    /// - Throws: ``ControlError`` for a plugin that cannot be had; it lists the built-in ones.
    package func check(_ wanted: RunConditions, blockedSince: [String: Int64]) throws(ControlError) -> ConditionCheck {
        do throws(PluginError) {
            var plugins: [any Condition] = []
            for command in wanted.programs {
                let program = try SmallProgram(
                    command, destination: nil, limit: ProgramCondition.limit, environment: place.environment)
                plugins.append(ProgramCondition(program))
            }
            for name in wanted.plugins { plugins.append(try condition(name, wanted)) }
            return try ConditionCheck(wanted, on: machine, plugins: plugins, blockedSince: blockedSince)
        } catch { throw ControlError(.invalid, "\(error)", exitStatus: .configuration) }
    }

    private func condition(_ name: String, _ wanted: RunConditions) throws(PluginError) -> any Condition {
        if builtInConditions.names.contains(name) {
            return try builtInConditions.make(name, ConditionSettings(wanted, on: machine))
        }
        if let known = made.withLock({ $0[name] }) { return known }
        let settings = try rethrowing(settings()) { (error: SettingsError) in
            PluginError(plugin: name, code: .unavailable, message: error.description)
        }
        let use =
            settings.uses(of: .condition).first { $0.name == name }
            ?? PluginSettings.Use(plugin: name, point: .condition)
        let client = try rethrowing(place.client(use, in: settings, destination: nil, notice: notice)) {
            (error: PluginError) in error.naming(builtIn: builtInConditions.names)
        }
        let condition = PluginCondition(client, name: name)
        made.withLock { $0[name] = condition }
        return condition
    }
}

extension PluginError {
    /// The same, with what there is besides programs.
    package func naming(builtIn names: [String]) -> PluginError {
        let text = "\(message); built in: \(names.joined(separator: ", "))"
        return PluginError(plugin: plugin, code: code, message: text)
    }
}

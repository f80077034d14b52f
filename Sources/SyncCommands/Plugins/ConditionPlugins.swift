import SyncConditions
import SyncControl
import SyncModel
import SyncPluginProcess
import SyncPlugins
import SyncSettings
import SyncSystem

/// The condition plugins of an agent: each is made once and lives as long as the agent does, so that one that is a
/// program is not started for every look.
final class ConditionPlugins: Sendable {
    private let place: PluginPlace
    private let machine: MachinePlaces
    private let settings: @Sendable () -> Result<PluginSettings, SettingsError>
    private let notice: @Sendable (PluginNotice) -> Void
    private let made = Mutex<[String: any Condition]>([:])

    /// - Parameters:
    ///   - place: Where programs are.
    ///   - machine: Where built-in conditions look.
    ///   - settings: The agent's configuration, as it is now.
    ///   - notice: Told of what happens to programs.
    init(
        place: PluginPlace,
        machine: MachinePlaces,
        settings: @escaping @Sendable () -> Result<PluginSettings, SettingsError>,
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
    func check(_ wanted: RunConditions, blockedSince: [String: Int64]) throws(ControlError) -> ConditionCheck
    {
        do throws(PluginError) {
            var plugins: [any Condition] = []
            for command in wanted.programs {
                let program = try SmallProgram(
                    command,
                    destination: nil,
                    limit: ProgramCondition.limit,
                    environment: place.environment
                )
                plugins.append(ProgramCondition(program))
            }
            for name in wanted.plugins { plugins.append(try condition(name, wanted)) }
            return try ConditionCheck(wanted, on: machine, plugins: plugins, blockedSince: blockedSince)
        } catch {
            throw ControlError(.invalid, "\(error)", exitStatus: .configuration)
        }
    }

    private func condition(_ name: String, _ wanted: RunConditions) throws(PluginError) -> any Condition {
        if builtInConditions.names.contains(name) {
            return try builtInConditions.make(name, ConditionSettings(wanted, on: machine))
        }
        if let known = made.withLock({ $0[name] }) { return known }
        let settings: PluginSettings
        do throws(SettingsError) {
            settings = try self.settings().get()
        } catch {
            throw PluginError(plugin: name, code: .unavailable, message: error.description)
        }
        let use =
            settings.uses(of: .condition).first { $0.name == name }
            ?? PluginSettings.Use(plugin: name, point: .condition)
        let client: PluginClient
        do throws(PluginError) {
            client = try place.client(use, in: settings, destination: nil, notice: notice)
        } catch {
            let known = builtInConditions.names.joined(separator: ", ")
            let text = "\(error.message); built in: \(known)"
            throw PluginError(plugin: error.plugin, code: error.code, message: text)
        }
        let condition = PluginCondition(client, name: name)
        made.withLock { $0[name] = condition }
        return condition
    }
}

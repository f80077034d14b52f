import SyncEngine
import SyncModel
package import SyncPluginHost
package import SyncPlugins
import SyncSettings
import SyncSystem

/// Where programs of plugins are, and what they are given.
package struct PluginPlace: Sendable {
    /// Where they are looked for, unless the configuration says another place.
    package var directory: String
    /// Where they get a private directory.
    package var runtimeDirectory: String
    package var environment: [String: String]

    package init(directory: String, runtimeDirectory: String, environment: [String: String]) {
        self.directory = directory
        self.runtimeDirectory = runtimeDirectory
        self.environment = environment
    }

    func client(
        _ use: PluginSettings.Use, in settings: PluginSettings, destination: String?,
        notice: @escaping @Sendable (PluginNotice) -> Void
    ) throws(PluginError) -> PluginClient {
        let program = try PluginProgram(
            use.plugin, directory: settings.directory ?? directory, destination: destination)
        var configuration = configuration(program, use.point, notice: notice)
        configuration.settings = use.settings
        configuration.destination = destination
        configuration.runtimeDirectory = runtimeDirectory
        // An agent keeps its conditions for weeks; the plugins of a run end with it.
        if use.point == .condition { configuration.restart.rest = .seconds(600) }
        if let timeout = use.timeout { configuration.limits.request = .seconds(timeout) }
        return PluginClient(configuration)
    }

    /// - Parameter point: `nil` for a program that is only asked what it is.
    package func configuration(
        _ program: PluginProgram, _ point: PluginPoint?, notice: @escaping @Sendable (PluginNotice) -> Void
    ) -> PluginConfiguration {
        PluginConfiguration(
            program: program, point: point, environment: environment, version: syncagentVersion, notice: notice)
    }
}

extension PluginNotice {
    /// For people.
    package var line: String { "plugin \(plugin): \(text)" }

    /// What plugins do besides answering: an event that belongs to no run's record.
    var event: SyncEvent {
        SyncEvent(.pluginNotice, time: SystemTime.milliseconds(), note: line) {
            $0.field("plugin", plugin)
            $0.field("kind", kind.rawValue)
            $0.field("text", text)
        }
    }
}

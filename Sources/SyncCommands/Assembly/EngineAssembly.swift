import Foundation
import SyncAssembly
import SyncEngine
import SyncModel
import SyncPlugins
import SyncSettings
import SyncStore
import SyncSystem
import SyncTransfer

/// Puts an engine together as settings and a recipe say, with the plugins of the configuration.
struct EngineAssembly: Sendable {
    /// Where sessions, events and cached manifests are kept, absolute.
    let store: SyncStore
    let tuning: EngineTuning
    let listener: @Sendable (SyncEvent) -> Void
    let progress: @Sendable (PullProgress) -> Void

    /// An engine and the plugins that end after it.
    struct Parts: Sendable {
        let assembled: AssembledEngine
        fileprivate let plugins: PluginAssembly
    }

    /// Makes an engine that stops when `stop` says so.
    ///
    /// - Parameter isStopped: The same for programs that look at files, where another request may take its place; `nil`
    ///   where none does.
    func parts(stop: StopRequest, isStopped: (@Sendable () -> Bool)? = nil) throws(CommandFailure) -> Parts {
        let configuration = try Self.configuration(tuning) { _ in }
        let plugins = try PluginAssembly(
            tuning,
            web: configuration,
            isStopped: isStopped ?? { stop.isStopped },
            notice: { [listener] in listener($0.event) }
        )
        do throws(TransferError) {
            let assembled = try AssembledEngine(
                store: store,
                stateDirectory: tuning.stateDirectory,
                web: configuration,
                plugins: plugins.made,
                stop: stop,
                listener: listener,
                progress: progress,
                adjust: { environment in
                    environment.namedHooks = tuning.settings.hooks
                    environment.trust = tuning.trust
                    environment.manifestLimits = tuning.manifestLimits
                }
            )
            return Parts(assembled: assembled, plugins: plugins)
        } catch {
            throw CommandFailure(.configuration, "\(error)")
        }
    }

    /// Ends an engine and its plugins.
    ///
    /// - Parameter isStopped: Whether somebody has asked for it.
    func end(_ parts: Parts, isStopped: Bool) {
        keepMetrics()
        parts.assembled.end(isStopped: isStopped)
        parts.plugins.close()
    }

    /// Puts metrics where they are wanted. That they cannot be written must not fail what was done.
    private func keepMetrics() {
        guard let path = tuning.settings.metricsFile else { return }
        do throws(CommandFailure) {
            try MetricsFile(path: path).write(store)
        } catch {
            listener(
                SyncEvent(.metricsFailed, time: Self.milliseconds(), note: "metrics: \(error.message)") {
                    $0.field("reason", error.message)
                }
            )
        }
    }

    /// What a transport may do, as `tuning` says.
    static func configuration(
        _ tuning: EngineTuning,
        events: @escaping @Sendable (TransferEvent) -> Void
    ) throws(CommandFailure) -> TransportConfiguration {
        var configuration = BuiltInPlugins.plainConfiguration
        configuration.events = events
        configuration.userAgent = "syncagent/\(syncagentVersion)"
        try tuning.apply(to: &configuration)
        return configuration
    }

    static func openStore(_ directory: String, warn: (String) -> Void) throws(CommandFailure) -> SyncStore {
        try translating(openState(directory, warn: warn))
    }

    /// **Milliseconds** since 1970.
    static func milliseconds() -> Int64 { SystemTime.milliseconds() }
}

package import SyncAssembly
package import SyncEngine
import SyncModel
package import SyncPlugins
import SyncSettings
package import SyncStore
import SyncSystem
package import SyncTransfer

/// Puts an engine together as settings and a recipe say, with the plugins of the configuration.
package struct EngineAssembly: Sendable {
    private let store: SyncStore
    private let tuning: EngineTuning
    private let plugins: PluginPlace
    private let listener: @Sendable (SyncEvent) -> Void
    private let progress: @Sendable (PullProgress) -> Void
    private let metrics: (@Sendable (SyncStore) throws(EngineError) -> Void)?

    /// - Parameters:
    ///   - store: Where sessions and events are kept.
    ///   - plugins: Where programs of plugins are.
    ///   - listener: Told of every event.
    ///   - progress: Told how far things are.
    ///   - metrics: Puts metrics where they are wanted, after each engine; `nil` where they are not.
    package init(
        store: SyncStore, tuning: EngineTuning, plugins: PluginPlace, listener: @escaping @Sendable (SyncEvent) -> Void,
        progress: @escaping @Sendable (PullProgress) -> Void,
        metrics: (@Sendable (SyncStore) throws(EngineError) -> Void)?
    ) {
        self.store = store
        self.tuning = tuning
        self.plugins = plugins
        self.listener = listener
        self.progress = progress
        self.metrics = metrics
    }

    /// An engine and the plugins that end after it.
    package struct Parts: Sendable {
        package let assembled: AssembledEngine
        fileprivate let plugins: PluginAssembly
    }

    /// Makes an engine that stops when `stop` says so.
    ///
    /// - Parameter isStopped: The same for programs that look at files, where another request may take its place; `nil`
    ///   where none does.
    ///
    /// - Throws: ``/SyncEngine/EngineError`` with status 78 for plugins and settings that cannot be used.
    package func parts(stop: StopRequest, isStopped: (@Sendable () -> Bool)? = nil) throws(EngineError) -> Parts {
        let configuration = try Self.configuration(tuning) { _ in }
        let plugins = try PluginAssembly(
            tuning, in: self.plugins, web: configuration, isStopped: isStopped ?? { stop.isStopped },
            notice: { [listener] in listener($0.event) })
        do throws(TransferError) {
            let assembled = try AssembledEngine(
                store: store, stateDirectory: tuning.stateDirectory, web: configuration, plugins: plugins.made,
                stop: stop, listener: listener, progress: progress,
                adjust: { environment in
                    environment.namedHooks = tuning.settings.hooks
                    environment.trust = tuning.trust
                    environment.manifestLimits = tuning.manifestLimits
                })
            return Parts(assembled: assembled, plugins: plugins)
        } catch { throw EngineError(.configuration, "\(error)") }
    }

    /// Ends an engine and its plugins.
    ///
    /// - Parameter isStopped: Whether somebody has asked for it.
    package func end(_ parts: Parts, isStopped: Bool) {
        keepMetrics()
        parts.assembled.end(isStopped: isStopped)
        parts.plugins.close()
    }

    /// That metrics cannot be written must not fail what was done.
    private func keepMetrics() {
        do throws(EngineError) { try metrics?(store) } catch {
            listener(
                SyncEvent(.metricsFailed, time: SystemTime.milliseconds(), note: "metrics: \(error.message)") {
                    $0.field("reason", error.message)
                })
        }
    }

    /// What a transport may do, as `tuning` says.
    ///
    /// - Throws: ``/SyncEngine/EngineError`` with status 78 for settings that cannot be used.
    package static func configuration(_ tuning: EngineTuning, events: @escaping @Sendable (TransferEvent) -> Void)
        throws(EngineError) -> TransportConfiguration
    {
        var configuration = BuiltInPlugins.plainConfiguration
        configuration.events = events
        configuration.userAgent = "syncagent/\(syncagentVersion)"
        try tuning.apply(to: &configuration)
        return configuration
    }
}

import Foundation
import SyncCompression
import SyncEngine
import SyncHooks
import SyncModel
import SyncPlugins
import SyncSettings
import SyncStore
import SyncSystem
import SyncTransfer

/// Puts an engine together: transports, clock, store and hooks. The one place where the engine meets libcurl and
/// processes, for commands and for the agent.
struct EngineAssembly: Sendable {
    /// Where sessions, events and cached manifests are kept, absolute.
    let store: SyncStore
    let tuning: EngineTuning
    /// Told of every event.
    let listener: @Sendable (SyncEvent) -> Void
    /// Told how far things are.
    let progress: @Sendable (PullProgress) -> Void

    /// An engine and the transport that must be shut down after it.
    struct Parts: Sendable {
        let engine: PullEngine
        /// Everything that brings bytes.
        let transport: any Transport
        /// The one for http and https.
        let web: CurlTransport
        let plugins: PluginAssembly
        let feeds: [ObserverFeed]

        /// Body **bytes** received so far.
        var received: UInt64 { transport.totals.bytesReceived }

        /// Changes the limit of all transfers together, in **bytes** a second; `nil` for none.
        func setRateLimit(_ rate: UInt64?) { web.setRateLimit(rate) }
    }

    /// Makes an engine that stops when `stop` says so.
    ///
    /// - Throws: ``CommandFailure`` with status 78 for settings that libcurl refuses.
    func parts(stop: StopRequest) throws(CommandFailure) -> Parts {
        let place = EnvironmentPaths.ofProcess.pluginPlace
        let teller = PluginTeller(listener)
        var configuration = try Self.configuration(tuning) { _ in }
        let plugins = try PluginAssembly(
            tuning.settings.plugins,
            PluginAssembly.Context(
                place: place,
                destination: tuning.destination,
                verifiers: tuning.verifiers,
                isStopped: { stop.isStopped },
                web: configuration,
                notice: teller.tell
            )
        )
        let feeds = plugins.observers.map { entry in
            ObserverFeed(entry.observer, names: entry.names, failed: teller.observerFailed)
        }
        let events = EventRecorder { [listener] event in
            listener(event)
            for feed in feeds { feed.tell(event) }
        }
        let waits = TransferWaits(attempts: configuration.retry.attempts)
        configuration.events = { event in
            let time = Self.milliseconds()
            waits.note(event, time: time)
            events.tell(transfer: event, time: time)
        }
        configuration.hostRecords = hostRecords()
        configuration.links = links?.read(now: Self.clock.unixTime()) ?? []
        configuration.resolvers = plugins.resolvers
        configuration.credentialProviders = plugins.credentialProviders
        let web = try Self.transport(configuration)
        let transport: any Transport =
            plugins.transports.isEmpty
            ? web : RoutedTransport(plugins.transports, others: web, policy: configuration.redirects)
        var environment = EngineEnvironment(
            transport: transport,
            localTransport: FileTransport(),
            now: Self.milliseconds,
            random: { .random(in: .min ... .max) },
            workers: max(2, ProcessInfo.processInfo.activeProcessorCount),
            process: getpid(),
            store: store,
            stateDirectory: tuning.stateDirectory,
            events: events,
            progress: { [progress] step in
                var step = step
                step.wait = waits.current(received: step.received)
                progress(step)
            },
            hooks: Self.hooks(plugins, configuration),
            stop: stop
        )
        environment.keep = { [self] in keepLinks(of: web) }
        environment.namedHooks = tuning.settings.hooks
        environment.trust = tuning.trust
        environment.manifestLimits = tuning.manifestLimits
        environment.verifications = plugins.verifications
        return Parts(
            engine: PullEngine(environment),
            transport: transport,
            web: web,
            plugins: plugins,
            feeds: feeds
        )
    }

    /// Programs by path, webhooks by URL, plugins by name.
    private static func hooks(
        _ plugins: PluginAssembly,
        _ configuration: TransportConfiguration
    ) -> any GroupHook {
        let webhook = WebhookHook(configuration)
        let named = NamedPluginHook(plugins.hooks)
        return HookDispatch(
            [
                HookDispatch.Route(webhook) { WebhookHook.isFor($0) },
                HookDispatch.Route(named) { hookPlugin($0) != nil },
            ],
            others: ProgramHook(environment: ProcessInfo.processInfo.environment)
        )
    }

    /// Ends an engine's transport, and keeps what it has learnt about hosts for the next process. What cannot be
    /// kept is learnt again.
    ///
    /// - Parameter isStopped: Whether somebody has asked for it.
    func end(_ parts: Parts, isStopped: Bool) {
        defer {
            // An observer that hears nothing keeps nobody who was asked to stop.
            let patience = isStopped ? Duration.milliseconds(300) : .seconds(5)
            for feed in parts.feeds { feed.close(patience: patience) }
            parts.transport.shutdown()
            keepLinks(of: parts.web)
            parts.plugins.close()
        }
        keepMetrics()
        for record in parts.web.hostRecords {
            let memory = HostMemory(
                connections: record.score.connections ?? 0,
                firstByte: 0,
                rate: Int64(clamping: UInt64(max(0, record.score.rate ?? 0)))
            )
            guard memory.connections > 0 || memory.rate > 0 else { continue }
            try? store.remember(memory, of: record.origin, now: Self.milliseconds())
        }
    }

    /// Where redirects lead, from process to process; `nil` where nothing is kept.
    private var links: LinkFile? { store.directory.map { LinkFile(stateDirectory: $0) } }

    /// Keeps what redirects have taught. What cannot be kept is learnt again.
    private func keepLinks(of web: CurlTransport) {
        guard let links, let changes = web.takeLinks() else { return }
        try? links.add(changes, now: Self.clock.unixTime())
    }

    /// Puts metrics where they are wanted. That they cannot be written must not fail what was done.
    private func keepMetrics() {
        guard let path = tuning.settings.metricsFile else { return }
        do throws(CommandFailure) {
            try MetricsFile(path: path).write(store)
        } catch {
            listener(
                SyncEvent("metrics.failed", time: Self.milliseconds(), note: "metrics: \(error.message)") {
                    $0.field("reason", error.message)
                }
            )
        }
    }

    /// What a transport may do, as `tuning` says.
    ///
    /// - Throws: ``CommandFailure`` with status 78 for a file that cannot be used.
    static func configuration(
        _ tuning: EngineTuning,
        events: @escaping @Sendable (TransferEvent) -> Void
    ) throws(CommandFailure) -> TransportConfiguration {
        var configuration = TransportConfiguration(
            clock: clock,
            random: { .random(in: .min ... .max) },
            events: events
        )
        configuration.userAgent = "syncagent/\(syncagentVersion)"
        try tuning.apply(to: &configuration)
        return configuration
    }

    /// - Throws: ``CommandFailure`` with status 78 for settings that libcurl refuses.
    static func transport(_ configuration: TransportConfiguration) throws(CommandFailure) -> CurlTransport {
        do throws(TransferError) {
            return try CurlTransport(configuration: configuration)
        } catch {
            throw CommandFailure(.configuration, "\(error)")
        }
    }

    private func hostRecords() -> [HostRecord] {
        // Without memory everything is measured anew.
        ((try? store.memories()) ?? [:]).map { origin, memory in
            var score = HostScore()
            score.connections = memory.connections > 0 ? memory.connections : nil
            score.rate = memory.rate > 0 ? Double(memory.rate) : nil
            return HostRecord(origin: origin, score: score)
        }
    }

    /// Opens the state of a user.
    ///
    /// - Throws: ``CommandFailure`` with status 73 or 74.
    static func openStore(_ directory: String, warn: (String) -> Void) throws(CommandFailure) -> SyncStore {
        do throws(StoreError) {
            let store = try SyncStore.open(
                directory: directory,
                now: milliseconds(),
                compression: compression
            )
            if case .rebuilt(let path) = store.opening {
                warn("the state was damaged and is kept as \(escaped(path)); sessions and events begin anew")
            }
            return store
        } catch {
            throw CommandFailure(error.status, error.message)
        }
    }

    private static let compression = EventCompression(
        compress: { bytes in
            guard bytes.count > 200, var compressor = try? ZstdCompressor(level: 1) else { return nil }
            var isSmaller = false
            let small = [UInt8](unsafeUninitializedCapacity: bytes.count) { buffer, used in
                let count = bytes.withUnsafeBytes {
                    try? compressor.encode($0, into: UnsafeMutableRawBufferPointer(buffer))
                }
                used = count.flatMap { $0 } ?? 0
                isSmaller = used > 0
            }
            return isSmaller ? small : nil
        },
        decompress: { bytes, limit in bytes.withUnsafeBytes { try? decodeZstd($0, limit: limit) } }
    )

    /// **Milliseconds** since 1970.
    static func milliseconds() -> Int64 { Int64((Date().timeIntervalSince1970 * 1000).rounded()) }

    static var clock: TransportClock {
        let start = ContinuousClock.now
        return TransportClock(
            now: { ContinuousClock.now - start },
            unixTime: { Int64(Date().timeIntervalSince1970) }
        )
    }
}

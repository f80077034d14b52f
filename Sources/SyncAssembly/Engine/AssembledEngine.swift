import Foundation
package import SyncEngine
import SyncManifest
import SyncModel
import SyncPluginHost
package import SyncPlugins
import SyncRemotes
package import SyncStore
package import SyncSystem
package import SyncTransfer

/// An engine for one recipe on this machine: with its transports, clock, store, hooks and plugins, and how to end them.
/// Only here does the engine meet libcurl and processes, for commands, for the agent and for programs that embed it.
package struct AssembledEngine: Sendable {
    package private(set) var engine: PullEngine
    /// The transport for everything.
    package let transport: any Transport
    /// The request that the engine serves now: events and progress go to the listeners of that request.
    private let request: Monitor<EngineRequest>
    private let setWaiting: @Sendable (EngineRequest) -> Void
    /// The rate limit that it is made with, in body **bytes** a second; `nil` for none.
    package var rateLimit: UInt64?
    /// Changes the rate limit, in body **bytes** a second; `nil` for none.
    package var setRateLimit: @Sendable (UInt64?) -> Void
    /// Ends the transports and plugins; blocks for a moment. Harmless a second time.
    package var end: @Sendable () -> Void

    /// Body **bytes** received so far.
    package var received: UInt64 { transport.totals.bytesReceived }

    /// Wraps an engine that has been put together already.
    ///
    /// - Parameters:
    ///   - patience: The patience of the settings; `nil` for that of each request.
    ///   - web: The transport for http and https.
    ///   - transport: The transport for everything; `nil` for `web`.
    package init(
        _ engine: PullEngine, for request: Monitor<EngineRequest>, patience: Patience? = nil, web: CurlTransport,
        transport: (any Transport)? = nil, rateLimit: UInt64? = nil, end: @escaping @Sendable () -> Void
    ) {
        (self.engine, self.request) = (engine, request)
        self.transport = transport ?? web
        (self.rateLimit, self.end) = (rateLimit, end)
        setRateLimit = { web.setRateLimit($0) }
        setWaiting = { request in
            guard let deadline = request.deadline else { return }
            web.setWaiting(deadline: deadline, patience: patience ?? request.patience)
        }
    }

    /// The same engine for the work that continues its run, under another request.
    package func taken(over next: EngineRequest) -> AssembledEngine {
        var taken = self
        request.change { $0 = next }
        setWaiting(next)
        taken.engine = engine.again(stop: next.stop)
        return taken
    }

    /// Makes an engine from a recipe, settings and the configuration's plugins.
    ///
    /// - Parameters:
    ///   - host: The environment whose settings and programs count.
    ///   - store: The store of sessions and events.
    ///   - stateDirectory: The directory of the cached manifests, absolute.
    ///   - own: Plugins of this process, besides those of the configuration.
    ///   - metrics: Writes metrics to a file when the engine ends; `nil` for no metrics.
    /// - Throws: ``/SyncEngine/EngineError`` with status 78 for settings and plugins that cannot be used; 66, 74 or 77
    ///   for a root that cannot be read or that others could change.
    package init(
        _ asked: EngineRequest, on host: HostEnvironment, store: SyncStore, stateDirectory: String,
        own: PluginSet = PluginSet(), metrics: (@Sendable (String, SyncStore) throws(EngineError) -> Void)? = nil
    ) throws(EngineError) {
        let (asked, settings) = try asked.resolved(on: host)
        let request = Monitor(asked)
        let listener: @Sendable (SyncEvent) -> Void = { event in request.withLock { $0.listener }(event) }
        let isStopped: @Sendable () -> Bool = { request.withLock { $0.stop }.isStopped }
        let trust = try TrustChoice(settings.file, asked.recipe)
        var configuration = try asked.configuration(on: host)
        var hub = try HubPlace(host)
        let manifests = [asked.recipe?.manifest].compactMap(\.self) + asked.others
        if manifests.contains(where: HubPlace.isNamed) { try hub.addToken(of: host, to: &configuration) }
        let context = PluginContext(
            settings: settings.plugins, host: host, destination: asked.recipe?.destination, web: configuration,
            patience: settings.transfer.patience, isStopped: isStopped, notice: { listener($0.event) })
        let plugins = try PluginSet(own, context, verifiers: asked.recipe?.verifiers ?? [])

        let feeds = plugins.feeds(failed: listener)
        let events = EventRecorder { event in
            listener(event)
            for feed in feeds { feed.emit(event) }
        }
        let lastWait = LastWait(attempts: configuration.retry.attempts)
        configuration.events = { event in
            let time = SystemTime.milliseconds()
            lastWait.note(event, at: time)
            events.emit(transfer: event, time: time)
        }
        configuration.awaitRecord = { events.record(then: $0) }
        configuration.resolvers = plugins.resolvers
        let large = LargeFiles(asked.recipe, host, stateDirectory, isStopped: isStopped)
        configuration.resolvers += large.resolvers(configuration)
        let buckets = try Buckets(
            asked.recipe?.manifest, host, configuration, notice: context.notice, isStopped: isStopped)
        if let home = buckets.home { configuration.homes = [home] }
        configuration.credentialProviders = plugins.credentialProviders + buckets.providers
        let registries = RegistryTokens(host, configuration, isStopped: isStopped)
        configuration.challenges = registries
        if let directory = store.directory { configuration.loadRecords(from: directory) }

        let web: CurlTransport
        do throws(TransferError) { web = try CurlTransport(configuration: configuration) } catch {
            throw EngineError(.configuration, "\(error)")
        }
        let transport = buckets.around(
            large.around(
                plugins.transports.isEmpty
                    ? web
                    : RoutedTransport(
                        plugins.transports, others: web, policy: configuration.redirects, advise: configuration.advise))
        )
        var environment = EngineEnvironment(
            transport: transport, localTransport: FileTransport(), now: SystemTime.milliseconds,
            random: { .random(in: .min ... .max) }, workers: max(2, ProcessInfo.processInfo.activeProcessorCount),
            process: CurrentProcess.identifier, store: store, stateDirectory: stateDirectory, events: events,
            progress: { step in request.withLock { $0.progress }(lastWait.added(to: step)) }, stop: asked.stop)
        let directories = BaseDirectories(home: UserEntry.own?.home, lookup: CurrentProcess.variable)
        environment.configurationDirectory = directories.configuration.map { $0 + "/syncagent" }
        environment.verifications = plugins.verifications
        environment.namedHooks = settings.hooks
        environment.trust = trust
        (environment.hub, environment.sources) = (hub, plugins.sources + large.sources)
        environment.registries = registries.access
        if let limit = settings.transfer.manifestLimit {
            environment.manifestLimits = ManifestLimits(ownText: Int(clamping: limit))
        }
        environment.manifestLimits.schemes = plugins.schemes.union(large.schemes).union(buckets.schemes)
        environment.hooks = HookRunner(
            webhook: WebhookHook(configuration), named: plugins.hooks, program: ProgramHook(environment: host.variables)
        )
        let keep: @Sendable () -> Void = { [directory = store.directory] in
            if let directory { saveRecords(of: web, in: directory) }
        }
        environment.keep = keep
        environment.requests = asked.requests
        environment.releasesMemory = !asked.isEmbedded
        self.init(
            PullEngine(environment), for: request, patience: settings.transfer.patience.map { Patience($0) }, web: web,
            transport: transport, rateLimit: settings.transfer.limitRate
        ) {
            // A failure to write metrics must not fail what was done.
            do throws(EngineError) { if let file = settings.metricsFile { try metrics?(file, store) } } catch {
                listener(
                    SyncEvent(.metricsFailed, time: SystemTime.milliseconds(), note: "metrics: \(error.message)") {
                        $0.field("reason", error.message)
                    })
            }
            // An observer that does not respond must not hold up a stop.
            let patience = isStopped() ? Duration.milliseconds(300) : .seconds(5)
            for feed in feeds { feed.close(patience: patience) }
            transport.shutdown()
            keep()
            plugins.close()
        }
    }
}

/// The latest wait of a transfer for its next attempt; cleared once bytes arrive again.
private struct LastWait: Sendable {
    /// The number of attempts of a request.
    let attempts: Int
    private let state = Monitor((wait: TransferWait?.none, received: UInt64(0)))

    init(attempts: Int) { self.attempts = attempts }

    /// Takes the wait from an event, if it reports one; `time` is in **milliseconds** since 1970.
    func note(_ event: TransferEvent, at time: Int64) {
        if let wait = TransferWait(event, of: attempts, at: time) { state.change { $0.wait = wait } }
    }

    /// The same progress with the present wait.
    func added(to progress: PullProgress) -> PullProgress {
        var progress = progress
        let received = progress.received
        progress.wait = state.change { last in
            if received > last.received { last = (nil, received) }
            return last.wait
        }
        return progress
    }
}

extension PluginSet {
    /// The feeds of the set's observers.
    ///
    /// - Parameter failed: Receives the failures of observers.
    fileprivate func feeds(failed emit: @escaping @Sendable (SyncEvent) -> Void) -> [ObserverFeed] {
        observers.map { entry in
            ObserverFeed(entry.observer, named: entry.name, names: entry.names) { error in
                let failure = TransferEvent.pluginFailed(.observer, error)
                if let event = SyncEvent(transfer: failure, time: SystemTime.milliseconds()) { emit(event) }
            }
        }
    }
}

extension TransportConfiguration {
    /// Takes over what earlier processes have recorded about hosts.
    fileprivate mutating func loadRecords(from directory: String) {
        let now = SystemTime.clock.unixTime()
        links = RedirectMemory(from: directory, now: now)
        sources = SourceRecords(from: directory, now: now)
    }
}

/// Serializes ``saveRecords(of:in:)``: the agent has several engines, and each reads the files that it adds to.
private let keeping = Mutex(())

/// Records for the next process what transfers have learnt about hosts since the last time. What cannot be recorded is
/// learnt again.
private func saveRecords(of web: CurlTransport, in directory: String) {
    let now = SystemTime.clock.unixTime()
    keeping.withLock { _ in
        if let changes = web.takeLinks() { try? changes.add(to: directory, now: now) }
        if let changes = web.takeSources() { try? changes.add(to: directory, now: now) }
    }
}

extension TransferWait {
    /// The wait that an event reports; `time` is in **milliseconds** since 1970.
    fileprivate init?(_ event: TransferEvent, of attempts: Int, at time: Int64) {
        func host(_ url: String) -> String { (try? CurlURL(url))?.origin.host ?? url }
        switch event {
        case .retrying(_, let url, _, let attempt, let after):
            self.init(host: host(url), attempt: attempt, attempts: attempts, until: time + after.milliseconds)
        case .waitingForConnectivity(_, let url, _, let after, _):
            self.init(host: host(url), until: time + after.milliseconds)
        default: return nil
        }
    }
}

/// Runs a hook by its first word: a webhook's URL, `plugin:NAME`, or else a program's path.
private struct HookRunner: GroupHook {
    let webhook: WebhookHook
    /// By the names in `plugin:NAME`.
    let named: [String: any GroupHook]
    let program: ProgramHook

    func run(_ invocation: HookInvocation) -> HookOutcome {
        let word = invocation.arguments.first ?? ""
        if isWebURL(word) { return webhook.run(invocation) }
        guard let name = hookPlugin(word) else { return program.run(invocation) }
        if let hook = named[name] { return hook.run(invocation) }
        let known = named.keys.sorted().joined(separator: ", ")
        let text =
            "the configuration has no hook plugin '\(name)'"
            + (known.isEmpty ? "; plugins.use names none" : "; known: \(known)")
        return HookOutcome(end: .notStarted(text), output: "", milliseconds: 0)
    }
}

extension WebhookHook {
    /// Takes trust, proxies, user agent and connect timeout from the configuration; nothing else of it goes to a
    /// webhook.
    package init(_ configuration: TransportConfiguration) {
        self.init(
            tls: configuration.tls, userAgent: configuration.userAgent, connectTimeout: configuration.connectTimeout,
            proxy: { configuration.proxy(for: $0) })
    }
}

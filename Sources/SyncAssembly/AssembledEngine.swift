import Foundation
package import SyncEngine
import SyncModel
package import SyncPluginHost
package import SyncPlugins
package import SyncStore
package import SyncSystem
package import SyncTransfer

/// An engine put together with its transports, clock, store and hooks: the one place where the engine meets libcurl and
/// processes, for commands, for the agent and for programs that embed it.
package struct AssembledEngine: Sendable {
    package let engine: PullEngine
    /// Everything that brings bytes.
    package let transport: any Transport
    /// The one for http and https.
    package let web: CurlTransport
    private let feeds: [ObserverFeed]
    private let memory: TransferMemory?

    /// Makes an engine that stops when `stop` says so.
    ///
    /// - Parameters:
    ///   - store: Where sessions and events are kept.
    ///   - stateDirectory: Where cached manifests are kept, absolute.
    ///   - web: How http and https are spoken; what plugins and the store know is added.
    ///   - plugins: What stands at the plugin points.
    ///   - stop: Asks it to stop.
    ///   - listener: Told of every event.
    ///   - progress: Told how far things are.
    ///   - adjust: Changes what else the engine is given.
    /// - Throws: ``/SyncPlugins/TransferError`` for settings that libcurl refuses.
    package init(
        store: SyncStore, stateDirectory: String, web settings: TransportConfiguration, plugins: EnginePlugins,
        stop: StopRequest, listener: @escaping @Sendable (SyncEvent) -> Void,
        progress: @escaping @Sendable (PullProgress) -> Void, adjust: (inout EngineEnvironment) -> Void = { _ in }
    ) throws(TransferError) {
        let feeds = plugins.observers.map { entry in
            ObserverFeed(entry.observer, names: entry.names) { error in
                let failed = TransferEvent.pluginFailed(.observer, error)
                if let event = SyncEvent(transfer: failed, time: SystemTime.milliseconds()) { listener(event) }
            }
        }
        self.feeds = feeds
        let events = EventRecorder { event in
            listener(event)
            for feed in feeds { feed.tell(event) }
        }
        var configuration = settings
        let waits = TransferWaits(attempts: configuration.retry.attempts)
        configuration.events = { event in
            let time = SystemTime.milliseconds()
            waits.note(event, time: time)
            events.tell(transfer: event, time: time)
        }
        configuration.awaitRecord = { events.settle(then: $0) }
        let memory = store.directory.map(TransferMemory.init)
        memory?.recall(&configuration)
        self.memory = memory
        configuration.resolvers = plugins.resolvers
        configuration.credentialProviders = plugins.credentialProviders
        let web = try CurlTransport(configuration: configuration)
        self.web = web
        transport =
            plugins.transports.isEmpty
            ? web
            : RoutedTransport(
                plugins.transports, others: web, policy: configuration.redirects, advise: configuration.advise)
        var environment = EngineEnvironment(
            transport: transport, localTransport: FileTransport(), now: SystemTime.milliseconds,
            random: { .random(in: .min ... .max) }, workers: max(2, ProcessInfo.processInfo.activeProcessorCount),
            process: CurrentProcess.identifier, store: store, stateDirectory: stateDirectory, events: events,
            progress: { step in
                var step = step
                step.wait = waits.current(received: step.received)
                progress(step)
            }, hooks: Self.hooks(plugins, configuration), stop: stop)
        let directories = BaseDirectories(home: UserEntry.own?.home, lookup: CurrentProcess.variable)
        environment.configurationDirectory = directories.configuration.map { $0 + "/syncagent" }
        environment.keep = { memory?.keep(web) }
        environment.verifications = plugins.verifications
        adjust(&environment)
        engine = PullEngine(environment)
    }

    /// Programs by path, webhooks by URL, plugins by name.
    private static func hooks(_ plugins: EnginePlugins, _ configuration: TransportConfiguration) -> any GroupHook {
        let webhook = WebhookHook(configuration)
        let named = NamedPluginHook(plugins.hooks)
        return HookDispatch(
            [
                HookDispatch.Route(webhook) { WebhookHook.isFor($0) },
                HookDispatch.Route(named) { hookPlugin($0) != nil },
            ], others: ProgramHook(environment: ProcessInfo.processInfo.environment))
    }

    /// Body **bytes** received so far.
    package var received: UInt64 { transport.totals.bytesReceived }

    /// Ends the transport, and keeps what it has learnt about hosts for the next process. What cannot be kept is learnt
    /// again.
    ///
    /// - Parameter isStopped: Whether somebody has asked for it.
    package func end(isStopped: Bool) {
        // An observer that hears nothing keeps nobody who was asked to stop.
        let patience = isStopped ? Duration.milliseconds(300) : .seconds(5)
        for feed in feeds { feed.close(patience: patience) }
        transport.shutdown()
        memory?.keep(web)
    }
}

/// What transfers have taught, from process to process. What cannot be kept is learnt again.
private struct TransferMemory: Sendable {
    private let links: LinkFile
    private let sources: SourceFile

    init(stateDirectory: String) {
        links = LinkFile(stateDirectory: stateDirectory)
        sources = SourceFile(stateDirectory: stateDirectory)
    }

    func recall(_ configuration: inout TransportConfiguration) {
        let now = SystemTime.clock.unixTime()
        configuration.links = links.read(now: now)
        configuration.sources = sources.read(now: now)
    }

    /// The agent has several engines, and each reads what it adds to.
    private static let turn = Mutex(())

    /// Writes what has changed since the last time.
    func keep(_ web: CurlTransport) {
        let now = SystemTime.clock.unixTime()
        Self.turn.withLock { _ in
            if let changes = web.takeLinks() { try? links.add(changes, now: now) }
            if let changes = web.takeSources() { try? sources.add(changes, now: now) }
        }
    }
}

extension WebhookHook {
    /// Trust, proxies and time to connect are the configuration's; nothing else of it goes to a webhook.
    package init(_ configuration: TransportConfiguration) {
        self.init(
            tls: configuration.tls, userAgent: configuration.userAgent, connectTimeout: configuration.connectTimeout,
            proxy: { configuration.proxy(for: $0) })
    }
}

/// Everything that stands at the plugin points of an engine, built in, in process or in programs.
package struct EnginePlugins: Sendable {
    package var resolvers: [ConfiguredResolver] = []
    package var credentialProviders: [ConfiguredCredentialProvider] = []
    package var verifications: [FileVerification] = []
    package var transports: [(scope: URLScope, transport: any Transport)] = []
    /// By the names that `plugin:NAME` has.
    package var hooks: [String: any GroupHook] = [:]
    package var observers: [(observer: any EventObserver, names: Set<String>)] = []

    /// None.
    package init() {}
}

/// Runs the hook that `plugin:NAME` names.
struct NamedPluginHook: GroupHook {
    private let hooks: [String: any GroupHook]

    init(_ hooks: [String: any GroupHook]) { self.hooks = hooks }

    func run(_ invocation: HookInvocation) -> HookOutcome {
        let name = hookPlugin(invocation.arguments.first ?? "") ?? ""
        guard let hook = hooks[name] else {
            let known = hooks.keys.sorted().joined(separator: ", ")
            let text =
                "the configuration has no hook plugin '\(name)'"
                + (known.isEmpty ? "; plugins.use names none" : "; known: \(known)")
            return HookOutcome(end: .notStarted(text), output: "", milliseconds: 0)
        }
        return hook.run(invocation)
    }
}

extension SystemTime {
    /// For transports.
    package static var clock: TransportClock {
        let start = ContinuousClock.now
        return TransportClock(now: { ContinuousClock.now - start }, unixTime: { SystemTime.milliseconds() / 1_000 })
    }
}

import Foundation
import SyncEngine
import SyncModel
import SyncPlugins
import SyncStore
import SyncTestKit
import SyncTransfer
import Synchronization

/// A destination and a state directory, and pulls into them. Each pull has an engine and a transport of its own,
/// as a process would.
final class PullPlace: Sendable {
    let servers: MatrixServers
    let set: PublishedSet
    let fault: MatrixFault
    private let root: TemporaryRoot
    private let log = Mutex<[String]>([])

    /// How a pull ended.
    enum Ending {
        case report(PullReport)
        case refused(EngineError)
    }

    init(servers: MatrixServers, set: PublishedSet, fault: MatrixFault) throws {
        self.servers = servers
        self.set = set
        self.fault = fault
        root = try TemporaryRoot()
        try root.write(servers.trusted, to: "ca.pem")
        servers.replace("/tower/manifest.json", with: ServedObject(set.manifest))
    }

    private var destination: String { root.path("files") }

    /// Puts the neighbours of a span in place, so that only its middle is wanted.
    func prepare(_ situation: Situation) throws {
        guard situation.shape == .span else { return }
        for path in ["a-before", "z-after"] {
            if let bytes = set.tree.bytes(path) { try root.write(bytes, to: "files/\(path)") }
        }
    }

    /// Why files failed, as the events told.
    var reasons: String { log.withLock { $0.joined(separator: "; ") } }

    /// Runs a pull to its end.
    ///
    /// - Throws: ``MatrixFailure`` when it has not ended after 40 s: a hang.
    func pull(isUnderFault: Bool) async throws -> Ending {
        log.withLock { $0 = [] }
        let transport = try CurlTransport(configuration: configuration(isUnderFault: isUnderFault))
        let stop = StopRequest()
        let store = try SyncStore.inMemory()
        var environment = EngineEnvironment(
            transport: transport,
            localTransport: FileTransport(),
            now: { clock_gettime_nsec() / 1_000_000 },
            random: { UInt64(truncatingIfNeeded: clock_gettime_nsec()) },
            workers: 2,
            process: 1,
            store: store,
            events: EventRecorder { [self] event in note(event) },
            stop: stop
        )
        environment.isDurable = false
        let engine = PullEngine(environment)
        let base = fault.host.flatMap { isUnderFault ? "http://\($0)" : nil } ?? servers.stage.server.url("")
        var options = PullOptions(manifest: base + "/tower/manifest.json", stateDirectory: root.path("state"))
        options.destination = destination

        let hung = Mutex(false)
        let watchdog = Task {
            try await Task.sleep(for: .seconds(40))
            hung.withLock { $0 = true }
            stop.stop()
        }
        let ending = await withCheckedContinuation { (done: CheckedContinuation<Ending, Never>) in
            Thread.detachNewThread { [options] in
                let ending: Ending
                do throws(EngineError) {
                    ending = .report(try engine.pull(options))
                } catch {
                    ending = .refused(error)
                }
                transport.shutdown()
                done.resume(returning: ending)
            }
        }
        watchdog.cancel()
        try require(!hung.withLock { $0 }, "the pull hung: \(reasons)")
        for session in try store.sessions() {
            let events = try store.events(of: session.identifier, after: 0, limit: .max).events
            let disorder = try orderComplaints(inEvents: events.map(\.text)) + store.findings()
            try require(disorder.isEmpty, "the order of events: \(disorder)")
        }
        return ending
    }

    private func note(_ event: SyncEvent) {
        guard event.name.hasSuffix("failed") || event.name.hasSuffix("back") else { return }
        log.withLock { $0.append(event.json.text) }
    }

    private func configuration(isUnderFault: Bool) -> TransportConfiguration {
        var configuration = TransportConfiguration.quick
        configuration.adopt(fault.setting, servers, authorities: root.path("ca.pem"))
        if isUnderFault { fault.configure(&configuration) }
        return configuration
    }

    // MARK: What is on disk

    /// No file has other bytes than published; some may be missing.
    func requireNothingWrong(_ when: String) throws {
        let problems = set.tree.problems(in: destination, partial: true)
        try require(problems.isEmpty, "\(when): \(problems)")
    }

    /// Every file is there with the bytes that were published.
    func requireWhole(_ when: String) throws {
        let problems = set.tree.problems(in: destination)
        try require(problems.isEmpty, "\(when): \(problems)")
    }
}

extension TransportConfiguration {
    /// What a client needs to know to reach a server in this setting.
    mutating func adopt(_ setting: MatrixFault.Setting, _ servers: MatrixServers, authorities: String) {
        switch setting {
        case .plain: break
        case .tls(let kind):
            tls.authorities = authorities
            if kind == .http2 || kind == .oneStream { http2 = .always }
        case .proxy:
            proxy = ProxyConfiguration(
                url: servers.stage.server.url(""),
                user: "proxy-user",
                password: "proxy-password"
            )
        }
    }
}

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
final class PullRunner: Sendable {
    /// How a pull ended.
    enum Ending {
        case report(PullReport)
        case refused(EngineError)
    }

    let root: TemporaryRoot
    private let log = Mutex<[String]>([])

    init() throws { root = try TemporaryRoot() }

    var destination: String { root.path("files") }

    /// Why files failed in the last pull, as the events told.
    var reasons: String { log.withLock { $0.joined(separator: "; ") } }

    /// What the last pull told of places, packs and files that were of no use.
    var told: [String] { log.withLock { $0 } }

    /// Runs a pull to its end.
    ///
    /// - Throws: ``MatrixFailure`` when it has not ended after 40 s: a hang.
    func pull(_ manifest: String, _ configuration: TransportConfiguration = .quick, trust: TrustChoice = TrustChoice())
        async throws -> Ending
    {
        log.withLock { $0 = [] }
        let transport = try CurlTransport(configuration: configuration)
        let stop = StopRequest()
        let store = try SyncStore.inMemory()
        var environment = EngineEnvironment(
            transport: transport, localTransport: FileTransport(),
            // Signatures count by the time of day.
            now: { Int64(time(nil)) * 1_000 }, random: { UInt64(truncatingIfNeeded: clock_gettime_nsec()) }, workers: 2,
            process: 1, store: store, stateDirectory: root.path("state"),
            events: EventRecorder { [self] event in note(event) }, stop: stop)
        environment.isDurable = false
        environment.trust = trust
        environment.releasesMemory = false
        let engine = PullEngine(environment)
        let recipe = RunRecipe(manifest: manifest, destination: destination)

        let hung = Mutex(false)
        let watchdog = Task {
            try await Task.sleep(for: .seconds(40))
            hung.withLock { $0 = true }
            stop.stop()
        }
        let ending = await withCheckedContinuation { (done: CheckedContinuation<Ending, Never>) in
            Thread.detachNewThread { [recipe] in
                let ending: Ending
                do throws(EngineError) { ending = .report(try engine.pull(recipe)) } catch { ending = .refused(error) }
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

    /// A pull that must end well, with every file right.
    @discardableResult func pullWhole(
        _ tree: AssetTree, _ manifest: String, _ configuration: TransportConfiguration = .quick
    ) async throws -> PullReport {
        switch try await pull(manifest, configuration) {
        case .refused(let error): throw MatrixFailure("refused: \(error)")
        case .report(let report):
            try require(report.result == .ok, "ended \(report.result): \(reasons)")
            let problems = tree.problems(in: destination)
            try require(problems.isEmpty, "\(problems)")
            return report
        }
    }

    private func note(_ event: SyncEvent) {
        let telling: [EventName] = [.taskFailed, .pruneFailed, .pluginFailed, .sourcePenalised, .trustRefused]
        guard telling.contains(event.name) else { return }
        log.withLock { $0.append(event.json.text) }
    }
}

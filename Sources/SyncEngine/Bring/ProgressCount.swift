import SyncModel
import SyncPlugins
import SyncSystem

/// Adds up how far a pull is, from many threads, and tells it some times a second, also while nothing happens.
///
/// What has come over the network is read from the transport's own count when it is told: nobody counts for each write.
final class ProgressCount: Sendable {
    private struct State: Sendable {
        var progress = PullProgress()
        /// Raw **bytes** that are verified.
        var verified: UInt64 = 0
        /// What the plan asks the network for; `nil` before there is one.
        var fetch: Fetch?
        var told: PullProgress?
        var isOver = false
    }

    /// The part of a pull that the network brings.
    private struct Fetch: Sendable {
        /// **Bytes** on the wire that are planned, and had come before.
        var planned, before: UInt64
        /// Raw **bytes** that they become, and were here before.
        var raw, here: UInt64

        /// Raw **bytes** that are here, by what has come.
        func estimate(_ received: UInt64) -> UInt64 {
            let come = received - min(before, received)
            guard planned > 0, come < planned else { return here &+ (planned > 0 ? raw : 0) }
            return here &+ UInt64(Double(raw) * (Double(come) / Double(planned)))
        }
    }

    private let state = Monitor(State())
    private let report: @Sendable (PullProgress) -> Void
    private let received: @Sendable () -> UInt64

    /// From one time it is told to the next, in **milliseconds**.
    private static let interval = 200

    /// Tells it until ``end()``.
    init(_ environment: EngineEnvironment) {
        report = { [live = environment.live, tell = environment.progress] progress in
            if progress.phase != .finding { live.note(progress) }
            tell(progress)
        }
        // A login page that is served again and again is no progress.
        received = { [transport = environment.transport] in
            let totals = transport.totals
            return totals.bytesReceived - min(totals.bytesDiscarded, totals.bytesReceived)
        }
        // Without a thread it is told at the end.
        _ = try? WorkerThread(name: "progress") { [self] in
            state.wait(every: Self.interval) { state -> Void? in
                if state.isOver { return () }
                tell(&state)
                return nil
            }
        }
    }

    /// Something else goes on.
    func enter(_ phase: PullPhase) { state.withLock { $0.progress.phase = phase } }

    /// Files that are here already are about to be hashed.
    func check(files: Int, bytes: UInt64) { begin(.looking, files: files, bytes: bytes) }

    /// What is wanted is known.
    func begin(files: Int, bytes: UInt64) { begin(.fetching, files: files, bytes: bytes) }

    private func begin(_ phase: PullPhase, files: Int, bytes: UInt64) {
        state.withLock { state in
            (state.progress, state.verified) = (PullProgress(), 0)
            state.progress.phase = phase
            state.progress.filesTotal = files
            state.progress.bytesTotal = bytes
            tell(&state)
        }
    }

    /// The network is about to be asked for `wire` **bytes**, for all that is not here yet.
    func fetch(wire: UInt64) {
        let before = received()
        state.withLock { state in
            let here = state.verified
            let raw = state.progress.bytesTotal - min(here, state.progress.bytesTotal)
            state.fetch = Fetch(planned: wire, before: before, raw: raw, here: here)
        }
    }

    /// Counts what is verified or in place.
    func add(files: Int = 0, bytes: UInt64 = 0) {
        state.withLock { state in
            state.progress.filesDone += files
            // A piece that came twice must not show more than there is.
            state.verified = min(state.progress.bytesTotal, state.verified &+ bytes)
        }
    }

    /// Tells it for the last time.
    func end() {
        state.change { state in
            guard !state.isOver else { return }
            tell(&state)
            state.isOver = true
        }
    }

    /// Told under the lock: outside, an older number could be told after a newer one.
    private func tell(_ state: inout State) {
        state.progress.received = received()
        let come = state.fetch?.estimate(state.progress.received) ?? 0
        let here = min(max(state.verified, come), state.progress.bytesTotal)
        state.progress.bytesDone = max(state.progress.bytesDone, here)
        report(state.progress)
    }
}

/// Where rows came from, for events. The network is what is not said.
final class RowOrigins: Sendable {
    private let origins = Mutex<[Int: RowOrigin]>([:])

    subscript(row: Int) -> RowOrigin { origins.withLock { $0[row] } ?? .network }

    func set(_ rows: Set<Int>, _ origin: RowOrigin) {
        origins.withLock { for row in rows { $0[row] = origin } }
    }
}

import SyncModel
import SyncPlugins
import SyncSystem

/// Adds up the progress of a pull, from many threads, and reports it several times a second, even while nothing
/// happens.
///
/// Received bytes are read from the transport's own count at each report, so nothing is counted per write.
final class ProgressCount: Sendable {
    private struct State: Sendable {
        var progress = PullProgress()
        /// Verified raw **bytes**.
        var verified: UInt64 = 0
        /// The plan's part from the network: **bytes** on the wire that are planned, and that were received before; the
        /// raw **bytes** that the planned ones become, and those that were here before.
        var planned: UInt64 = 0, before: UInt64 = 0
        var raw: UInt64 = 0, here: UInt64 = 0
        var isOver = false

        /// Raw **bytes** present, estimated from those received.
        var estimate: UInt64 {
            let come = progress.received - min(before, progress.received)
            guard planned > 0, come < planned else { return here &+ (planned > 0 ? raw : 0) }
            return here &+ planned.dividingFullWidth(raw.multipliedFullWidth(by: come)).quotient
        }
    }

    private let state = Monitor(State())
    private let report: @Sendable (PullProgress) -> Void
    private let received: @Sendable () -> UInt64

    /// The time between reports, in **milliseconds**.
    private static let interval = 200

    /// Reports until ``end()``.
    init(_ environment: EngineEnvironment) {
        report = { [live = environment.live, notify = environment.progress] progress in
            if progress.isCounting { live.note(progress) }
            notify(progress)
        }
        // A login page served again and again is no progress.
        received = { [transport = environment.transport] in
            let totals = transport.totals
            return totals.bytesReceived - min(totals.bytesDiscarded, totals.bytesReceived)
        }
        // Without a thread, only the end is reported.
        _ = try? WorkerThread(name: "progress") { [self] in
            state.wait(every: Self.interval) { state -> Void? in
                if state.isOver { return () }
                notify(&state)
                return nil
            }
        }
    }

    /// Enters another phase.
    func enter(_ phase: PullPhase) { state.withLock { $0.progress.phase = phase } }

    /// Enters a phase in which files are counted.
    func begin(_ phase: PullPhase, files: Int, bytes: UInt64) {
        state.withLock { state in
            (state.progress, state.verified) = (PullProgress(), 0)
            state.progress.phase = phase
            state.progress.filesTotal = files
            state.progress.bytesTotal = bytes
            notify(&state)
        }
    }

    /// Notes that `wire` **bytes** are about to be fetched, for everything that is still missing.
    func fetch(wire: UInt64) {
        let before = received()
        state.withLock { state in
            (state.planned, state.before, state.here) = (wire, before, state.verified)
            state.raw = state.progress.bytesTotal - min(state.here, state.progress.bytesTotal)
        }
    }

    /// Adds **bytes** to the total that turned out to be wanted as well.
    func expect(bytes: UInt64) {
        state.withLock { $0.progress.bytesTotal = $0.progress.bytesTotal.saturatingAdd(bytes) }
    }

    /// Counts files in place and verified **bytes**.
    func add(files: Int = 0, bytes: UInt64 = 0) {
        state.withLock { state in
            state.progress.filesDone += files
            // Bytes that came twice must not count more than the total.
            state.verified = min(state.progress.bytesTotal, state.verified &+ bytes)
        }
    }

    /// Reports for the last time.
    func end() {
        state.change { state in
            guard !state.isOver else { return }
            notify(&state)
            state.isOver = true
        }
    }

    /// Called under the lock, so that no older number is reported after a newer one.
    private func notify(_ state: inout State) {
        state.progress.received = received()
        let here = min(max(state.verified, state.estimate), state.progress.bytesTotal)
        state.progress.bytesDone = max(state.progress.bytesDone, here)
        report(state.progress)
    }
}

import Synchronization

/// Adds up progress from many threads and reports it now and then.
final class ProgressCount: Sendable {
    private struct State {
        var progress: PullProgress
        var unreported: UInt64 = 0
    }
    private let state: Mutex<State>
    private let report: @Sendable (PullProgress) -> Void

    /// Reported at the latest after this many more **bytes**.
    private static let step: UInt64 = 4 << 20

    init(files: Int, bytes: UInt64, report: @escaping @Sendable (PullProgress) -> Void) {
        var progress = PullProgress()
        progress.filesTotal = files
        progress.bytesTotal = bytes
        state = Mutex(State(progress: progress))
        self.report = report
        report(progress)
    }

    func add(files: Int = 0, bytes: UInt64 = 0) {
        state.withLock { state in
            state.progress.filesDone += files
            // A piece that came twice must not show more than there is.
            state.progress.bytesDone = min(state.progress.bytesTotal, state.progress.bytesDone &+ bytes)
            state.unreported = state.unreported &+ bytes
            guard files > 0 || state.unreported >= Self.step else { return }
            state.unreported = 0
            // Told under the lock: outside, an older number could be told after a newer one.
            report(state.progress)
        }
    }
}

/// Where rows came from, for events. The network is what is not said.
final class RowOrigins: Sendable {
    private let origins: Mutex<[Int: RowOrigin]>

    init(origins: consuming Mutex<[Int: RowOrigin]>) { self.origins = origins }

    subscript(row: Int) -> RowOrigin { origins.withLock { $0[row] } ?? .network }

    func set(_ rows: Set<Int>, _ origin: RowOrigin) {
        origins.withLock { for row in rows { $0[row] = origin } }
    }
}

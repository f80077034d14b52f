import SyncControl
import SyncEngine
import SyncModel
import Synchronization

/// Work on one session that is under way: a run, or hooks that an earlier run owes.
final class Job: Sendable {
    private struct State: Sendable {
        var progress: PullProgress?
        var waits: [String] = []
        var isOver = false
        var gate: RunGate?
        var listeners: [CheckedContinuation<Void, Never>] = []
    }

    let session: String
    /// `nil` when only owed hooks are to be run.
    let run: String?
    let stop = StopRequest()
    private let state = Mutex(State())

    /// Lines about what transfers wait for that are kept.
    private static let waitLimit = 10

    init(session: String, run: String?) {
        self.session = session
        self.run = run
    }

    /// How far it is; `nil` before the plan.
    var progress: RunStatus.Progress? {
        state.withLock(\.progress).map {
            RunStatus.Progress(
                filesDone: $0.filesDone,
                filesTotal: $0.filesTotal,
                bytesDone: $0.bytesDone,
                bytesTotal: $0.bytesTotal
            )
        }
    }

    /// What its transfers wait for.
    var waits: [String] { state.withLock(\.waits) }

    /// Whether it may go on; `nil` before that is known, and when it waits for nothing.
    var gate: RunGate? {
        get { state.withLock(\.gate) }
        set { state.withLock { $0.gate = newValue } }
    }

    var isOver: Bool { state.withLock(\.isOver) }

    func note(_ progress: PullProgress) {
        state.withLock { state in
            // Bytes move: nothing is being waited for.
            if state.progress?.bytesDone != progress.bytesDone { state.waits = [] }
            state.progress = progress
        }
    }

    func note(_ event: SyncEvent) {
        guard event.name == "transfer.waiting", let line = event.note else { return }
        state.withLock { state in
            guard !state.waits.contains(line) else { return }
            state.waits = Array((state.waits + [line]).suffix(Self.waitLimit))
        }
    }

    /// Its work has ended and is on record.
    func end() {
        let listeners = state.withLock { state in
            state.isOver = true
            defer { state.listeners = [] }
            return state.listeners
        }
        for listener in listeners { listener.resume() }
    }

    /// Returns when its work has ended.
    func untilEnd() async {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if !state.isOver { state.listeners.append(continuation) }
                return state.isOver
            }
            if isOver { continuation.resume() }
        }
    }
}

import Dispatch
import SyncSystem

/// Work done one after another on a thread of its own, which there is only while there is work.
final class ThreadLane: Sendable {
    private struct State: Sendable {
        var waiting: [@Sendable () -> Void] = []
        var isRunning = false
    }

    private let state = Mutex(State())
    /// Entered while there is a thread.
    private let running = DispatchGroup()

    /// - Returns: Whether `work` will be done: without a thread to be had it is not, F095.
    func add(_ work: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            state.waiting.append(work)
            if state.isRunning { return true }
            running.enter()
            state.isRunning = (try? WorkerThread(name: "local") { [self] in run() }) != nil
            if !state.isRunning {
                state.waiting.removeAll()
                running.leave()
            }
            return state.isRunning
        }
    }

    /// Waits until everything added has run.
    func drain() { running.wait() }

    private func run() {
        while let work = next() { work() }
        running.leave()
    }

    private func next() -> (@Sendable () -> Void)? {
        state.withLock { state in
            state.isRunning = !state.waiting.isEmpty
            return state.waiting.isEmpty ? nil : state.waiting.removeFirst()
        }
    }
}

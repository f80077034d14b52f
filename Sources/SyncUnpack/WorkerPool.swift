/// Work that keeps its own order: run by one worker at a time, asked again when more has come.
package protocol WorkItem: AnyObject, Sendable {
    func run(_ worker: inout Worker)
}

/// A fixed number of threads that run work items. The queue holds each item at most once, see ``Mailbox``.
package final class WorkerPool: Sendable {
    private struct State: Sendable {
        var queue: [any WorkItem] = []
        var head = 0
        var closed = false
        var running = 0
    }
    private let state = Monitor(State())
    private let threads: Monitor<[WorkerThread]>
    /// Number of threads.
    package let count: Int

    /// Starts the threads.
    package init(count: Int) {
        self.count = max(1, count)
        threads = Monitor([])
        for number in 0..<self.count {
            let thread = WorkerThread(name: "unpack-\(number)") { [state] in Self.loop(number, state) }
            threads.withLock { $0.append(thread) }
        }
    }

    /// Queues an item.
    package func submit(_ item: any WorkItem) {
        state.change { $0.queue.append(item) }
    }

    /// Waits until nothing is queued or running.
    package func drain() {
        state.wait { $0.queue.count == $0.head && $0.running == 0 ? true : nil }
    }

    /// Runs what is queued, then ends the threads.
    package func close() {
        state.change { $0.closed = true }
        for thread in threads.withLock({ $0 }) { thread.join() }
    }

    private static func loop(_ number: Int, _ state: Monitor<State>) {
        // Out of memory for a hash context: without a worker nothing can be verified, so nothing is taken on.
        guard var worker = try? Worker(number: number) else { return }
        while let item = next(state) {
            item.run(&worker)
            state.change { $0.running -= 1 }
        }
    }

    private static func next(_ state: Monitor<State>) -> (any WorkItem)? {
        state.wait { state -> (any WorkItem)?? in
            if state.head < state.queue.count {
                let item = state.queue[state.head]
                state.head += 1
                if state.head == state.queue.count {
                    // Items hold this pool: none may stay when its turn is over, or neither ever goes.
                    state.queue.removeAll(keepingCapacity: true)
                    state.head = 0
                } else if state.head > 64, state.head * 2 > state.queue.count {
                    state.queue.removeFirst(state.head)
                    state.head = 0
                }
                state.running += 1
                return .some(item)
            }
            return state.closed ? .some(nil) : nil
        }
    }
}

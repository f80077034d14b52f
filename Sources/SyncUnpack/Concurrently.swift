import Synchronization

/// Runs `body` for 0..<count, each on a thread of its own, and returns the results in order.
package func concurrently<Result: Sendable>(
    _ count: Int,
    name: String,
    _ body: @escaping @Sendable (Int) -> Result
) -> [Result] {
    guard count > 1 else { return count == 1 ? [body(0)] : [] }
    let results = Mutex<[Int: Result]>([:])
    let shared = Shared(results: results)
    let threads = (0..<count).map { index in
        WorkerThread(name: "\(name)-\(index)") {
            let result = body(index)
            shared.results.withLock { $0[index] = result }
        }
    }
    for thread in threads { thread.join() }
    return shared.results.withLock { results in (0..<count).compactMap { results[$0] } }
}

private final class Shared<Result: Sendable>: Sendable {
    let results: Mutex<[Int: Result]>
    init(results: consuming Mutex<[Int: Result]>) { self.results = results }
}

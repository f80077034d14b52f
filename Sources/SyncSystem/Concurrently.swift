/// Runs `body` for 0..<count, each on a thread of its own, and returns the results in order.
///
/// Where the system has no more threads, the rest is done here, one after the other (F095): nothing is lost, only slower.
package func concurrently<Result: Sendable>(
    _ count: Int,
    name: String,
    start: WorkerThread.Starter = WorkerThread.system,
    _ body: @escaping @Sendable (Int) -> Result
) -> [Result] {
    guard count > 1 else { return count == 1 ? [body(0)] : [] }
    let results = Mutex<[Int: Result]>([:])
    let shared = Shared(results: results)
    let work: @Sendable (Int) -> Void = { index in
        let result = body(index)
        shared.results.withLock { $0[index] = result }
    }
    var threads: [WorkerThread] = []
    var rest: [Int] = []
    for index in 0..<count {
        do {
            threads.append(try start("\(name)-\(index)") { work(index) })
        } catch {
            rest.append(index)
        }
    }
    for index in rest { work(index) }
    for thread in threads { thread.join() }
    return shared.results.withLock { results in (0..<count).compactMap { results[$0] } }
}

private final class Shared<Result: Sendable>: Sendable {
    let results: Mutex<[Int: Result]>
    init(results: consuming Mutex<[Int: Result]>) { self.results = results }
}

import Foundation
import SyncContent
import SyncSystem
import Testing

@Suite("Threads that cannot be had", .timeLimit(.minutes(10)))
struct WorkerPoolTests {
    private struct NoMemory: Error {}

    /// How much of a hundred pieces of work a pool does.
    private static func done(by workers: WorkerPool) -> Int {
        let runs = Monitor(0)
        for _ in 0..<100 { workers.submit { _ in runs.withLock { $0 += 1 } } }
        workers.drain()
        return runs.withLock { $0 }
    }

    /// Starts so many threads, and no more.
    private static func only(_ count: Int) -> WorkerThread.Starter {
        let started = Monitor(0)
        return { name, body throws(ThreadError) in
            let isPossible = started.withLock { started in
                started += 1
                return started <= count
            }
            guard isPossible else { throw ThreadError(code: .resourceTemporarilyUnavailable) }
            return try WorkerThread(name: name, body: body)
        }
    }

    @Test("A pool without a single thread is refused, and says why [F095]")
    func noThread() {
        let error = #expect(throws: ThreadError.self) { try WorkerPool(count: 4, start: Self.only(0)) }
        #expect("\(error.map { "\($0)" } ?? "")".hasPrefix("cannot start a thread: Resource temporarily unavailable"))
    }

    @Test("A pool goes on with the threads it gets [F095]")
    func fewThreads() throws {
        let workers = try WorkerPool(count: 4, start: Self.only(1))
        #expect(Self.done(by: workers) == 100)
        workers.close()
    }

    @Test("Threads that have nothing to work with take no work on: the others do it, and none at all is an error")
    func noContext() throws {
        #expect(throws: NoMemory.self) { try WorkerPool(count: 3, makeWorker: { _ in throw NoMemory() }) }
        let workers = try WorkerPool(
            count: 3,
            makeWorker: { number in
                if number != 1 { throw NoMemory() }
                return try DecodeWorker(number: number)
            })
        #expect(Self.done(by: workers) == 100)
        workers.close()
    }

    @Test("Work for several threads is done here where there are none [F095]", arguments: [0, 1, 3])
    func concurrent(threads: Int) {
        let results = concurrently(3, name: "few", start: Self.only(threads)) { $0 * 2 }
        #expect(results == [0, 2, 4])
    }
}

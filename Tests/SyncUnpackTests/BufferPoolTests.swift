import SyncContent
import Synchronization
import Testing

@Suite("The bound on bytes in memory", .timeLimit(.minutes(10)))
struct BufferPoolTests {
    @Test("Buffers are taken all or none, and an empty pool calls back once")
    func bound() throws {
        let pool = BufferPool(count: 3, bufferSize: 64)
        let calls = Atomic(0)
        let call: @Sendable () -> Void = { calls.wrappingAdd(1, ordering: .relaxed) }
        let two = try #require(pool.take(2, orCall: call))
        #expect(pool.take(2, orCall: call) == nil)
        #expect(calls.load(ordering: .relaxed) == 0)
        pool.give(two[0])
        #expect(calls.load(ordering: .relaxed) == 1)
        pool.give(two[1])
        #expect(calls.load(ordering: .relaxed) == 1)
        #expect(pool.take(3, orCall: call)?.count == 3)
    }

    @Test("Who waits is called in order, as many as there are buffers for, and all when every buffer is back")
    func turns() throws {
        let pool = BufferPool(count: 4, bufferSize: 8)
        var taken = try #require(pool.take(4, orCall: nil))
        let called = Mutex<[Int]>([])
        for number in 0..<6 {
            let none = pool.take(1, orCall: { called.withLock { $0.append(number) } })
            #expect(none == nil)
        }
        pool.give(taken.removeLast())
        #expect(called.withLock { $0 } == [0])
        pool.passTurn()
        #expect(called.withLock { $0 } == [0, 1], "the first one has ended and took nothing")
        let one = try #require(pool.take(1, orCall: nil))
        taken += one
        pool.passTurn()
        #expect(called.withLock { $0 } == [0, 1], "there is no buffer for anybody")
        pool.give(taken.removeLast())
        pool.give(taken.removeLast())
        #expect(called.withLock { $0 } == [0, 1, 2, 3, 4])
        while let buffer = taken.popLast() { pool.give(buffer) }
        #expect(called.withLock { $0 } == [0, 1, 2, 3, 4, 5])
    }

    @Test("A buffer that comes back is empty")
    func reset() throws {
        let pool = BufferPool(count: 1, bufferSize: 8)
        let buffer = try #require(pool.take(1, orCall: {})?.first)
        [1, 2, 3].withUnsafeBytes { buffer.append(UnsafeRawBufferPointer(rebasing: $0[..<3])) }
        #expect(buffer.count == 3 && buffer.room == 5 && buffer.filled.count == 3)
        pool.give(buffer)
        let again = try #require(pool.take(1, orCall: {})?.first)
        #expect(again === buffer && again.room == 8)
    }
}

import SyncUnpack
import Synchronization
import Testing

@Suite("The bound on bytes in memory", .timeLimit(.minutes(1)))
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
        #expect(pool.lowWaterMark == 0)
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

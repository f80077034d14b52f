import SyncContent
import SyncModel
import SyncPlugins
import SyncTestKit
import Synchronization
import Testing

@testable import SyncManifest

/// Notes which slots got their bytes, and which did not.
private final class SlotList: BlobConsumer {
    private struct State {
        var received: [Int: [UInt8]] = [:]
        var missing: [Range<Int>] = []
        var put: [UInt64: [UInt8]] = [:]
    }
    private let state = Mutex(State())
    var received: [Int: [UInt8]] { state.withLock { $0.received } }
    var missing: [Range<Int>] { state.withLock { $0.missing.sorted { $0.lowerBound < $1.lowerBound } } }

    func take(_ stored: UnsafeRawBufferPointer, of slot: Int, from source: String?, worker: inout DecodeWorker) {
        state.withLock { $0.received[slot] = Array(stored) }
    }
    /// What was put, in one piece; `nil` when something is missing or comes twice.
    func put(of size: Int) -> [UInt8]? {
        let pieces = state.withLock { $0.put }.sorted { $0.key < $1.key }
        var bytes: [UInt8] = []
        for (offset, piece) in pieces {
            guard offset == UInt64(bytes.count) else { return nil }
            bytes += piece
        }
        return bytes.count == size ? bytes : nil
    }
    func put(
        _ bytes: UnsafeRawBufferPointer, of slot: Int, at offset: UInt64, from source: String?,
        worker: inout DecodeWorker
    ) { state.withLock { $0.put[offset] = Array(bytes) } }
    func begin(slot: Int, worker: inout DecodeWorker) {}
    func append(_ stored: UnsafeRawBufferPointer, to slot: Int, from source: String?, worker: inout DecodeWorker) {}
    func end(slot: Int, worker: inout DecodeWorker) {}
    func ended(span: Int, missing: Range<Int>, worker: inout DecodeWorker) {
        state.withLock { $0.missing.append(missing) }
    }
}

@Suite("Giving the end of a span to another connection", .timeLimit(.minutes(10)))
struct SplittingTests {
    /// Ten slots of 100 bytes with gaps of 10, from byte 1,000 of a pack.
    static let plan: Plan = {
        var plan = Plan()
        plan.slots = (0..<10).map { index in
            let start = 1_000 + UInt64(index) * 110
            return Plan.Slot(range: start..<(start + 100), rawLength: 100, codec: .identity, targets: 0..<0)
        }
        plan.spans = [Plan.Span(source: .pack(0), range: 1_000..<2_090, slots: 0..<10)]
        return plan
    }()

    let body = patternedBytes(size: 2_090, seed: 7)
    private let slots = SlotList()
    private let workers: WorkerPool

    init() throws { workers = try WorkerPool(count: 2) }

    private func sink(_ pool: BufferPool = BufferPool(count: 16, bufferSize: 64)) -> SpanSink {
        let unpacker = SpanUnpacker(plan: Self.plan, span: 0, consumer: slots, pool: pool, workers: workers)
        return SpanSink(unpacker: unpacker, range: 1_000..<2_090, pool: pool, resume: {})
    }

    /// Offers bytes until they are taken: the workers empty the buffers meanwhile.
    private func feed(_ sink: any TransferSink, _ range: Range<Int>) async throws {
        var offset = range.lowerBound
        while offset < range.upperBound {
            let end = min(offset + 37, range.upperBound)
            let outcome = body[offset..<end].withUnsafeBytes { sink.receive($0, at: UInt64(offset)) }
            if case .taken = outcome { offset = end } else { try await Task.sleep(for: .milliseconds(1)) }
        }
    }

    @Test("Both parts bring their slots, side by side, whatever the order")
    func bothParts() async throws {
        let sink = sink()
        try await feed(sink, 1_000..<1_250)
        let (start, tail) = try #require(sink.splitTail(near: 1_600, in: 1_300...2_000))
        #expect(start == 1_660, "the first slot at or after the wish")
        try await feed(tail, 1_660..<2_090)
        try await feed(sink, 1_250..<1_660)
        sink.finish()
        workers.drain()
        #expect(slots.received.count == 10)
        for (slot, bytes) in slots.received {
            let range = Self.plan.slots[slot].range
            let wanted = Array(body[Int(range.lowerBound)..<Int(range.upperBound)])
            #expect(bytes == wanted)
        }
        let missing = slots.missing.filter { !$0.isEmpty }
        #expect(missing == [])
        workers.close()
    }

    @Test("A part that has all it wants holds no buffer, however long the others take")
    func givesBack() async throws {
        let pool = BufferPool(count: 2, bufferSize: 64)
        let sink = sink(pool)
        let (start, tail) = try #require(sink.splitTail(near: 1_500, in: 1_100...2_000))
        try await feed(sink, 1_000..<Int(start))
        try await feed(tail, Int(start)..<(Int(start) + 30))
        workers.drain()
        // One buffer has what the tail got; the transfer has not ended.
        #expect(pool.take(1, orCall: {}) != nil)
        workers.close()
    }

    @Test("A part whose answer ended early holds no buffer while it waits for the next")
    func interrupted() async throws {
        let pool = BufferPool(count: 1, bufferSize: 1_024)
        let sink = sink(pool)
        try await feed(sink, 1_000..<1_150)
        sink.interrupted()
        workers.drain()
        let buffer = try #require(pool.take(1, orCall: {})?.first)
        pool.give(buffer)
        try await feed(sink, 1_150..<2_090)
        sink.finish()
        workers.drain()
        #expect(slots.received.count == 10)
        workers.close()
    }

    @Test("What neither part brought is known, slot by slot")
    func missing() async throws {
        let sink = sink()
        let (start, tail) = try #require(sink.splitTail(near: 1_500, in: 1_100...2_000))
        #expect(start == 1_550)
        let last = try #require((tail as? any SplittableSink)?.splitTail(near: 1_900, in: 1_600...2_000))
        #expect(last.start == 1_880 + 110 || last.start == 1_880)
        try await feed(sink, 1_000..<1_330)
        try await feed(last.sink, Int(last.start)..<2_090)
        sink.finish()
        workers.drain()
        let cut = Int(last.start - 1_000) / 110
        let missing = slots.missing.filter { !$0.isEmpty }
        #expect(missing == [3..<5, 5..<cut])
        workers.close()
    }

    /// One loose file, or a gap of one.
    private func looseSink(_ size: UInt64, isGap: Bool = false) -> SpanSink {
        var plan = Plan()
        plan.targets = [Plan.Target(row: 0, blob: 0, fileOffset: 0, isWhole: true, isGap: isGap)]
        plan.slots = [Plan.Slot(range: 0..<size, rawLength: size, codec: .identity, targets: 0..<1)]
        plan.spans = [Plan.Span(source: .loose(row: 0), range: 0..<size, slots: 0..<1)]
        let pool = BufferPool(count: 16, bufferSize: 1 << 16)
        let unpacker = SpanUnpacker(plan: plan, span: 0, consumer: slots, pool: pool, workers: workers)
        return SpanSink(unpacker: unpacker, range: 0..<size, pool: pool, resume: {})
    }

    @Test("A large loose file is cut at any byte, and each part brings its own")
    func loose() async throws {
        let large = patternedBytes(size: 17 << 20, seed: 5)
        func feed(_ sink: any TransferSink, _ range: Range<Int>) async throws {
            var offset = range.lowerBound
            while offset < range.upperBound {
                let end = min(offset + 100_000, range.upperBound)
                let outcome = large[offset..<end].withUnsafeBytes { sink.receive($0, at: UInt64(offset)) }
                if case .taken = outcome { offset = end } else { try await Task.sleep(for: .milliseconds(1)) }
            }
        }
        let sink = looseSink(UInt64(large.count))
        try await feed(sink, 0..<1_000_001)
        let (start, tail) = try #require(sink.splitTail(near: 5_000_003, in: 2_000_000...16_000_000))
        #expect(start == 5_000_003)
        let other = try #require(tail as? any SplittableSink)
        let (third, last) = try #require(other.splitTail(near: 1, in: 9_000_001...16_000_000))
        #expect(third == 9_000_001, "the nearest place that is allowed")
        try await feed(last, Int(third)..<large.count)
        try await feed(sink, 1_000_001..<Int(start))
        try await feed(tail, Int(start)..<Int(third))
        sink.finish()
        workers.drain()
        #expect(slots.put(of: large.count) == large)
        #expect(slots.missing.allSatisfy(\.isEmpty) && slots.missing.count == 3)
        workers.close()
    }

    @Test("A part of a loose file that does not come is missed")
    func looseMissing() throws {
        let sink = looseSink(UInt64(17 << 20))
        _ = try #require(sink.splitTail(near: 5_000_003, in: 2_000_000...16_000_000))
        sink.finish()
        workers.drain()
        #expect(slots.missing == [0..<1, 0..<1])
        workers.close()
    }

    @Test("A small loose file comes as one piece, a gap of one in any number")
    func small() {
        for (size, isGap, isCut) in [(16 << 20, false, false), (16 << 20, true, true), (3_000, true, true)] {
            let sink = looseSink(UInt64(size), isGap: isGap)
            #expect((sink.splitTail(near: 2_000, in: 1_000...2_999) != nil) == isCut)
        }
        workers.close()
    }

    @Test(
        "No cut where there is no place for one",
        arguments: [(1_105, 1_101...1_109), (1_000, 1_000...1_050), (2_085, 2_000...2_089), (1_500, 1_501...1_549)]
            as [(UInt64, ClosedRange<UInt64>)])
    func noPlace(offset: UInt64, range: ClosedRange<UInt64>) {
        let found = sink().splitTail(near: offset, in: range)
        #expect(found?.start == nil)
        workers.close()
    }
}

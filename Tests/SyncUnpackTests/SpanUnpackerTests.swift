import SyncContent
import SyncModel
import SyncPlugins
import SyncSystem
import SyncTestKit
import Testing

import struct Synchronization.Atomic

@testable import SyncManifest

/// Keeps what it is given, by slot.
private final class Collector: BlobConsumer {
    struct State {
        var whole: [Int: [UInt8]] = [:]
        var streamed: [Int: [UInt8]] = [:]
        var ended: Set<Int> = []
        var nextSlot: Int?
        var mistakes: [String] = []
        /// Who sent each slot, in order; `nil` for several at once.
        var sources: [Int: [String?]] = [:]
    }
    let state = Mutex(State())

    func take(_ stored: UnsafeRawBufferPointer, of slot: Int, from source: String?, worker: inout DecodeWorker) {
        state.withLock {
            $0.sources[slot, default: []].append(source)
            if $0.whole[slot] != nil { $0.mistakes.append("slot \(slot) came twice") }
            $0.whole[slot] = Array(stored)
        }
    }

    func begin(slot: Int, worker: inout DecodeWorker) {
        state.withLock {
            if $0.streamed[slot] != nil { $0.mistakes.append("slot \(slot) began twice") }
            $0.streamed[slot] = []
        }
    }

    func append(_ stored: UnsafeRawBufferPointer, to slot: Int, from source: String?, worker: inout DecodeWorker) {
        state.withLock {
            if $0.sources[slot]?.last != source { $0.sources[slot, default: []].append(source) }
            if $0.streamed[slot] == nil { $0.mistakes.append("slot \(slot) did not begin") }
            $0.streamed[slot]?.append(contentsOf: stored)
        }
    }

    func end(slot: Int, worker: inout DecodeWorker) {
        state.withLock { if !$0.ended.insert(slot).inserted { $0.mistakes.append("slot \(slot) ended twice") } }
    }

    func ended(span: Int, missing: Range<Int>, worker: inout DecodeWorker) {
        state.withLock {
            if $0.nextSlot != nil { $0.mistakes.append("the span ended twice") }
            $0.nextSlot = missing.lowerBound
        }
    }

    /// The bytes of every slot that is complete.
    var complete: [Int: [UInt8]] {
        state.withLock { state in state.whole.merging(state.streamed.filter { state.ended.contains($0.key) }) { $1 } }
    }
}

@Suite("Cutting a span into blobs", .timeLimit(.minutes(10)))
struct SpanUnpackerTests {
    /// A plan of one span at `start` of a pack, with these slots relative to it.
    private static func plan(_ slots: [Range<UInt64>], length: UInt64, start: UInt64 = 1_000) -> Plan {
        var plan = Plan()
        plan.slots = slots.map {
            Plan.Slot(
                range: ($0.lowerBound + start)..<($0.upperBound + start), rawLength: $0.length, codec: .identity,
                targets: 0..<0)
        }
        plan.spans = [Plan.Span(source: .pack(0), range: start..<(start + length), slots: 0..<slots.count)]
        return plan
    }

    /// Feeds `body` through a sink in pieces, and returns what came out.
    private static func run(_ plan: Plan, _ body: [UInt8], pieces: [Int], bufferSize: Int, buffers: Int = 8) throws -> (
        collector: Collector, pauses: Int, pool: BufferPool
    ) {
        let workers = try WorkerPool(count: 2)
        let pool = BufferPool(count: buffers, bufferSize: bufferSize)
        let collector = Collector()
        let unpacker = SpanUnpacker(plan: plan, span: 0, consumer: collector, pool: pool, workers: workers)
        let resumed = Monitor(0)
        let sink = SpanSink(unpacker: unpacker, range: plan.spans[0].range, pool: pool) { resumed.change { $0 += 1 } }
        _ = sink.begin(ResponseHead(status: 206))
        var offset = plan.spans[0].range.lowerBound
        var rest = body[...]
        var pauses = 0
        var piece = 0
        while !rest.isEmpty {
            let count = min(rest.count, pieces[piece % pieces.count])
            piece += 1
            var taken = false
            while !taken {
                let before = resumed.withLock { $0 }
                switch rest[..<(rest.startIndex + count)].withUnsafeBytes({ sink.receive($0, at: offset) }) {
                case .taken: taken = true
                case .stop: return (collector, -1, pool)
                case .paused:
                    pauses += 1
                    resumed.wait { $0 > before ? true : nil }
                }
            }
            offset += UInt64(count)
            rest = rest.dropFirst(count)
        }
        sink.finish()
        workers.drain()
        workers.close()
        return (collector, pauses, pool)
    }

    private static func expected(_ slots: [Range<UInt64>], _ body: [UInt8]) -> [Int: [UInt8]] {
        Dictionary(
            uniqueKeysWithValues: slots.enumerated().map { ($0, Array(body[Int($1.lowerBound)..<Int($1.upperBound)])) })
    }

    @Test("Every split of a short body gives the same blobs; gaps are skipped", arguments: 1...23)
    func everySplit(size: Int) throws {
        let slots: [Range<UInt64>] = [0..<3, 3..<4, 6..<13, 20..<23]
        let body = patternedBytes(size: 23, seed: 3)
        let plan = Self.plan(slots, length: 23)
        for buffer in [1, 2, 5, 8, 64] {
            let (collector, pauses, _) = try Self.run(plan, body, pieces: [size], bufferSize: buffer, buffers: 32)
            #expect(pauses >= 0)
            #expect(collector.complete == Self.expected(slots, body))
            #expect(collector.state.withLock { $0.mistakes } == [])
            #expect(collector.state.withLock { $0.nextSlot } == 4)
        }
    }

    @Test("Blobs come out whole whatever the pieces and buffers are", arguments: 0..<40)
    func property(seed: UInt64) throws {
        let random = patternedBytes(size: 400, seed: seed &+ 77).map(UInt64.init)
        var slots: [Range<UInt64>] = []
        var position: UInt64 = 0
        for index in 0..<(Int(random[0] % 40) + 1) {
            position += random[index + 1] % 3 == 0 ? random[index + 50] : 0
            let end = position + random[index + 100] * 5 + 1
            slots.append(position..<end)
            position = end
        }
        let length = position + random[2]
        let body = patternedBytes(size: Int(length), seed: seed)
        let pieces = random[150..<170].map { Int($0) * 3 + 1 }
        let (collector, pauses, pool) = try Self.run(
            Self.plan(slots, length: length), body, pieces: pieces, bufferSize: 1_024, buffers: 3)
        #expect(pauses >= 0)
        #expect(collector.complete == Self.expected(slots, body))
        #expect(collector.state.withLock { $0.mistakes } == [])
        #expect(pool.take(3, orCall: {})?.count == 3, "every buffer came back")
    }

    @Test("Large blobs are streamed, small ones between them are whole, and one buffer is enough")
    func streaming() throws {
        let large = SpanUnpacker.smallLimit + 1
        let slots: [Range<UInt64>] = [0..<10, 10..<(10 + large), (10 + large)..<(20 + large)]
        let body = patternedBytes(size: Int(large) + 20, seed: 5)
        let (collector, pauses, _) = try Self.run(
            Self.plan(slots, length: large + 20), body, pieces: [16_384, 7], bufferSize: 16_384, buffers: 1)
        #expect(pauses > 0, "one buffer cannot take the next piece while the last is being unpacked")
        #expect(collector.complete == Self.expected(slots, body))
        #expect(collector.state.withLock { Set($0.streamed.keys) } == [1])
    }

    @Test("A body that breaks off names the first blob that is not there", arguments: [0, 1, 9, 10, 11, 25, 29])
    func brokenOff(length: Int) throws {
        let slots: [Range<UInt64>] = [0..<10, 12..<20, 20..<30]
        let body = Array(patternedBytes(size: 30, seed: 8)[..<length])
        let (collector, _, pool) = try Self.run(Self.plan(slots, length: 30), body, pieces: [4], bufferSize: 8)
        let whole = slots.count { $0.upperBound <= UInt64(length) }
        #expect(collector.complete.count == whole)
        #expect(collector.state.withLock { $0.nextSlot } == whole)
        #expect(pool.take(8, orCall: {}) != nil)
    }

    @Test("Each blob knows who sent it, and of one that two have sent nobody is told", arguments: [8, 64])
    func senders(bufferSize: Int) throws {
        // The last is too long to be handed over whole.
        let long = SpanUnpacker.smallLimit + 10
        let slots: [Range<UInt64>] = [0..<10, 10..<20, 20..<30, 30..<(30 + long)]
        let plan = Self.plan(slots, length: 30 + long)
        let body = patternedBytes(size: Int(30 + long), seed: 5)
        let workers = try WorkerPool(count: 1)
        let pool = BufferPool(count: 64, bufferSize: bufferSize)
        let collector = Collector()
        let unpacker = SpanUnpacker(plan: plan, span: 0, consumer: collector, pool: pool, workers: workers)
        let sink = SpanSink(unpacker: unpacker, range: plan.spans[0].range, pool: pool, resume: {})
        func send(_ part: Range<Int>) {
            for start in stride(from: part.lowerBound, to: part.upperBound, by: 4) {
                let piece = body[start..<min(start + 4, part.upperBound)]
                while case .paused = piece.withUnsafeBytes({ sink.receive($0, at: 1_000 + UInt64(start)) }) {
                    workers.drain()
                }
            }
        }
        for (source, part) in [("a", 0..<15), ("b", 15..<40), ("c", 40..<Int(30 + long))] {
            _ = sink.begin(ResponseHead(status: 206, source: source))
            send(part)
            sink.interrupted()
        }
        sink.finish()
        workers.drain()
        workers.close()
        #expect(collector.complete == Self.expected(slots, body))
        #expect(collector.state.withLock(\.sources) == [0: ["a"], 1: [nil], 2: ["b"], 3: ["b", "c"]])
    }

    @Test("A sink refuses bytes that do not follow what it has")
    func wrongOffset() throws {
        let plan = Self.plan([0..<10], length: 10)
        let workers = try WorkerPool(count: 1)
        let pool = BufferPool(count: 1, bufferSize: 8)
        let unpacker = SpanUnpacker(plan: plan, span: 0, consumer: Collector(), pool: pool, workers: workers)
        let sink = SpanSink(unpacker: unpacker, range: 1_000..<1_010, pool: pool, resume: {})
        #expect(sink.begin(ResponseHead(status: 206)) == 1_000)
        let outcome = [UInt8(1), 2].withUnsafeBytes { sink.receive($0, at: 1_001) }
        guard case .stop = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(sink.position == 1_000)
        sink.finish()
        workers.close()
    }

    @Test("A piece that is longer than all buffers together ends the transfer: no wait would help")
    func longerThanPool() throws {
        let plan = Self.plan([0..<100], length: 100)
        let workers = try WorkerPool(count: 1)
        let pool = BufferPool(count: 2, bufferSize: 8)
        let unpacker = SpanUnpacker(plan: plan, span: 0, consumer: Collector(), pool: pool, workers: workers)
        let sink = SpanSink(unpacker: unpacker, range: 0..<100, pool: pool, resume: {})
        let outcome = [UInt8](repeating: 1, count: 17).withUnsafeBytes { sink.receive($0, at: 0) }
        guard case .stop = outcome else {
            Issue.record("\(outcome)")
            return
        }
        sink.finish()
        workers.close()
        #expect(pool.take(2, orCall: nil) != nil)
    }

    @Test("However often a sink is tried while the pool is empty, it is called once when buffers come back")
    func calledOnce() throws {
        let plan = Self.plan([0..<10], length: 10)
        let workers = try WorkerPool(count: 1)
        let pool = BufferPool(count: 1, bufferSize: 8)
        let unpacker = SpanUnpacker(plan: plan, span: 0, consumer: Collector(), pool: pool, workers: workers)
        let calls = Monitor(0)
        let sink = SpanSink(unpacker: unpacker, range: 0..<10, pool: pool) { calls.change { $0 += 1 } }
        _ = sink.begin(ResponseHead(status: 206))
        for round in 1...2 {
            let held = try #require(pool.take(1, orCall: nil)?.first)
            for _ in 0..<5 {
                let outcome = [UInt8(1), 2].withUnsafeBytes { sink.receive($0, at: 0) }
                guard case .paused = outcome else {
                    Issue.record("\(outcome)")
                    return
                }
            }
            pool.give(held)
            #expect(calls.withLock { $0 } == round)
        }
        let taken = [UInt8(1), 2].withUnsafeBytes { sink.receive($0, at: 0) }
        guard case .taken = taken else {
            Issue.record("\(taken)")
            return
        }
        sink.finish()
        workers.close()
    }

    @Test(
        "The turn of a sink that has ended, or lost its connection, goes to the next one that waits",
        arguments: [false, true], [false, true])
    func turnOfTheAbsent(isCalledFirst: Bool, hasEnded: Bool) throws {
        let plan = Self.plan([0..<10], length: 10)
        let workers = try WorkerPool(count: 1)
        let pool = BufferPool(count: 3, bufferSize: 8)
        let called = Monitor<[Int]>([])
        let sinks = (0..<2).map { number in
            let consumer = Collector()
            let unpacker = SpanUnpacker(plan: plan, span: 0, consumer: consumer, pool: pool, workers: workers)
            return SpanSink(unpacker: unpacker, range: 0..<10, pool: pool) { called.change { $0.append(number) } }
        }
        var held = try #require(pool.take(3, orCall: nil))
        for sink in sinks { _ = [UInt8(1), 2].withUnsafeBytes { sink.receive($0, at: 0) } }
        if isCalledFirst { pool.give(held.removeLast()) }
        if hasEnded { sinks[0].finish() } else { sinks[0].interrupted() }
        if !isCalledFirst { pool.give(held.removeLast()) }
        #expect(called.withLock { $0 } == (isCalledFirst ? [0, 1] : [1]))
        for sink in sinks[(hasEnded ? 1 : 0)...] { sink.finish() }
        workers.close()
    }

    @Test("Work that is queued when a pool closes is done")
    func closing() throws {
        let workers = try WorkerPool(count: 3)
        let runs = Monitor(0)
        for _ in 0..<500 { workers.submit { _ in runs.withLock { $0 += 1 } } }
        workers.close()
        #expect(runs.withLock { $0 } == 500)
    }
}

import SyncPlugins
import SyncTestKit
import SyncTransfer
import Synchronization
import Testing

/// A sink that gives its tail to another one, at multiples of a block.
final class SplittingSink: SplittableSink {
    private struct State {
        var next: UInt64
        var end: UInt64
        var bytes: [UInt8] = []
        var tails: [SplittingSink] = []
    }
    private let state: Mutex<State>
    private let block: UInt64

    init(range: Range<UInt64>, block: UInt64) {
        state = Mutex(State(next: range.lowerBound, end: range.upperBound))
        self.block = block
    }

    /// All parts, in order; `nil` when they do not fit together.
    var bytes: [UInt8] { state.withLock { $0.bytes } + state.withLock { $0.tails }.reversed().flatMap(\.bytes) }
    var parts: Int { 1 + state.withLock { $0.tails }.reduce(0) { $0 + $1.parts } }

    func begin(_ response: ResponseHead) -> UInt64 { state.withLock { $0.next } }

    func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome {
        state.withLock { state in
            guard offset == state.next, offset + UInt64(bytes.count) <= state.end else { return .stop }
            state.bytes += bytes
            state.next += UInt64(bytes.count)
            return .taken
        }
    }

    func splitTail(near offset: UInt64, in range: ClosedRange<UInt64>) -> (start: UInt64, sink: any TransferSink)? {
        state.withLock { state in
            let cut = offset / block * block
            guard range.contains(cut), cut > state.next, cut < state.end else { return nil }
            let tail = SplittingSink(range: cut..<state.end, block: block)
            state.end = cut
            state.tails.append(tail)
            return (cut, tail)
        }
    }
}

@Suite("Splitting the slowest", .timeLimit(.minutes(10)))
struct SplittingScenarioTests {
    /// Asks for all but the last byte of every object at once, the first with the highest priority.
    private func fetch(_ objects: [(path: String, object: ServedObject)], with bench: Bench) async throws -> (
        sinks: [SplittingSink], reports: [TransferReport]
    ) {
        let ends = Mutex<[Int: Result<TransferReport, TransferError>]>([:])
        var sinks: [SplittingSink] = []
        for (number, (path, object)) in objects.enumerated() {
            let size = UInt64(object.bytes.count)
            let sink = SplittingSink(range: 0..<(size - 1), block: 10_000)
            sinks.append(sink)
            var request = TransferRequest(
                id: TransferID(rawValue: UInt64(number)), urls: [bench.server.url(path)], limit: size)
            (request.range, request.objectSize, request.priority) = (0..<(size - 1), size, 10 - number)
            bench.transport.start(request, sink: sink) { result in ends.withLock { $0[number] = result } }
        }
        while ends.withLock({ $0.count < objects.count }) { try await Task.sleep(for: .milliseconds(2)) }
        let reports = try ends.withLock { ends in try objects.indices.map { try #require(ends[$0]).get() } }
        return (sinks, reports)
    }

    @Test("The end of a slow transfer is given to idle connections, and everything arrives once")
    func splits() async throws {
        let object = ServedObject.patterned(size: 6 << 20)
        let bench = try Bench { $0.minimumSplit = 256 * 1024 }
        bench.server.script("/a", .object(object).dripping(64 * 1024, every: .milliseconds(20)))
        let (sinks, reports) = try await fetch([("/a", object)], with: bench)
        let partial = sinks[0]
        #expect(isSame(partial.bytes, object.bytes.dropLast()))
        #expect(partial.parts > 1)
        #expect(reports[0].requests == partial.parts)
        #expect(bench.server.log.maximumConcurrentRequests > 1)
    }

    @Test("The last of many is asked for in ever shorter parts, and no answer is broken off")
    func shortens() async throws {
        let bench = try Bench {
            ($0.connections, $0.connectionsPerHost, $0.initialConnections) = (2, 2, 2)
            ($0.minimumSplit, $0.adaptive) = (64 * 1024, false)
        }
        let objects = [2, 2, 8].map { ServedObject.patterned(size: $0 << 20) }
        for (number, object) in objects.enumerated() {
            bench.server.script("/\(number)", .object(object).dripping(128 * 1024, every: .milliseconds(40)))
        }
        let all = objects.enumerated().map { ("/\($0)", $1) }
        let sinks = try await fetch(all, with: bench).sinks
        for (sink, object) in zip(sinks, objects) { #expect(isSame(sink.bytes, object.bytes.dropLast())) }
        // Two were under way when nothing was known of the server.
        #expect(sinks[2].parts > 2)
        #expect(bench.server.log.requests(to: "/2").count == sinks[2].parts)
        #expect(bench.server.log.bytesSent(to: "/2") == objects[2].bytes.count - 1)
    }

    @Test("At the end, what a slow connection has left goes to one that was fast, and everything arrives once")
    func handsOver() async throws {
        let bench = try Bench {
            ($0.connections, $0.connectionsPerHost, $0.initialConnections) = (2, 2, 2)
            ($0.minimumSplit, $0.adaptive) = (512 * 1024, false)
        }
        // 900 KiB are too little for a cut in the middle, and take the slow connection 7 s.
        let slow = ServedObject.patterned(size: 900 << 10)
        let fast = ServedObject.patterned(size: 4 << 20)
        bench.server.script("/slow", .object(slow).dripping(16 * 1024, every: .milliseconds(128)), .object(slow))
        bench.server.script("/fast", .object(fast))
        let sinks = try await fetch([("/slow", slow), ("/fast", fast)], with: bench).sinks
        #expect(isSame(sinks[0].bytes, slow.bytes.dropLast()) && isSame(sinks[1].bytes, fast.bytes.dropLast()))
        #expect(sinks[0].parts > 1 && bench.server.log.requests(to: "/slow").count == sinks[0].parts)
    }

    /// Asks for all of an object, without a range.
    private func fetchWhole(_ object: ServedObject, with bench: Bench) async throws -> (
        sink: SplittingSink, report: TransferReport
    ) {
        let size = UInt64(object.bytes.count)
        let sink = SplittingSink(range: 0..<size, block: 1)
        let end = Mutex<Result<TransferReport, TransferError>?>(nil)
        var request = TransferRequest(id: TransferID(rawValue: 1), urls: [bench.server.url("/a")], limit: size)
        request.objectSize = size
        bench.transport.start(request, sink: sink) { result in end.withLock { $0 = result } }
        let result = try await waitFor { end.withLock { $0 } }
        return (sink, try result.get())
    }

    @Test("A whole object comes over several connections where one is slow, and everything once")
    func wholeObject() async throws {
        let object = ServedObject.patterned(size: 6 << 20)
        let bench = try Bench { $0.minimumSplit = 256 * 1024 }
        bench.server.script("/a", .object(object).dripping(64 * 1024, every: .milliseconds(20)))
        let (sink, report) = try await fetchWhole(object, with: bench)
        #expect(isSame(sink.bytes, object.bytes[...]))
        #expect(sink.parts > 1 && report.requests == sink.parts)
        #expect(report.bytesReceived < UInt64(object.bytes.count) + 2_000_000)
        let asked = bench.server.log.requests(to: "/a").map(\.request)
        #expect(asked.first?.header("Range") == nil, "nothing was known of the server")
        #expect(asked.dropFirst().allSatisfy { $0.header("Range") != nil && $0.header("If-Range") != nil })
    }

    @Test("A server that promises ranges and sends the whole object is left to send it once [F011]")
    func promisedRanges() async throws {
        let object = ServedObject.patterned(size: 6 << 20)
        let bench = try Bench { $0.minimumSplit = 256 * 1024 }
        let answer = FaultAnswer.object(object).ignoringRanges().setting("Accept-Ranges", "bytes")
        bench.server.script("/a", answer.dripping(64 * 1024, every: .milliseconds(20)))
        let (sink, report) = try await fetchWhole(object, with: bench)
        #expect(isSame(sink.bytes, object.bytes[...]))
        #expect(report.bytesReceived < UInt64(object.bytes.count) + 1_000_000)
        #expect(report.requests > 1, "it was asked for a range")
    }

    @Test("A server that gets ranges wrong sends the whole object a few times, not once a part [F013]")
    func wrongRanges() async throws {
        let object = ServedObject.patterned(size: 6 << 20)
        let bench = try Bench { $0.minimumSplit = 256 * 1024 }
        let answer = FaultAnswer.object(object).shiftingRanges(by: 7)
        bench.server.script("/a", answer.dripping(64 * 1024, every: .milliseconds(20)))
        let (sink, report) = try await fetchWhole(object, with: bench)
        #expect(isSame(sink.bytes, object.bytes[...]))
        #expect(report.bytesReceived <= UInt64(object.bytes.count) * 3)
    }

    @Test("A server without ranges is asked once")
    func noRanges() async throws {
        let object = ServedObject.patterned(size: 4 << 20)
        let bench = try Bench { $0.minimumSplit = 256 * 1024 }
        let answer = FaultAnswer.object(object).ignoringRanges()
        bench.server.script("/a", answer.dripping(64 * 1024, every: .milliseconds(30)))
        let (sink, report) = try await fetchWhole(object, with: bench)
        #expect(isSame(sink.bytes, object.bytes[...]) && report.requests == 1)
    }

    @Test("Servers that do not agree on a version are not asked for the whole object again and again [F019]")
    func versions() async throws {
        let object = ServedObject.patterned(size: 16 << 20)
        let bench = try Bench { $0.minimumSplit = 256 * 1024 }
        let count = Mutex(0)
        bench.server.respond(to: "/a") { _ in
            var version = object
            version.etag = count.withLock { count in
                count += 1
                return "\"\(count % 3)\""
            }
            return .object(version).dripping(64 * 1024, every: .milliseconds(10))
        }
        let (sink, report) = try await fetchWhole(object, with: bench)
        #expect(isSame(sink.bytes, object.bytes[...]) && sink.parts > 1)
        #expect(report.bytesReceived < UInt64(object.bytes.count) * 2)
    }

    @Test("A sink that cannot be split is left alone")
    func unsplittable() async throws {
        let object = ServedObject.patterned(size: 2 << 20)
        let bench = try Bench { $0.minimumSplit = 64 * 1024 }
        bench.server.script("/a", .object(object).dripping(64 * 1024, every: .milliseconds(10)))
        let report = try await bench.deliver(object, range: 0..<(2 << 20 - 5))
        #expect(report.requests == 1)
    }
}

import SyncPlugins
import SyncTestKit
import SyncTransfer
import Synchronization
import Testing

@Suite("Whole bodies are shared", .timeLimit(.minutes(10)))
struct SharingScenarioTests {
    static let shared = ServedObject.patterned(size: 4 << 20)
    var object: ServedObject { Self.shared }

    static let large = ServedObject.patterned(size: 12 << 20)
    var large: ServedObject { Self.large }

    func spans(_ count: Int) -> [Range<UInt64>] {
        let size = UInt64(object.bytes.count)
        let length = size / UInt64(count)
        return (0..<UInt64(count)).map { $0 * length..<($0 == UInt64(count) - 1 ? size : ($0 + 1) * length) }
    }

    func run(_ bench: Bench, spans: [Range<UInt64>]) async throws {
        let runs = spans.map { (range: $0, run: bench.start(object, range: $0)) }
        for (range, run) in runs { try await bench.finish(run, object, range: range) }
    }

    @Test("A server without ranges costs the object about once, not once a span [F011 F059]", arguments: [1, 4])
    func rangeless(connections: Int) async throws {
        let bench = try Bench { $0.connectionsPerHost = connections }
        bench.server.script("/a", .object(object).ignoringRanges())
        try await run(bench, spans: spans(16))
        #expect(bench.server.log.requestCount <= connections + 2)
        #expect(bench.transport.totals.bytesReceived < UInt64(2 * object.bytes.count))
    }

    @Test("Spans in any order, some paused, all from one body")
    func paused() async throws {
        let bench = try Bench { $0.connectionsPerHost = 1 }
        bench.server.script("/a", .object(object).ignoringRanges())
        var runs: [(range: Range<UInt64>, run: TransferRun)] = []
        for (index, range) in spans(8).reversed().enumerated() {
            var behaviour = CollectingSink.Behaviour()
            behaviour.pauseEvery = 50_000
            behaviour.onPause = { [transport = bench.transport] in
                transport.resume(TransferID(rawValue: UInt64(index + 1)))
            }
            runs.append((range, bench.start(object, range: range, sink: behaviour)))
        }
        for (range, run) in runs { try await bench.finish(run, object, range: range) }
        #expect(bench.server.log.requestCount <= 3)
    }

    @Test("A shared body that breaks is continued for all of them")
    func broken() async throws {
        let bench = try Bench { $0.connectionsPerHost = 2 }
        bench.server.script(
            "/a", .object(object).ignoringRanges().dropping(at: 1_500_000),
            .object(object).ignoringRanges().resetting(at: 3_000_000), .object(object).ignoringRanges())
        try await run(bench, spans: spans(16))
        #expect(bench.server.log.requestCount <= 8)
    }

    @Test("One of them stops or is cancelled; the others get theirs")
    func oneStops() async throws {
        let bench = try Bench {
            $0.connectionsPerHost = 1
            $0.idleTimeout = .seconds(15)
        }
        // Who is cancelled before the others have joined ends the first answer; nobody releases a second stall.
        bench.server.script(
            "/a", .object(object).ignoringRanges().stalling(at: 100_000), .object(object).ignoringRanges())
        let spans = spans(4)
        var stopping = CollectingSink.Behaviour()
        stopping.stopAfter = 10_000
        let first = bench.start(object, range: spans[0])
        let second = bench.start(object, range: spans[1], sink: stopping)
        let third = bench.start(object, range: spans[2])
        let fourth = bench.start(object, range: spans[3])
        while first.sink.bytes.isEmpty { try await Task.sleep(for: .milliseconds(2)) }
        bench.transport.cancel(TransferID(rawValue: 1))
        // Before the bytes come with which it would end well.
        #expect(try await bench.failure(first).code == .cancelled)
        bench.server.releaseStalls()
        #expect(try await bench.failure(second).code == .stoppedBySink)
        try await bench.finish(third, object, range: spans[2])
        try await bench.finish(fourth, object, range: spans[3])
        #expect(bench.server.log.requestCount <= 2)
    }

    @Test("A mirror that has ranges is preferred when much would be wasted")
    func mirror() async throws {
        let bench = try Bench()
        bench.server.script("/a", .object(large).ignoringRanges())
        bench.server.serve(large, at: "/b")
        let urls = [bench.server.url("/a"), bench.server.url("/b")]
        let report = try await bench.deliver(large, from: urls, range: 11_000_000..<11_500_000)
        #expect(report.sourceIndex == 1)
        #expect(report.bytesReceived < 1_000_000)
    }

    @Test("Without such a mirror the whole body is taken")
    func noMirror() async throws {
        let bench = try Bench()
        for path in ["/a", "/b"] { bench.server.script(path, .object(large).ignoringRanges()) }
        let urls = [bench.server.url("/a"), bench.server.url("/b")]
        try await bench.deliver(large, from: urls, range: 11_000_000..<11_500_000)
    }
}

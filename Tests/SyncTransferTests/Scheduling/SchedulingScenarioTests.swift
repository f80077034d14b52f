import SyncPlugins
import SyncTestKit
import SyncTransfer
import Synchronization
import Testing

@Suite("Scheduling over real sockets", .timeLimit(.minutes(10)))
struct SchedulingScenarioTests {
    static let shared = ServedObject.patterned(size: 20_000)
    var object: ServedObject { Self.shared }

    func runAll(_ bench: Bench, _ urls: [String]) async throws {
        let runs = urls.map { bench.start(object, from: [$0]) }
        for run in runs { try await bench.finish(run, object) }
    }

    @Test("Never more connections than the caps [S82 S84 S87]", arguments: [(64, 3, 3), (2, 64, 2), (64, 1, 1)])
    func caps(connections: Int, perHost: Int, most: Int) async throws {
        let bench = try Bench {
            $0.connections = connections
            $0.connectionsPerHost = perHost
        }
        bench.server.script("/a", .object(object).delayed(by: .milliseconds(3)))
        try await runAll(bench, Array(repeating: bench.server.url("/a"), count: 40))
        #expect(bench.server.log.maximumConcurrentRequests <= most)
        #expect(bench.server.log.maximumConcurrentConnections <= most + 1, "a cut connection may still close")
        #expect(bench.server.log.requestCount == 40)
    }

    @Test(
        "When one ends the next begins: forty on one connection stand in line, and the line does not stop [S88 S148 G15]"
    )
    func line() async throws {
        let bench = try Bench {
            $0.connections = 1
            $0.adaptive = false
        }
        bench.server.script("/a", .object(object).delayed(by: .milliseconds(3)))
        try await runAll(bench, Array(repeating: bench.server.url("/a"), count: 40))
        let entries = bench.server.log.entries
        #expect(entries.count == 40 && bench.server.log.maximumConcurrentRequests == 1)
        // The middle one of all pauses: a machine that is busy with other things may well stretch some.
        let pauses = zip(entries, entries.dropFirst()).map { $1.received - ($0.ended ?? $0.received) }.sorted()
        #expect(pauses[pauses.count / 2] < .milliseconds(100), "\(pauses)")
    }

    @Test("The cap is the redirect target's own, not the origin's [S82]")
    func capAfterRedirects() async throws {
        let bench = try Bench {
            $0.connectionsPerHost = 2
            $0.adaptive = false
        }
        let target = try FaultServer()
        bench.server.respondToOthers { .redirect(to: target.url($0.path)).setting("Cache-Control", "no-store") }
        let object = object
        target.respondToOthers { _ in .object(object).delayed(by: .milliseconds(5)) }
        try await runAll(bench, (0..<20).map { bench.server.url("/\($0)") })
        #expect(target.log.maximumConcurrentRequests <= 2)
        #expect(target.log.requestCount == 20)
    }

    @Test("Starts follow the priority [S89]")
    func priority() async throws {
        let bench = try Bench {
            $0.connections = 1
            $0.idleTimeout = .seconds(15)
        }
        bench.server.script("/first", .object(object).stalling(at: 10))
        bench.server.respondToOthers { [object] _ in .object(object) }
        let first = bench.start(object, from: [bench.server.url("/first")])
        while bench.server.log.bytesSent < 10 { try await Task.sleep(for: .milliseconds(2)) }
        let runs = [5, 1, 9, 7].map { priority in
            bench.start(object, from: [bench.server.url("/\(priority)")]) { $0.priority = priority }
        }
        // Commands are taken in their order: when this one has ended, the others are queued.
        let last = bench.start(object)
        bench.transport.cancel(TransferID(rawValue: 6))
        #expect(try await bench.failure(last).code == .cancelled)
        bench.server.releaseStalls()
        for run in [first] + runs { try await bench.finish(run, object) }
        #expect(bench.server.log.entries.map(\.request.path) == ["/first", "/9", "/7", "/5", "/1"])
    }

    @Test("A pause of a server that accepts no more requests is announced once, and only if a transfer waits for it")
    func announcedPause() async throws {
        let bench = try Bench()
        bench.server.script("/a", .object(object).setting("RateLimit", "\"a\";r=0;t=60"))
        try await bench.deliver(object)
        #expect(bench.log.lines(of: "waiting").isEmpty)
        let runs = [bench.start(object), bench.start(object)]
        let line = try await waitFor { bench.log.lines(of: "waiting").first }
        #expect(line == "waiting \(bench.server.url("/a")): the server asks for a pause")
        for number in 2...3 { bench.transport.cancel(TransferID(rawValue: UInt64(number))) }
        for run in runs { #expect(try await bench.failure(run).code == .cancelled) }
        #expect(bench.log.lines(of: "waiting").count == 1)
    }

    @Test("Connections are kept from one transfer to the next")
    func reuse() async throws {
        let bench = try Bench { $0.connectionsPerHost = 2 }
        bench.server.serve(object, at: "/a")
        try await runAll(bench, Array(repeating: bench.server.url("/a"), count: 30))
        #expect(bench.server.log.connectionCount <= 2)
    }

    @Test("Ten thousand queued transfers end as cancelled or with their bytes")
    func many() async throws {
        let small = ServedObject.patterned(size: 10)
        let bench = try Bench()
        bench.server.serve(small, at: "/a")
        bench.server.script("/first", .object(small).delayed(by: .milliseconds(100)))
        let runs = (0..<10_000).map { index in
            bench.start(small, from: [bench.server.url(index < 4 ? "/first" : "/a")]) { $0.priority = -index }
        }
        for index in 4..<9_004 { bench.transport.cancel(TransferID(rawValue: UInt64(index + 1))) }
        var ended = (good: 0, cancelled: 0)
        for run in runs {
            switch try await run.end() {
            case .success: ended.good += 1
            case .failure(let error):
                #expect(error.code == .cancelled)
                ended.cancelled += 1
            }
        }
        #expect(ended.good + ended.cancelled == 10_000)
        #expect(ended.good >= 1_000 && ended.cancelled > 0)
    }

    @Test("A server that says 'too many' is asked by fewer at a time [F028]")
    func tooMany() async throws {
        let bench = try Bench {
            $0.connectionsPerHost = 16
            $0.initialConnections = 8
        }
        bench.server.script("/refused", .unavailable(429), .object(object))
        bench.server.script("/a", .object(object).delayed(by: .milliseconds(10)))
        try await runAll(bench, [bench.server.url("/refused")])
        #expect(bench.server.log.requests(to: "/refused").map(\.status) == [429, 200])
        // For two seconds from the refusal on there are no more than these.
        try await runAll(bench, Array(repeating: bench.server.url("/a"), count: 40))
        #expect((2...4).contains(bench.server.log.maximumConcurrentRequests))
        bench.transport.shutdown()
        let connections = try #require(bench.transport.takeSources()?.scores.values.first?.connections)
        #expect((1...4).contains(connections))
    }

    @Test("What was learnt about a host can be given to the next transport")
    func records() async throws {
        let server = try FaultServer()
        server.serve(.patterned(size: 2_000_000), at: "/a")
        let bench = try Bench(server: server)
        try await bench.deliver(.patterned(size: 2_000_000))
        bench.transport.shutdown()
        let (origin, score) = try #require(bench.transport.takeSources()?.scores.first)
        #expect(origin == server.url(""))
        #expect(score.successes == 1)
        #expect(score.rate != nil)
        #expect(bench.transport.takeSources() == nil, "nothing new")
    }

    @Test("The rate limit holds over all transfers together")
    func rateLimit() async throws {
        let large = ServedObject.patterned(size: 500_000)
        let bench = try Bench { $0.rateLimit = 2_000_000 }
        bench.server.serve(large, at: "/a")
        let start = ContinuousClock.now
        let runs = (0..<4).map { _ in bench.start(large) }
        for run in runs { try await bench.finish(run, large) }
        // No upper bound: that would be a test of the machine.
        #expect(ContinuousClock.now - start > .milliseconds(850), "2 MB at 2 MB/s, less the first tenth of a second")
        bench.transport.setRateLimit(nil)
        try await bench.deliver(large)
    }

    @Test("What trickles while others wait leaves its slot to them, and comes later [F037 V50]")
    func trickles() async throws {
        let bench = try Bench {
            // An hour passes in a minute, so that half a minute's window is half a second.
            let clock = systemClock
            $0.clock = TransportClock(now: { clock.now() * 60 }, unixTime: clock.unixTime)
            $0.idleTimeout = .seconds(600)
            $0.resourceDeadline = .seconds(3600)
            $0.retry.base = .milliseconds(1)
            $0.connections = 2
        }
        let fast = ServedObject.patterned(size: 400_000)
        bench.server.script("/slow", .object(object).dripping(1, every: .milliseconds(40)), .object(object))
        bench.server.script("/fast", .object(fast).delayed(by: .milliseconds(2)))
        let slow = bench.start(object, from: [bench.server.url("/slow")]) { $0.priority = 1 }
        while bench.server.log.requestCount == 0 { try await Task.sleep(for: .milliseconds(2)) }
        let runs = (0..<400).map { _ in bench.start(fast, from: [bench.server.url("/fast")]) }
        let report = try await bench.finish(slow, object)
        #expect(report.requests == 2)
        #expect(bench.log.lines(of: "retrying").first?.contains("less than 1.00 KiB per second") == true)
        for run in runs { try await bench.finish(run, fast) }
    }
}

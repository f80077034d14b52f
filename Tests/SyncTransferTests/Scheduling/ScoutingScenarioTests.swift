import SyncPlugins
import SyncSystem
import SyncTestKit
import SyncTransfer
import Testing

@Suite("One request finds out where many are redirected", .timeLimit(.minutes(10)))
struct ScoutingScenarioTests {
    static let shared = ServedObject.patterned(size: 1_600_000)
    var object: ServedObject { Self.shared }

    /// Starts sixteen spans of `paths` at once and waits for all of them.
    func deliver(_ bench: Bench, paths: [String] = ["/packs/1"]) async throws {
        let spans = (0..<16).map { UInt64($0) * 100_000..<UInt64($0 + 1) * 100_000 }
        let runs = spans.enumerated().map { index, span in
            bench.start(object, from: [bench.server.url(paths[index % paths.count])], range: span)
        }
        for (run, span) in zip(runs, spans) { try await bench.finish(run, object, range: span) }
    }

    /// A server that redirects `/packs/…` to `/store/…`, at a distance, and a transport that has seen it redirect.
    func bench(knows: Bool, change: (inout TransportConfiguration) -> Void = { _ in }) throws -> Bench {
        let server = try FaultServer()
        let origin = try CurlURL(server.url("/")).origin.description
        let bench = try Bench(server: server) {
            var score = HostScore()
            score.redirects = knows
            $0.sources.scores = [origin: score]
            $0.initialConnections = 16
            change(&$0)
        }
        for name in ["1", "2", "3", "4"] {
            server.script("/packs/\(name)", .redirect(to: "/store/\(name)").delayed(by: .milliseconds(50)))
            server.serve(object, at: "/store/\(name)")
        }
        return bench
    }

    func redirects(_ bench: Bench) -> Int { bench.server.log.entries.count { $0.request.path.hasPrefix("/packs/") } }

    @Test("Sixteen spans cost one redirect where the server is known to redirect", arguments: [1, 4])
    func known(packs: Int) async throws {
        let bench = try bench(knows: true)
        try await deliver(bench, paths: (1...packs).map { "/packs/\($0)" })
        #expect(redirects(bench) == 1)
        #expect(bench.server.log.requestCount == 17)
    }

    @Test("The redirect of another directory is warning enough; so is one seen before")
    func learnt() async throws {
        let bench = try bench(knows: false)
        bench.server.script("/manifest", .redirect(to: "/elsewhere"))
        bench.server.serve(object, at: "/elsewhere")
        try await bench.deliver(object, from: [bench.server.url("/manifest")])
        try await deliver(bench)
        #expect(redirects(bench) == 1)
    }

    @Test("Where nothing is known nobody waits, and those who come later do")
    func unknown() async throws {
        let bench = try bench(knows: false) { $0.connectionsPerHost = 4 }
        try await deliver(bench)
        bench.transport.shutdown()
        #expect((1...5).contains(redirects(bench)), "\(redirects(bench))")
        #expect(bench.transport.takeSources()?.scores.values.contains { $0.redirects } == true)
    }

    @Test("A server that redirects no more is believed after one answer")
    func noMore() async throws {
        let bench = try bench(knows: true)
        bench.server.script("/packs/1", .object(object).delayed(by: .milliseconds(50)))
        try await deliver(bench)
        #expect(bench.server.log.requestCount == 16)
        bench.transport.shutdown()
        #expect(bench.transport.takeSources()?.scores.values.allSatisfy { !$0.redirects } == true)
    }

    @Test("Signed links are asked for once a pack; links that may not be kept, once a span [S74]")
    func signed() async throws {
        let bench = try bench(knows: true)
        for name in ["1", "2", "3", "4"] {
            bench.server.script("/packs/\(name)", .redirect(to: "/store/\(name)?sig=\(name)"))
        }
        try await deliver(bench, paths: ["/packs/1", "/packs/2", "/packs/3", "/packs/4"])
        #expect(redirects(bench) == 4)

        let other = try self.bench(knows: true)
        other.server.script("/packs/1", .redirect(to: "/store/1").setting("Cache-Control", "no-store"))
        try await deliver(other)
        #expect(redirects(other) == 16)
    }

    @Test("When the first request fails, the others go on by themselves")
    func failing() async throws {
        let bench = try bench(knows: true)
        bench.server.script("/packs/1", .status(503), .redirect(to: "/store/1"))
        try await deliver(bench)
    }

    @Test("When the first request is cancelled or hangs, others go on", arguments: [true, false])
    func unanswered(isCancelled: Bool) async throws {
        // Nothing but the cancelling may end it, however slow the machine is.
        let bench = try bench(knows: true) { change in
            (change.idleTimeout, change.resourceDeadline) = (.seconds(100), .seconds(100))
        }
        bench.server.script("/packs/1", .silence, .redirect(to: "/store/1"))
        let scout = bench.start(object, from: [bench.server.url("/packs/1")], range: 0..<10)
        while bench.server.log.requestCount == 0 { try await Task.sleep(for: .milliseconds(5)) }
        let spans = (1..<5).map { UInt64($0) * 10..<UInt64($0 + 1) * 10 }
        let runs = spans.map { bench.start(object, from: [bench.server.url("/packs/1")], range: $0) }
        if isCancelled { bench.transport.cancel(TransferID(rawValue: 1)) }
        for (run, span) in zip(runs, spans) { try await bench.finish(run, object, range: span) }
        if !isCancelled { bench.transport.cancel(TransferID(rawValue: 1)) }
        #expect(try await bench.failure(scout).code == .cancelled)
        #expect(redirects(bench) <= 5)
    }
}

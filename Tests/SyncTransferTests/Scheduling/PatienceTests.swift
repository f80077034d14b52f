import SyncPlugins
import SyncTestKit
import SyncTransfer
import Synchronization
import Testing

@Suite("Patience over real sockets", .timeLimit(.minutes(10)))
struct PatienceTests {
    let object = ServedObject.patterned(size: 200_000)

    private func bench(_ patience: Patience) throws -> Bench {
        try Bench {
            $0.patience = patience
            $0.idleTimeout = .seconds(60)
            $0.connectTimeout = .seconds(60)
        }
    }

    /// The longest time that a transfer took.
    private func longest(_ runs: [TransferRun]) -> Duration { runs.compactMap(\.elapsed).max() ?? .zero }

    @Test("A dead server ends all that waits for it when the first contact has not come, and is named [S51]")
    func dead() async throws {
        let port = try ClosedPort()
        let bench = try bench(Patience(firstContact: .seconds(1), silence: .seconds(60)))
        let runs = (0..<40).map { _ in bench.start(object, from: [port.url("/a")]) }
        for run in runs {
            let error = try await bench.failure(run)
            #expect(error.code == .unreachable)
            #expect(error.detail.hasSuffix("nothing came from http://127.0.0.1:\(port.port) for 1 s"))
        }
        let taken = longest(runs)
        #expect((.seconds(1)..<(.seconds(3))).contains(taken))
    }

    @Test("A server that takes connections and says nothing ends the same way, long before it is idle")
    func silent() async throws {
        let bench = try bench(Patience(firstContact: .seconds(1), silence: .seconds(60)))
        bench.server.respondToOthers { _ in .silence }
        let runs = (0..<40).map { bench.start(object, from: [bench.server.url("/\($0)")]) }
        for run in runs {
            let error = try await bench.failure(run)
            #expect(error.code == .timedOut)
            #expect(error.detail.hasPrefix("no answer; nothing came from http://127.0.0.1:"))
        }
        let taken = longest(runs)
        #expect((.seconds(1)..<(.seconds(3))).contains(taken))
        bench.server.releaseStalls()
    }

    @Test("Less patience counts at once, also for servers already being waited for")
    func shortened() async throws {
        let bench = try bench(Patience(.seconds(15)))
        bench.server.respondToOthers { _ in .silence }
        let run = bench.start(object)
        while bench.server.log.requestCount == 0 { try await Task.sleep(for: .milliseconds(2)) }
        bench.transport.setWaiting(deadline: .seconds(20), patience: Patience(.milliseconds(300)))
        let error = try await bench.failure(run)
        #expect(error.code == .timedOut)
        #expect(longest([run]) < .seconds(5))
        bench.server.releaseStalls()
    }

    @Test("Once something came, the longer time counts")
    func afterContact() async throws {
        let bench = try bench(Patience(firstContact: .milliseconds(300), silence: .seconds(1)))
        bench.server.serve(object, at: "/a")
        try await bench.deliver(object)
        bench.server.script("/silent", .silence)
        let runs = [bench.start(object, from: [bench.server.url("/silent")])]
        _ = try await bench.failure(runs[0])
        let taken = longest(runs)
        #expect((.seconds(1)..<(.seconds(3))).contains(taken))
        bench.server.releaseStalls()
    }

    @Test("Bytes that drip, a pause that the server asks for and one dead mirror of two try nobody's patience")
    func patient() async throws {
        let bench = try bench(Patience(.milliseconds(600)))
        bench.server.script("/drip", .object(object).dripping(20_000, every: .milliseconds(150)))
        bench.server.script("/later", .unavailable(429, retryAfter: "2"), .object(object))
        let port = try ClosedPort()
        try await bench.deliver(object, from: [bench.server.url("/drip")])
        try await bench.deliver(object, from: [bench.server.url("/later")])
        bench.server.serve(object, at: "/a")
        try await bench.deliver(object, from: [port.url("/a"), bench.server.url("/a")])
    }

    @Test("A process that was stopped for longer than the patience goes on with what it was at [S115 F086]")
    func stoppedProcess() async throws {
        let jump = Mutex(Duration.zero)
        let bench = try Bench {
            $0.clock.now = { systemClock.now() + jump.withLock { $0 } }
            $0.patience = Patience(.seconds(60))
            $0.idleTimeout = .seconds(60)
            $0.resourceDeadline = .seconds(600)
        }
        bench.server.script("/drip", .object(object).dripping(20_000, every: .milliseconds(100)))
        let run = bench.start(object, from: [bench.server.url("/drip")])
        try await waitFor { run.sink.bytes.isEmpty ? nil : true }
        jump.withLock { $0 = .seconds(120) }
        try await bench.finish(run, object)
    }

    @Test("A server out of order ends it with its own words")
    func outOfOrder() async throws {
        let bench = try Bench {
            $0.patience = Patience(.seconds(1))
            $0.retry.base = .milliseconds(100)
            $0.retry.attempts = 100
        }
        bench.server.respondToOthers { _ in .unavailable(503) }
        let runs = (0..<42).map { bench.start(object, from: [bench.server.url("/\($0)")]) }
        for run in runs {
            let error = try await bench.failure(run)
            #expect(error.code == .badStatus(503))
        }
        let taken = longest(runs)
        #expect(taken < .seconds(3))
        // Those that wait find out one at a time, not each for itself.
        #expect(bench.server.log.requestCount < 42 + 42)
    }

    /// How a network shows its log-in page.
    enum Portal: String, CaseIterable { case inPlace, withoutLength, redirect }

    private func show(_ portal: Portal, on server: FaultServer, unless isOpen: @escaping @Sendable () -> Bool) {
        let object = object
        server.respondToOthers { request in
            if isOpen() { return .object(object) }
            if portal == .redirect, !request.path.hasPrefix("/login") { return .redirect(to: "/login?\(request.path)") }
            return portal == .withoutLength ? .captivePortal().withoutLength() : .captivePortal()
        }
    }

    @Test(
        "A log-in page in place of every file is told as that and ends within the patience [F030]",
        arguments: Portal.allCases)
    func portal(portal: Portal) async throws {
        let bench = try bench(Patience(firstContact: .seconds(1), silence: .seconds(60)))
        show(portal, on: bench.server) { false }
        let runs = (0..<42).map { bench.start(object, from: [bench.server.url("/\($0)")]) }
        for run in runs {
            let error = try await bench.failure(run)
            #expect(error.detail.contains("a web page in place of the file"))
        }
        let taken = longest(runs)
        #expect(taken < .seconds(4))
        let reasons = Set(bench.log.lines(of: "waiting").map { $0.split(separator: ": ").last ?? "" })
        #expect(reasons.count == 1)
        #expect(bench.log.lines(of: "retrying").isEmpty)
        // The first eight, then one at a time, ten milliseconds apart at least: a second has room for a hundred. How many
        // files wait does not count; where the page is behind a redirect each try is two requests.
        let tries = 8 + 100
        #expect(bench.server.log.requestCount <= (portal == .redirect ? 2 * tries : tries))
    }

    @Test("Who asks behind a log-in page after the patience has run out does not wait for it once more [F030]")
    func portalAgain() async throws {
        // A host that nobody has asked for that long counts as new: longer than a loaded machine takes to ask again.
        let bench = try bench(Patience(.seconds(4)))
        show(.inPlace, on: bench.server) { false }
        _ = try await bench.failure(bench.start(object, from: [bench.server.url("/0")]))
        let asked = bench.server.log.requestCount
        let runs = (0..<42).map { bench.start(object, from: [bench.server.url("/\($0)")]) }
        for run in runs { _ = try await bench.failure(run) }
        #expect(longest(runs) < .seconds(1))
        // One that was on its way when the first had failed may be counted late.
        #expect(bench.server.log.requestCount <= asked + 2)
    }

    @Test("Once somebody has logged in, all goes on [F030]", arguments: Portal.allCases)
    func login(portal: Portal) async throws {
        let bench = try bench(Patience(.seconds(20)))
        let isOpen = Atomic(false)
        show(portal, on: bench.server) { isOpen.load(ordering: .acquiring) }
        let runs = (0..<42).map { bench.start(object, from: [bench.server.url("/\($0)")]) }
        while bench.log.lines(of: "waiting").count < 4 { try await Task.sleep(for: .milliseconds(5)) }
        isOpen.store(true, ordering: .releasing)
        for run in runs { try await bench.finish(run, object) }
    }
}

@Suite("Retries of many files", .timeLimit(.minutes(10)))
struct ManyRetryTests {
    let object = ServedObject.patterned(size: 30_000)

    /// The longest waits that the schedule allows.
    private func bench() throws -> Bench {
        try Bench {
            $0.retry = RetryPolicy()
            $0.random = { .max }
            $0.resourceDeadline = .seconds(120)
        }
    }

    private func pull(_ bench: Bench) async throws -> Duration {
        let runs = (0..<41).map { bench.start(object, from: [bench.server.url("/\($0)")]) }
        for run in runs {
            _ = try await run.end(within: .seconds(100)).get()
            #expect(run.sink.bytes == object.bytes)
        }
        return runs.compactMap(\.elapsed).max() ?? .zero
    }

    @Test("41 files whose connections break twice each take ten seconds at most [F004]")
    func broken() async throws {
        let bench = try bench()
        for index in 0..<41 {
            bench.server.script(
                "/\(index)", .object(object).dropping(at: 10_000), .object(object).dropping(at: 10_000), .object(object)
            )
        }
        #expect(try await pull(bench) <= .seconds(10))
        #expect(bench.server.log.requestCount == 123)
    }

    @Test("41 files that are put off twice for a second take fifteen at most, and nobody comes too early [F028]")
    func putOff() async throws {
        let bench = try bench()
        for index in 0..<41 {
            let later = FaultAnswer.unavailable(429, retryAfter: "1")
            bench.server.script("/\(index)", later, later, .object(object))
        }
        #expect(try await pull(bench) <= .seconds(15))
        #expect(bench.server.log.requestCount == 123)
    }

    @Test("A host's waits double until something comes from there; who fails meanwhile waits with the others")
    func backoff() {
        let policy = RetryPolicy()
        var backoff = HostBackoff()
        func fail(_ times: Int, at now: Duration) -> Duration {
            backoff.failed(times, now: now, policy: policy) { 1 << 63 }
        }
        // Half of 1, 2, 4 s: the middle of the jitter.
        let first = fail(1, at: .zero)
        #expect(first == .milliseconds(500) && !backoff.isShut)
        #expect(fail(1, at: .milliseconds(400)) == first && backoff.failedRounds == 1)
        let second = fail(2, at: first)
        #expect(second == first + .seconds(1) && backoff.isShut)
        #expect(fail(3, at: second) == second + .seconds(2))
        backoff.succeeded()
        #expect(!backoff.isShut)
        // What was brought further waits for its host alone; what fails alone, for itself.
        let later = Duration.seconds(100)
        #expect(fail(0, at: later) == later + .milliseconds(500))
        backoff.succeeded()
        #expect(fail(4, at: later + .seconds(50)) == later + .seconds(54))
    }
}

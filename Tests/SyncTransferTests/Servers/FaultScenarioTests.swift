import SyncModel
import SyncPlugins
import SyncSystem
import SyncTestKit
import SyncTransfer
import Testing

@Suite("Faults over real sockets", .timeLimit(.minutes(10)))
struct FaultScenarioTests {
    var object: ServedObject { FaultFixtures.object }

    @Test(
        "Faults that pass end with the right bytes", arguments: FaultFixtures.passing.keys.sorted(),
        [nil, 1_000..<299_000] as [Range<UInt64>?])
    func passing(name: String, range: Range<UInt64>?) async throws {
        let bench = try Bench()
        bench.server.script("/a", try #require(FaultFixtures.passing[name]), .object(object))
        bench.server.serve(object, at: "/b")  // For faults of servers that are set up that way.
        try await bench.deliver(object, from: [bench.server.url("/a"), bench.server.url("/b")], range: range)
    }

    @Test("A known version is asked for by its tag, and by its date only where it has none")
    func conditions() async throws {
        let bench = try Bench()
        bench.server.serve(object, at: "/a")
        let date = try #require(object.lastModified)
        let other = try await bench.deliver(object) { request in
            request.knownValidator = Validator(etag: "\"another\"", lastModified: date)
        }
        #expect(other.response.status == 200)
        #expect(bench.server.log.values(of: "if-none-match") == ["\"another\""])
        #expect(bench.server.log.values(of: "if-modified-since") == [])
        let run = bench.start(object) { $0.knownValidator = Validator(lastModified: date) }
        #expect(try await run.end().get().response.status == 304)
        #expect(bench.server.log.values(of: "if-modified-since") == [date])
    }

    @Test("A sink is told of every answer that ended early, so that it holds no memory meanwhile")
    func told() async throws {
        let bench = try Bench()
        bench.server.script(
            "/a", .object(object).dropping(at: 20_000), .object(object).dropping(at: 30_000), .object(object))
        let run = bench.start(object)
        _ = try await bench.finish(run, object)
        #expect(run.sink.interruptions == run.sink.beginCount - 1)
        #expect(run.sink.interruptions == 2)
    }

    @Test("The connection comes back after an outage; no attempt is counted [S51 F001]")
    func outage() async throws {
        let bench = try Bench {
            $0.retry.attempts = 1
            $0.retry.connectivityCap = .milliseconds(30)
        }
        bench.server.serve(object, at: "/a")
        try bench.server.closePort()
        let run = bench.start(object)
        while bench.log.lines(of: "waiting").count < 12 { try await Task.sleep(for: .milliseconds(5)) }
        try bench.server.openPort()
        let report = try await bench.finish(run, object)
        #expect(report.requests == 1)
    }

    @Test("Many transfers to a dead host knock one at a time")
    func oneKnocks() async throws {
        let port = try ClosedPort()
        let bench = try Bench {
            $0.resourceDeadline = .milliseconds(400)
            $0.retry.connectivityCap = .milliseconds(100)
            $0.adaptive = false
        }
        let runs = (0..<200).map { _ in bench.start(object, from: [port.url("/a")]) }
        for run in runs { #expect(try await bench.failure(run).code == .unreachable) }
        #expect(bench.log.lines(of: "waiting").count < 60)
        #expect(bench.transport.totals.requests == 0)
    }

    @Test("A dead mirror costs no waiting [F042]")
    func deadMirror() async throws {
        let port = try ClosedPort()
        let bench = try Bench { $0.retry.connectivityCap = .seconds(60) }
        bench.server.serve(object, at: "/a")
        let runs = (0..<20).map { _ in bench.start(object, from: [port.url("/a"), bench.server.url("/a")]) }
        for run in runs { #expect(try await bench.finish(run, object).sourceIndex == 1) }
        #expect(!bench.log.lines(of: "penalised").isEmpty)
    }

    @Test("A name that does not resolve waits like a host that is down [F046]")
    func unknownName() async throws {
        let bench = try Bench { $0.resourceDeadline = .milliseconds(300) }
        let error = try await bench.failure(bench.start(object, from: ["http://nothing.invalid/a"]))
        #expect(error.code == .unreachable)
        #expect(bench.log.lines(of: "waiting").first?.contains("nothing.invalid") == true)
    }

    @Test("A server that stays ill ends the transfer after the attempts, and says why")
    func attempts() async throws {
        let bench = try Bench { $0.retry.attempts = 3 }
        bench.server.script("/a", .unavailable(503))
        let error = try await bench.failure(bench.start(object))
        #expect(error.code == .badStatus(503))
        #expect(error.requests == 3)
    }

    @Test("Progress renews the attempts: a connection that breaks fifty times still delivers [F004]")
    func progress() async throws {
        let large = ServedObject.patterned(size: 5_000_000)
        let bench = try Bench {
            $0.retry.attempts = 2
            $0.retry.base = .milliseconds(1)
        }
        bench.server.respond(to: "/a") { _ in .object(large).dropping(at: 100_000) }
        let report = try await bench.deliver(large)
        #expect(report.requests == 50)
        #expect(report.bytesReceived == 5_000_000)
    }

    @Test("A server that cuts or caps every answer at a few KiB still delivers [F004 F012]")
    func shortAnswers() async throws {
        let small = ServedObject.patterned(size: 64_000)
        let bench = try Bench {
            $0.retry.attempts = 2
            $0.retry.base = .milliseconds(1)
        }
        bench.server.respond(to: "/a") { _ in .object(small).dropping(at: 4_000) }
        #expect(try await bench.deliver(small).requests == 16)
    }

    @Test("One byte an attempt is progress, but not for ever [F004 F037]")
    func oneByteAtATime() async throws {
        let bench = try Bench {
            $0.retry.attempts = 2
            $0.retry.base = .milliseconds(20)
            $0.speedTime = .milliseconds(300)
        }
        bench.server.respond(to: "/a") { [object] _ in .object(object).dropping(at: 1) }
        let error = try await bench.failure(bench.start(object))
        #expect(error.requests > 2, "each attempt has brought something")
    }

    @Test("A refusal with a time to wait is asked again after it, and no other source is needed [F029]")
    func rateLimit() async throws {
        let bench = try Bench()
        bench.server.script("/a", .unavailable(403, retryAfter: "0"), .object(object))
        #expect(try await bench.deliver(object).requests == 2)
    }

    @Test(
        "Objects that a store serves with the coding of their upload arrive as they are [F031]",
        arguments: ["", "identity", "aws-chunked", "aws-chunked,identity"], [nil, 1_000..<299_000] as [Range<UInt64>?])
    func uploadCoding(coding: String, range: Range<UInt64>?) async throws {
        let bench = try Bench()
        bench.server.script("/a", .object(object).setting("Content-Encoding", coding))
        #expect(try await bench.deliver(object, range: range).requests == 1)
    }

    @Test("Permanent faults ask no second time", arguments: FaultFixtures.permanent.keys.sorted())
    func permanent(name: String) async throws {
        let fault = try #require(FaultFixtures.permanent[name])
        let bench = try Bench()
        bench.server.script("/a", fault.answer, .object(object))
        let error = try await bench.failure(bench.start(object))
        #expect(error.code.name == fault.code)
        #expect(bench.server.log.requestCount == 1)
    }

    @Test("A longer body without a length is stopped at the size and named [F009]")
    func oversize() async throws {
        let bench = try Bench()
        bench.server.script("/a", .object(.patterned(size: 400_000)).withoutLength())
        let error = try await bench.failure(bench.start(object))
        #expect(error.code == .tooLarge)
    }

    @Test("A stale cache is asked once to look again [F041]")
    func stale() async throws {
        let bench = try Bench()
        bench.server.respond(to: "/a", FaultServer.staleCache(.patterned(size: 100), fresh: object))
        let report = try await bench.deliver(object)
        #expect(report.requests == 2)
    }

    @Test("An object of unknown length that is replaced while it is fetched arrives whole, in its new length [F014]")
    func replaced() async throws {
        let bench = try Bench()
        let (old, new) = (ServedObject.patterned(size: 50_000, seed: 1), ServedObject.patterned(size: 70_000, seed: 2))
        for (before, after) in [(old, new), (new, old)] {
            bench.server.script("/m", .object(before).dropping(at: 20_000), .object(after))
            let sink = ForgetfulSink()
            let result = Monitor<Result<TransferReport, TransferError>?>(nil)
            let request = TransferRequest(id: TransferID(rawValue: 1), urls: [bench.server.url("/m")], limit: 1 << 20)
            bench.transport.start(request, sink: sink) { end in result.change { $0 = end } }
            _ = try await waitFor { result.withLock { $0 } }.get()
            #expect(isSame(sink.bytes, after.bytes[...]), "\(sink.bytes.count) bytes")
        }
    }

    @Test("Out of time behind a log-in page, that page is the cause [F030]")
    func lateAtPortal() async throws {
        let bench = try Bench { $0.resourceDeadline = .seconds(3) }
        bench.server.respond(to: "/a") { _ in .captivePortal() }
        let error = try await bench.failure(bench.start(object))
        #expect(error.detail.hasPrefix("not done within") && error.cause == .loginPage, "\(error)")
    }

    @Test("A file of authorities that is not there refuses the transport, by name [F057]")
    func authorities() throws {
        let error = try #require(throws: TransferError.self) {
            try makeTransport { $0.tls.authorities = "/nowhere/authorities.pem" }
        }
        #expect(error.detail.contains("/nowhere/authorities.pem"), "\(error)")
    }

    @Test("An empty object comes without Range [F040]")
    func empty() async throws {
        let bench = try Bench()
        bench.server.serve(ServedObject([]), at: "/a")
        try await bench.deliver(ServedObject([]))
        #expect(bench.server.log.values(of: "range").isEmpty)
        bench.server.script("/a", .status(404))
        #expect(try await bench.failure(bench.start(ServedObject([]))).code == .badStatus(404))
    }

    @Test("What trickles alone is asked again, a few times, at another source first [F037 V50]")
    func tooSlow() async throws {
        let bench = try Bench {
            $0.speedTime = .milliseconds(200)
            $0.retry.attempts = 3
            $0.idleTimeout = .seconds(15)
        }
        bench.server.script("/a", .object(object).dripping(1, every: .milliseconds(20)))
        let error = try await bench.failure(bench.start(object))
        #expect(error.code == .timedOut && error.detail.contains("less than 1.00 KiB per second"), "\(error)")
        #expect(error.requests == 3)
        bench.server.serve(object, at: "/b")
        let urls = [bench.server.url("/a"), bench.server.url("/b")]
        let report = try await bench.deliver(object, from: urls)
        #expect(report.sourceIndex == 1)
        // A head is slow, too.
        bench.server.script("/c", .object(object).withInterimAnswers(3).dripping(4, every: .milliseconds(30)))
        let head = try await bench.failure(bench.start(object, from: [bench.server.url("/c")]))
        #expect(head.code == .timedOut)
    }

    @Test("Neither a pause, a limit of our own nor a slow link that many share is too slow [F052]")
    func slowEnough() async throws {
        let small = ServedObject.patterned(size: 400)
        let paused = try Bench { $0.speedTime = .milliseconds(100) }
        paused.server.serve(object, at: "/a")
        var sink = CollectingSink.Behaviour()
        sink.pauseEvery = 100_000
        let run = paused.start(object, sink: sink)
        for _ in 0..<4 {
            try await Task.sleep(for: .milliseconds(400))
            paused.transport.resume(TransferID(rawValue: 1))
        }
        #expect(try await paused.finish(run, object).requests == 1)

        let limited = try Bench {
            $0.speedTime = .milliseconds(100)
            $0.speedLimit = 1 << 30
            $0.rateLimit = 600_000
        }
        limited.server.serve(object, at: "/a")
        #expect(try await limited.deliver(object).requests == 1)

        // Each brings 200 bytes a second, all of them 2,000.
        let shared = try Bench {
            $0.speedTime = .milliseconds(400)
            $0.speedLimit = 1_000
            $0.initialConnections = 10
        }
        for number in 0..<10 {
            shared.server.script("/\(number)", .object(small).dripping(4, every: .milliseconds(20)))
        }
        let runs = (0..<10).map { shared.start(small, from: [shared.server.url("/\($0)")]) }
        for run in runs { #expect(try await shared.finish(run, small).requests == 1) }

        let unlimited = try Bench {
            $0.speedTime = .milliseconds(100)
            $0.speedLimit = 0
        }
        unlimited.server.script("/a", .object(small).dripping(20, every: .milliseconds(20)))
        #expect(try await unlimited.deliver(small).requests == 1)
    }

    @Test("The deadline ends what trickles [F037 V50 S56]")
    func trickle() async throws {
        let bench = try Bench { $0.resourceDeadline = .milliseconds(500) }
        bench.server.script("/a", .object(object).dripping(1, every: .milliseconds(20)))
        let error = try await bench.failure(bench.start(object))
        #expect(error.code == .timedOut)
    }
}

private enum FaultFixtures {
    static let object = ServedObject.patterned(size: 300_000)

    /// Named, because a test's arguments are described in full: an answer holds the whole object.
    static let passing: [String: FaultAnswer] = {
        let good = FaultAnswer.object(object)
        return [
            "F002 silence": .silence, "F004 FIN after the first byte": good.dropping(at: 1),
            "F004 FIN before the last byte": good.dropping(at: 299_999),
            "F006 RST half way": good.resetting(at: 150_000), "F006 RST": .reset, "F007 FIN": .dropped,
            "F008": good.withoutLength().dropping(at: 1000), "F011": good.ignoringRanges(),
            "F012": good.shiftingRanges(by: -7), "F013": good.shiftingRanges(by: 7), "F014": good.withTotal(299_999),
            "F015 none": good.withoutContentRange(), "F015 unsatisfied": good.withContentRange("bytes */300000"),
            "F016": good.withMultipartRanges(), "F018": good.refusingRanges(),
            "F020": good.withWeakETag().dropping(at: 9), "F028 503": .unavailable(503),
            "F028 429": .unavailable(429, retryAfter: "0"), "F029 negative": .unavailable(503, retryAfter: "-9"),
            "F029 garbage": .unavailable(500, retryAfter: "Mon, 99 Foo"), "F030": .captivePortal(),
            "F032 size": good.chunked(fault: .badSize), "F032 huge": good.chunked(fault: .hugeSize),
            "F032 line": good.chunked(fault: .missingLineEnd), "F032 end": good.chunked(fault: .missingEnd),
            "F032 trailers": good.chunked(fault: .trailerFlood), "F035 chunked": good.chunked(),
            "F035": good.asHTTP10(), "F036 many": good.withHeaderFlood(500), "F036 large": good.withHugeHeader(200_000),
            "F036 1xx": good.withInterimAnswers(300), "F038 negative": good.claimingLength("-1"),
            "F038 overflow": good.claimingLength("99999999999999999999"), "F038 two": good.claimingLength("10", "11"),
        ]
    }()

    static let permanent: [String: (answer: FaultAnswer, code: String)] = [
        "F027 404": (.status(404), "status-404"), "F027 410": (.status(410), "status-410"),
        "F026": (.status(401), "authentication"), "F027 403": (.status(403), "authentication"),
        "F031": (FaultAnswer.object(object).claimingGzip(), "badAnswer"), "F039": (.status(204), "badAnswer"),
        "F009": (FaultAnswer.object(object).appending(bytes: 10), "tooLarge"),
    ]
}

/// Begins anew with every answer, as what reads a manifest does.
private final class ForgetfulSink: TransferSink {
    private let collected = Mutex<[UInt8]>([])

    var bytes: [UInt8] { collected.withLock { $0 } }

    func begin(_ response: ResponseHead) -> UInt64 {
        collected.withLock { $0 = [] }
        return 0
    }

    func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome {
        collected.withLock { $0 += bytes }
        return .taken
    }
}

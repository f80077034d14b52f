import SyncPlugins
import SyncSystem
import SyncTestKit
import SyncTransfer
import Testing

/// Answers challenges that begin with `Bearer`, and remembers what it was asked.
private final class ScriptedAnswer: ChallengeAnswer {
    private let asked = Mutex<[CredentialRequest]>([])
    private let answer: @Sendable (Int) throws(PluginError) -> Credential?

    /// - Parameter answer: For the question of this number, counted from 1.
    init(_ answer: @escaping @Sendable (Int) throws(PluginError) -> Credential?) { self.answer = answer }

    var requests: [CredentialRequest] { asked.withLock { $0 } }

    func mayAnswer(_ challenge: String, of origin: String) -> Bool { challenge.hasPrefix("Bearer") }

    func credential(for request: CredentialRequest) throws(PluginError) -> Credential? {
        let number = asked.withLock { asked in
            asked.append(request)
            return asked.count
        }
        return try answer(number)
    }
}

@Suite("Challenges are answered, and heads are asked for", .timeLimit(.minutes(10)))
struct ChallengeTests {
    private let object = ServedObject.patterned(size: 50_000)
    private static let challenge = FaultAnswer.status(401).setting("WWW-Authenticate", "Bearer realm=\"x\"")

    /// A server that lets in who shows the token `good`.
    private func bench(
        _ answer: ScriptedAnswer, good: @escaping @Sendable () -> String,
        _ change: @Sendable (inout TransportConfiguration) -> Void = { _ in }
    ) throws -> Bench {
        let bench = try Bench {
            $0.challenges = answer
            change(&$0)
        }
        let object = object
        bench.server.respondToOthers { request in
            request.header("authorization") == "Bearer \(good())" ? .object(object) : Self.challenge
        }
        return bench
    }

    @Test("Nobody is asked before a server has refused, and once for all requests there [S74]")
    func once() async throws {
        let answer = ScriptedAnswer { _ in Credential(.bearer(token: "good")) }
        let bench = try bench(answer) { "good" }
        bench.server.serve(object, at: "/open")
        try await bench.deliver(object, from: [bench.server.url("/open")])
        #expect(answer.requests.isEmpty)
        let runs = (0..<20).map { _ in bench.start(object) }
        for run in runs { try await bench.finish(run, object) }
        let request = try #require(answer.requests.first)
        #expect(answer.requests.count == 1 && request.refused == 401 && request.challenge == "Bearer realm=\"x\"")
        #expect(!request.isPublic)
    }

    @Test("A challenge that nobody can answer costs no further request; one without an answer costs one [S74]")
    func unanswered() async throws {
        let answer = ScriptedAnswer { _ in nil }
        let bench = try bench(answer) { "good" }
        bench.server.script("/basic", FaultAnswer.status(401).setting("WWW-Authenticate", "Basic realm=\"x\""))
        let basic = try await bench.failure(bench.start(object, from: [bench.server.url("/basic")]))
        #expect(basic.code == .authentication && bench.server.log.requests(to: "/basic").count == 1)
        #expect(answer.requests.isEmpty)
        let error = try await bench.failure(bench.start(object))
        #expect(error.code == .authentication && error.status == 401)
        #expect(answer.requests.count == 1 && bench.server.log.requests(to: "/a").count == 2)
        _ = try await bench.failure(bench.start(object))
        #expect(answer.requests.count == 1 && bench.server.log.requests(to: "/a").count == 3)
    }

    @Test("A token that is refused while a transfer gets on is replaced as often as need be [S74]")
    func renewed() async throws {
        let answer = ScriptedAnswer { number in Credential(.bearer(token: "\(number)")) }
        let bench = try bench(answer) { "none" }
        let object = object
        let good = Mutex((number: 1, left: 1))
        bench.server.respond(to: "/a") { request in
            good.withLock { good in
                guard request.header("authorization") == "Bearer \(good.number)" else { return Self.challenge }
                guard good.left > 0 else {
                    good = (good.number + 1, 1)
                    return Self.challenge
                }
                good.left -= 1
                // A seventh at a time.
                return .object(object).dropping(at: 8_000)
            }
        }
        try await bench.deliver(object)
        #expect(answer.requests.count >= 6)
        #expect(bench.server.log.bytesSent(to: "/a") <= object.bytes.count + 8_000)
    }

    @Test("A token that has ended by its own time is replaced before it is refused [S74]")
    func ended() async throws {
        let time = Mutex(Int64(1_000))
        let answer = ScriptedAnswer { _ in
            Credential(.bearer(token: "good"), expires: time.withLock { $0 } + 60)
        }
        let bench = try bench(answer, good: { "good" }) { configuration in
            configuration.clock = TransportClock(now: systemClock.now, unixTime: { time.withLock { $0 } })
        }
        try await bench.deliver(object)
        try await bench.deliver(object)
        #expect(answer.requests.map(\.refused) == [401])
        time.withLock { $0 += 61 }
        try await bench.deliver(object)
        #expect(answer.requests.map(\.refused) == [401, nil])
        #expect(answer.requests.last?.challenge == "Bearer realm=\"x\"")
        #expect(bench.server.log.requests(to: "/a").count == 4)
    }

    @Test("A challenge without an answer is asked about again a minute later: the user may have logged in [S74]")
    func loggedInLater() async throws {
        let time = Mutex(Int64(1_000))
        let answer = ScriptedAnswer { number in number == 1 ? nil : Credential(.bearer(token: "good")) }
        let bench = try bench(answer, good: { "good" }) { configuration in
            configuration.clock = TransportClock(now: systemClock.now, unixTime: { time.withLock { $0 } })
        }
        for _ in 0..<2 { _ = try await bench.failure(bench.start(object)) }
        #expect(answer.requests.map(\.refused) == [401])
        time.withLock { $0 += 61 }
        try await bench.deliver(object)
        #expect(answer.requests.map(\.refused) == [401, nil])
    }

    @Test("What was refused as often as may be is looked for again a minute later, each time [S74]")
    func loggedInMuchLater() async throws {
        let time = Mutex(Int64(1_000))
        let answer = ScriptedAnswer { number in Credential(.bearer(token: number < 4 ? "bad" : "good")) }
        let bench = try bench(answer, good: { "good" }) { configuration in
            configuration.clock = TransportClock(now: systemClock.now, unixTime: { time.withLock { $0 } })
        }
        for _ in 0..<2 { _ = try await bench.failure(bench.start(object)) }
        #expect(answer.requests.map(\.refused) == [401, 401])
        time.withLock { $0 += 61 }
        for _ in 0..<2 { _ = try await bench.failure(bench.start(object)) }
        #expect(answer.requests.map(\.refused) == [401, 401, nil])
        time.withLock { $0 += 61 }
        try await bench.deliver(object)
        #expect(answer.requests.map(\.refused) == [401, 401, nil, nil])
    }

    @Test("A login without the rights is looked for again a minute later: the user may have another by then [S74]")
    func loggedInAsAnother() async throws {
        let time = Mutex(Int64(1_000))
        let answer = ScriptedAnswer { number in Credential(.bearer(token: number == 1 ? "guest" : "good")) }
        let bench = try bench(answer, good: { "good" }) { configuration in
            configuration.clock = TransportClock(now: systemClock.now, unixTime: { time.withLock { $0 } })
        }
        let object = object
        bench.server.respond(to: "/a") { request in
            switch request.header("authorization") {
            case "Bearer guest": .status(403)
            case "Bearer good": .object(object)
            default: Self.challenge
            }
        }
        for _ in 0..<2 { _ = try await bench.failure(bench.start(object)) }
        #expect(answer.requests.map(\.refused) == [401])
        time.withLock { $0 += 61 }
        try await bench.deliver(object)
        #expect(answer.requests.map(\.refused) == [401, nil])
    }

    @Test("Where no token can be had a minute after one was refused, it lets in whom it let in before [S74]")
    func failsLater() async throws {
        let time = Mutex(Int64(1_000))
        let answer = ScriptedAnswer { number throws(PluginError) in
            guard number == 1 else { throw PluginError(plugin: "tokens", code: .unavailable, message: "status 503") }
            return Credential(.bearer(token: "good"))
        }
        let bench = try bench(answer, good: { "good" }) { configuration in
            configuration.clock = TransportClock(now: systemClock.now, unixTime: { time.withLock { $0 } })
        }
        bench.server.respond(to: "/b") { $0.header("authorization") == nil ? Self.challenge : .status(403) }
        _ = try await bench.failure(bench.start(object, from: [bench.server.url("/b")]))
        time.withLock { $0 += 61 }
        try await bench.deliver(object)
        #expect(answer.requests.map(\.refused) == [401, nil])
    }

    @Test("Where it is redirected to, no token is shown [S74]")
    func redirected() async throws {
        let store = try FaultServer()
        let object = object
        store.respond(to: "/b") { $0.header("authorization") == nil ? .object(object) : .status(400) }
        let answer = ScriptedAnswer { _ in Credential(.bearer(token: "good")) }
        let bench = try bench(answer) { "good" }
        bench.server.respond(to: "/r") { request in
            request.header("authorization") == nil ? Self.challenge : .redirect(to: store.url("/b"), status: 307)
        }
        try await bench.deliver(object, from: [bench.server.url("/r")])
    }

    @Test("Of a head nothing comes but the head, and the next request of the same connection has a body again")
    func heads() async throws {
        let bench = try Bench()
        let object = object
        let methods = Mutex<[String]>([])
        bench.server.respond(to: "/a") { request in
            methods.withLock { $0.append(request.method) }
            guard request.header("accept") == "x/y" || request.method == "GET" else { return .status(406) }
            return FaultAnswer.object(object).setting("Docker-Content-Digest", "sha256:12")
        }
        func head() -> TransferRun {
            bench.start(object) {
                ($0.objectSize, $0.isHeadOnly, $0.accepted) = (nil, true, "x/y")
            }
        }
        for _ in 0..<3 {
            let report = try await head().end().get()
            #expect(report.response.contentDigest == "sha256:12" && report.response.status == 200)
            #expect(report.bytesReceived == 0 && report.requests == 1)
            try await bench.deliver(object)
        }
        #expect(methods.withLock { $0 } == ["HEAD", "GET", "HEAD", "GET", "HEAD", "GET"])
        bench.server.script("/a", .status(404))
        let error = try await bench.failure(head())
        #expect(error.code.status == 404)
    }
}

import Dispatch
import SyncPlugins
import SyncSystem
import SyncTestKit
import SyncTransfer
import Testing

/// Answers as a closure says, and remembers what it was asked.
final class ScriptedProvider: CredentialProvider {
    private let asked = Mutex<[CredentialRequest]>([])
    private let answer: @Sendable (CredentialRequest) throws(PluginError) -> Credential?

    init(_ answer: @escaping @Sendable (CredentialRequest) throws(PluginError) -> Credential?) { self.answer = answer }

    var requests: [CredentialRequest] { asked.withLock { $0 } }

    func credential(for request: CredentialRequest) throws(PluginError) -> Credential? {
        asked.withLock { $0.append(request) }
        return try answer(request)
    }
}

@Suite("Credential providers let requests in", .timeLimit(.minutes(10)))
struct CredentialProviderTests {
    static let shared = ServedObject.patterned(size: 50_000)
    var object: ServedObject { Self.shared }

    func bench(
        _ provider: some CredentialProvider, accepts tokens: Set<String>,
        _ change: @Sendable (inout TransportConfiguration) -> Void = { _ in }
    ) throws -> Bench {
        let bench = try Bench {
            $0.credentialProviders = [ConfiguredCredentialProvider(name: "scripted", plugin: provider)]
            change(&$0)
        }
        let object = object
        bench.server.respond(to: "/a") { request in
            tokens.contains(request.header("authorization") ?? "") ? .object(object) : .status(401)
        }
        return bench
    }

    @Test("Asked once for an origin, however many requests go there")
    func once() async throws {
        let provider = ScriptedProvider { _ in Credential(.bearer(token: "good")) }
        let bench = try bench(provider, accepts: ["Bearer good"])
        let runs = (0..<20).map { _ in bench.start(object) }
        for run in runs { try await bench.finish(run, object) }
        let origin = try CurlURL(bench.server.url("/")).origin.description
        #expect(provider.requests == [CredentialRequest(origin: origin)])
    }

    @Test("What is refused is asked for again, twice at most [S74 F026]")
    func refused() async throws {
        let provider = ScriptedProvider { Credential(.bearer(token: $0.refused == nil ? "old" : "new")) }
        let bench = try bench(provider, accepts: ["Bearer new"])
        try await bench.deliver(object)
        #expect(provider.requests.map(\.refused) == [nil, 401])

        let wrong = ScriptedProvider { _ in Credential(.bearer(token: "wrong")) }
        let closed = try self.bench(wrong, accepts: [])
        let error = try await closed.failure(closed.start(object))
        #expect(error.code == .authentication)
        #expect(wrong.requests.count == 3 && closed.server.log.requests(to: "/a").count == 3)
    }

    @Test(
        "What is refused as often as may be, or is not there, is asked for again a minute later [S74 F026]",
        arguments: [false, true])
    func later(isAbsent: Bool) async throws {
        let time = Mutex(Int64(1_000))
        let provider = ScriptedProvider { _ in
            if time.withLock({ $0 }) > 1_060 { return Credential(.bearer(token: "good")) }
            return isAbsent ? nil : Credential(.bearer(token: "old"))
        }
        let bench = try bench(provider, accepts: ["Bearer good"]) { configuration in
            configuration.clock = TransportClock(now: systemClock.now, unixTime: { time.withLock { $0 } })
        }
        for _ in 0..<2 { _ = try await bench.failure(bench.start(object)) }
        let asked: [Int?] = isAbsent ? [nil] : [nil, 401, 401]
        #expect(provider.requests.map(\.refused) == asked)
        time.withLock { $0 += 61 }
        try await bench.deliver(object)
        #expect(provider.requests.map(\.refused) == asked + [isAbsent ? nil : 401])
    }

    @Test("A provider that fails a minute after a refusal takes nothing from those let in before [S74 F026]")
    func failsLater() async throws {
        let time = Mutex(Int64(1_000))
        let provider = ScriptedProvider { _ throws(PluginError) in
            guard time.withLock({ $0 }) < 1_060 else {
                throw PluginError(plugin: "scripted", code: .unavailable, message: "the vault is sealed")
            }
            return Credential(.bearer(token: "good"))
        }
        let bench = try bench(provider, accepts: ["Bearer good"]) { configuration in
            configuration.clock = TransportClock(now: systemClock.now, unixTime: { time.withLock { $0 } })
        }
        bench.server.respond(to: "/b") { _ in .status(403) }
        _ = try await bench.failure(bench.start(object, from: [bench.server.url("/b")]))
        for _ in 0..<2 {
            time.withLock { $0 += 61 }
            try await bench.deliver(object)
        }
        #expect(provider.requests.map(\.refused) == [nil, 403, 403, 403, 403])
    }

    @Test("A credential that expires again and again is renewed each time it has been good in between [S74 F026]")
    func renewed() async throws {
        let given = Mutex(0)
        let provider = ScriptedProvider { _ in
            Credential(
                .bearer(
                    token: given.withLock { number in
                        number += 1
                        return "\(number)"
                    }))
        }
        let bench = try bench(provider, accepts: [])
        let object = object
        let good = Mutex(1)
        bench.server.respond(to: "/a") { request in
            request.header("authorization") == "Bearer \(good.withLock { $0 })" ? .object(object) : .status(401)
        }
        for round in 1...6 {
            good.withLock { $0 = round }
            try await bench.deliver(object)
        }
        #expect(provider.requests.map(\.refused) == [nil, 401, 401, 401, 401, 401])
    }

    @Test("A credential that has expired when it comes is asked for once: the server decides [S74]")
    func expiredOnArrival() async throws {
        let provider = ScriptedProvider { _ in Credential(.bearer(token: "good"), expires: 1) }
        let bench = try bench(provider, accepts: ["Bearer good"])
        let runs = (0..<20).map { _ in bench.start(object) }
        for run in runs { try await bench.finish(run, object) }
        #expect(provider.requests.count == 1)
    }

    @Test("One answer serves all that were refused before it, even if it is the same credential again [S74]")
    func sameAgain() async throws {
        let provider = ScriptedProvider { _ in Credential(.bearer(token: "good")) }
        let bench = try bench(provider, accepts: []) {
            $0.initialConnections = 8
            $0.idleTimeout = .seconds(60)
        }
        for number in 0..<8 {
            // All are sent before the first is refused, and the others are refused when that has another answer.
            let refusal = FaultAnswer.status(401).delayed(by: .milliseconds(number == 0 ? 2_000 : 5_000))
            bench.server.script("/\(number)", refusal, .object(object))
        }
        let runs = (0..<8).map { bench.start(object, from: [bench.server.url("/\($0)")]) }
        for run in runs { try await bench.finish(run, object) }
        #expect(provider.requests.map(\.refused) == [nil, 401])
    }

    @Test("Providers that never answer hold three threads at most [F094]")
    func stuck() async throws {
        let release = DispatchSemaphore(value: 0)
        let silent = ScriptedProvider { _ in
            release.wait()
            return nil
        }
        let bench = try bench(silent, accepts: [""]) { $0.pluginDeadline = .milliseconds(20) }
        let servers = try (0..<5).map { _ in try FaultServer() }
        for server in servers {
            server.serve(object, at: "/a")
            try await bench.deliver(object, from: [server.url("/a")])
        }
        try await waitFor { silent.requests.count >= 3 ? true : nil }
        #expect(silent.requests.count == 3)
        #expect(bench.log.lines(of: "plugin failed credential").count == 5, "each is told")
        for _ in 0..<3 { release.signal() }
    }

    @Test("An object that nobody may have costs two renewals, however many others come meanwhile [F026]")
    func forbidden() async throws {
        let provider = ScriptedProvider { _ in Credential(.bearer(token: "good")) }
        let bench = try bench(provider, accepts: ["Bearer good"])
        bench.server.script("/b", .status(403))
        for _ in 0..<3 {
            let error = try await bench.failure(bench.start(object, from: [bench.server.url("/b")]))
            #expect(error.code == .authentication)
            try await bench.deliver(object)
        }
        #expect(bench.server.log.requests(to: "/b").count == 9)
        #expect(provider.requests.count == 7)
    }

    @Test("An answer for one origin is not shown to another [V19 V20]")
    func elsewhere() async throws {
        let home = Mutex("")
        let provider = ScriptedProvider { request in
            request.origin == home.withLock { $0 } ? Credential(.bearer(token: "canary")) : nil
        }
        let bench = try bench(provider, accepts: [])
        home.withLock { $0 = (try? CurlURL(bench.server.url("/")).origin.description) ?? "" }
        bench.server.script("/b", .redirect(to: bench.server.localhostURL("/c")))
        bench.server.serve(object, at: "/c")
        try await bench.deliver(object, from: [bench.server.url("/b")])
        let sent = { (path: String) in bench.server.log.requests(to: path).map { $0.request.header("authorization") } }
        #expect(sent("/b") == ["Bearer canary"] && sent("/c") == [nil])
        #expect(provider.requests.count == 2)
    }

    @Test(
        "A line end in a credential makes it none [V28]",
        arguments: [
            Credential.Kind.bearer(token: "a\r\nX-Evil: b"), .basic(user: "a\n", password: "b"),
            .headers([HeaderField("X-A", "b\nX-Evil: c")]), .headers([HeaderField("X-A:", "b")]),
        ])
    func lineEnds(kind: Credential.Kind) async throws {
        let bench = try bench(ScriptedProvider { _ in Credential(kind) }, accepts: [""])
        try await bench.deliver(object)
        #expect(bench.server.log.values(of: "x-evil").isEmpty)
        #expect(bench.log.lines(of: "plugin failed credential").count == 1, "\(bench.log.lines)")
    }

    @Test("Silence and failure let requests go out without [F094]")
    func silence() async throws {
        let release = DispatchSemaphore(value: 0)
        let silent = ScriptedProvider { _ in
            release.wait()
            return nil
        }
        let bench = try bench(silent, accepts: [""]) { $0.pluginDeadline = .milliseconds(50) }
        try await bench.deliver(object)
        release.signal()
        let failing = ScriptedProvider { _ throws(PluginError) in
            throw PluginError(plugin: "scripted", code: .refused, message: "the vault is sealed")
        }
        let other = try self.bench(failing, accepts: [""])
        try await other.deliver(object)
        #expect(other.log.lines == ["plugin failed credential: plugin scripted: the vault is sealed"])
    }

    @Test("Headers of a provider are sent as they are")
    func headers() async throws {
        let provider = ScriptedProvider { _ in
            Credential(.headers([HeaderField("Authorization", "Token a"), HeaderField("X-Tenant", "7")]))
        }
        let bench = try bench(provider, accepts: ["Token a"])
        try await bench.deliver(object)
        #expect(bench.server.log.values(of: "x-tenant") == ["7"])
    }
}

import Dispatch
import SyncModel
import SyncPlugins
import SyncTestKit
import SyncTransfer
import Synchronization
import Testing

/// Answers as a closure says, and remembers what it was asked.
final class ScriptedResolver: RequestResolver {
    private let asked = Mutex<[[ResolverRequest]]>([])
    private let answer: @Sendable (ResolverRequest) throws(PluginError) -> RequestDisposition

    init(_ answer: @escaping @Sendable (ResolverRequest) throws(PluginError) -> RequestDisposition) {
        self.answer = answer
    }

    var batches: [[ResolverRequest]] { asked.withLock { $0 } }
    var requests: [ResolverRequest] { batches.flatMap { $0 } }

    func resolve(_ requests: [ResolverRequest]) throws(PluginError) -> [RequestDisposition] {
        asked.withLock { $0.append(requests) }
        var answers: [RequestDisposition] = []
        for request in requests { answers.append(try answer(request)) }
        return answers
    }
}

@Suite("Resolvers decide about requests before they are sent", .timeLimit(.minutes(10)))
struct ResolverTests {
    static let shared = ServedObject.patterned(size: 50_000)
    var object: ServedObject { Self.shared }

    func bench(
        _ resolver: some RequestResolver, for prefixes: [String] = [],
        _ change: @Sendable (inout TransportConfiguration) -> Void = { _ in }
    ) throws -> Bench {
        let scope = try URLScope.prefixes(prefixes)
        return try Bench {
            $0.resolvers = [ConfiguredResolver(name: "scripted", plugin: resolver, scope: scope)]
            change(&$0)
        }
    }

    @Test("Another request is sent in its place, with headers for its origin only [S54]")
    func replace() async throws {
        let resolver = ScriptedResolver { request in
            guard request.reason == .start else { return .proceed }
            return .replace(url: request.url.replacing("/a", with: "/b"), headers: [HeaderField("X-Link", "canary")])
        }
        let bench = try bench(resolver)
        bench.server.script("/b", .redirect(to: bench.server.localhostURL("/c")))
        bench.server.serve(object, at: "/c")
        let report = try await bench.deliver(object)
        #expect(report.requests == 2 && report.sourceIndex == 0)
        #expect(bench.server.log.requests(to: "/a").isEmpty)
        #expect(bench.server.log.requests(to: "/b").first?.request.header("x-link") == "canary")
        #expect(bench.server.log.requests(to: "/c").allSatisfy { $0.request.header("x-link") == nil })
        #expect(bench.log.lines(of: "resolved by scripted 0").count == 1, "\(bench.log.lines)")
    }

    @Test("Cancelled, a transfer ends without a request [S54]")
    func cancel() async throws {
        let bench = try bench(ScriptedResolver { _ in .cancel(reason: "licence\nexpired") })
        bench.server.serve(object, at: "/a")
        let error = try await bench.failure(bench.start(object))
        #expect(error.code == .refusedByPolicy && error.detail.contains("licence"), "\(error)")
        #expect(error.requests == 0 && bench.server.log.requests(to: "/a").isEmpty)
    }

    @Test(
        "What is no usable answer changes nothing, and is told [S54]",
        arguments: [
            RequestDisposition.replace(url: "file:///etc/passwd", headers: []),
            .replace(url: "http://127.0.0.1:1/\u{0}", headers: []),
            .replace(url: "http://127.0.0.1:1/", headers: [HeaderField("X-A", "b\r\nAuthorization: c")]),
            .replace(url: "http://127.0.0.1:1/", headers: [HeaderField("X A", "b")]),
        ])
    func unusable(answer: RequestDisposition) async throws {
        let bench = try bench(ScriptedResolver { _ in answer })
        bench.server.serve(object, at: "/a")
        try await bench.deliver(object)
        #expect(bench.log.lines(of: "plugin failed resolver").count == 1, "\(bench.log.lines)")
    }

    @Test("A resolver that fails changes nothing, and is told [S54 F094]")
    func failure() async throws {
        let resolver = ScriptedResolver { _ throws(PluginError) in
            throw PluginError(plugin: "scripted", code: .unavailable, message: "no such host")
        }
        let bench = try bench(resolver)
        bench.server.serve(object, at: "/a")
        try await bench.deliver(object)
        #expect(bench.log.lines == ["plugin failed resolver: plugin scripted: no such host"])
    }

    @Test("Silence is an answer after a while, and the third silence the last question [S54 V66]")
    func silence() async throws {
        let release = DispatchSemaphore(value: 0)
        let resolver = ScriptedResolver { _ in
            release.wait()
            return .cancel(reason: "too late")
        }
        let bench = try bench(resolver) { $0.pluginDeadline = .milliseconds(50) }
        for path in ["/a", "/b", "/c", "/d"] {
            bench.server.serve(object, at: path)
            try await bench.deliver(object, from: [bench.server.url(path)])
        }
        for _ in 0..<8 { release.signal() }
        #expect(resolver.batches.count == 3)
        #expect(bench.log.lines(of: "plugin failed resolver").count == 3)
    }

    @Test("Where only an answer says where to ask, nothing is sent without a usable one")
    func marked() async throws {
        let usable = "http://127.0.0.1:1/"
        let resolvers = [
            ScriptedResolver { _ in .replace(url: "file:///etc/passwd", headers: []) },
            ScriptedResolver { _ in .replace(url: usable, headers: [HeaderField("X A", "b")]) },
            ScriptedResolver { _ throws(PluginError) in
                throw PluginError(plugin: "scripted", code: .unavailable, message: "no such host")
            },
            ScriptedResolver { _ in .cancel(reason: "denied", cause: .access) },
        ]
        let causes: [FailureCause] = [.serverTrouble, .serverTrouble, .serverTrouble, .access]
        for (resolver, cause) in zip(resolvers, causes) {
            let bench = try Bench {
                $0.resolvers = [ConfiguredResolver(name: "scripted", plugin: resolver, scope: .marked("mark="))]
            }
            bench.server.serve(object, at: "/a")
            let error = try await bench.failure(bench.start(object, from: [bench.server.url("/a?mark=1")]))
            #expect(error.cause == cause && error.requests == 0, "\(error)")
            #expect(bench.server.log.requestCount == 0)
        }
    }

    @Test("Asked only about URLs it is for")
    func scope() async throws {
        let resolver = ScriptedResolver { _ in .proceed }
        let bench = try bench(resolver, for: ["https://elsewhere.example/"])
        bench.server.serve(object, at: "/a")
        try await bench.deliver(object)
        #expect(resolver.batches.isEmpty)
    }

    @Test("The target of a redirect is shown to it, too [S54 S74]")
    func redirect() async throws {
        let resolver = ScriptedResolver { request in
            guard case .redirect = request.reason else { return .proceed }
            return .replace(url: request.url.replacing("/moved", with: "/near"), headers: [])
        }
        let bench = try bench(resolver)
        bench.server.script("/a", .redirect(to: "/moved"))
        bench.server.serve(object, at: "/near")
        let report = try await bench.deliver(object)
        #expect(report.currentURL.hasSuffix("/near"))
        #expect(resolver.requests.map(\.reason) == [.start, .redirect(status: 302)])
        #expect(resolver.requests.allSatisfy { $0.original.hasSuffix("/a") })
        #expect(bench.log.lines(of: "resolved by scripted 1").count == 1)
    }

    @Test("A link that has expired is asked for again [S74 F025]")
    func expired() async throws {
        let count = Mutex(0)
        let resolver = ScriptedResolver { request in
            let number = count.withLock { value in
                value += 1
                return value
            }
            return .replace(url: request.url + "?link=\(number)", headers: [])
        }
        let bench = try bench(resolver)
        let object = object
        bench.server.respond(to: "/a") { request in request.target.hasSuffix("link=1") ? .status(403) : .object(object)
        }
        try await bench.deliver(object)
        #expect(resolver.requests.map(\.reason) == [.start, .expired(status: 403)])
        #expect(bench.server.log.requests(to: "/a").count == 2)
    }

    @Test("A link that many have is asked for again once when it has expired [S74 F025]")
    func shared() async throws {
        let resolver = ScriptedResolver { request in
            .replace(url: request.url + (request.reason == .start ? "?link=1" : "?link=2"), headers: [])
        }
        let bench = try bench(resolver)
        let object = object
        let refusals = Mutex(0)
        bench.server.respond(to: "/a") { request in
            guard request.target.hasSuffix("link=1") else { return .object(object) }
            let number = refusals.withLock { number in
                number += 1
                return number
            }
            // Some while the first is asked for, some after that.
            return .status(403).delayed(by: .milliseconds(10 * number))
        }
        let runs = (0..<20).map { _ in bench.start(object) }
        for run in runs { try await bench.finish(run, object) }
        #expect(resolver.requests.count { $0.reason == .start } == 20)
        #expect(resolver.requests.count { $0.reason == .expired(status: 403) } == 1)
    }

    @Test("A link that has been renewed several times costs one refusal, however old it is [S74 F025]")
    func chain() async throws {
        let newest = Mutex(1)
        let resolver = ScriptedResolver { request in
            .replace(url: "\(request.url)?link=\(request.reason == .start ? 1 : newest.withLock { $0 })", headers: [])
        }
        let bench = try bench(resolver)
        let object = object
        // A link is good for one request.
        bench.server.respond(to: "/a") { request in
            newest.withLock { number in
                guard request.target.hasSuffix("link=\(number)") else { return .status(403) }
                number += 1
                return .object(object)
            }
        }
        for _ in 0..<6 { try await bench.deliver(object) }
        #expect(bench.server.log.requests(to: "/a").count == 15, "1, then 2, then 3 each")
        #expect(resolver.requests.count { $0.reason == .expired(status: 403) } == 5)
    }

    @Test("Links that end at a time of their own are renewed once for all that have them [S74 F025]")
    func timed() async throws {
        let time = Mutex<Int64>(2_000_000_000)
        let resolver = ScriptedResolver { request in
            .replace(url: request.url + "?Expires=\(time.withLock { $0 } + 100)", headers: [])
        }
        let bench = try bench(resolver) {
            let now = $0.clock.now
            $0.clock = TransportClock(now: now, unixTime: { time.withLock { $0 } })
            ($0.connections, $0.connectionsPerHost, $0.initialConnections) = (1, 1, 1)
            ($0.idleTimeout, $0.resourceDeadline) = (.seconds(60), .seconds(60))
        }
        bench.server.script("/a", .object(object).stalling(at: 0), .object(object))
        // All but the first have been resolved to the same link and wait for their turn when that ends.
        let runs = (0..<6).map { _ in bench.start(object) }
        try await waitFor {
            let told = bench.transport.transferStatuses(limit: 9, at: WallTime(milliseconds: 0))?.transfers
            return told?.count { $0.state == .queued } == 5 ? true : nil
        }
        time.withLock { $0 += 200 }
        // The answer may not have come to its stall yet.
        try await waitFor {
            bench.server.releaseStalls()
            return runs.contains { $0.result != nil } ? true : nil
        }
        for run in runs { try await bench.finish(run, object) }
        #expect(resolver.requests.count == 7, "\(resolver.requests.map(\.reason))")
    }

    @Test("A link that has expired when it comes is tried: clocks differ [S74]")
    func expiredOnArrival() async throws {
        let resolver = ScriptedResolver { .replace(url: $0.url + "?Expires=1000000001", headers: []) }
        let bench = try bench(resolver)
        bench.server.serve(object, at: "/a")
        try await bench.deliver(object)
        #expect(resolver.requests.count == 1)
    }

    @Test("Thousands of requests are a handful of questions")
    func batches() async throws {
        let resolver = ScriptedResolver { request in .replace(url: request.url.replacing("/a", with: "/b"), headers: [])
        }
        let bench = try bench(resolver)
        let small = ServedObject.patterned(size: 10)
        bench.server.serve(small, at: "/b")
        let runs = (0..<2_000).map { _ in bench.start(small) }
        for run in runs { try await bench.finish(run, small) }
        #expect(resolver.requests.count == 2_000)
        #expect(resolver.batches.count <= 200, "\(resolver.batches.count) questions")
        #expect(resolver.batches.allSatisfy { $0.count <= 256 })
    }

    @Test("Several are asked in their order, each sees what those before it made")
    func order() async throws {
        let first = ScriptedResolver { .replace(url: $0.url.replacing("/a", with: "/b"), headers: []) }
        let second = ScriptedResolver { .replace(url: $0.url.replacing("/b", with: "/c"), headers: []) }
        let bench = try Bench {
            $0.resolvers = [
                ConfiguredResolver(name: "first", plugin: first), ConfiguredResolver(name: "second", plugin: second),
            ]
        }
        bench.server.serve(object, at: "/c")
        try await bench.deliver(object)
        #expect(second.requests.map(\.url) == [bench.server.url("/b")])
    }
}

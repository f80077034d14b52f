import SyncModel
import SyncPlugins
import SyncSystem
import SyncTestKit
import SyncTransfer
import Testing

@Suite("Redirects over real sockets", .timeLimit(.minutes(10)))
struct RedirectScenarioTests {
    static let shared = ServedObject.patterned(size: 400_000)
    var object: ServedObject { Self.shared }

    @Test("Each hop is told before the next request goes out [S76 F021]")
    func told() async throws {
        let bench = try Bench()
        let known = Mutex<[Int]>([])
        func step(_ answer: FaultAnswer) -> @Sendable (ServedRequest) -> FaultAnswer {
            { [log = bench.log] _ in
                known.withLock { $0.append(log.lines(of: "redirected").count) }
                return answer
            }
        }
        bench.server.respond(to: "/a", step(.redirect(to: "/b?x=1#part", status: 301)))
        bench.server.respond(to: "/b", step(.redirect(to: "c", status: 307)))
        bench.server.respond(to: "/c", step(.redirect(to: bench.server.localhostURL("/d"), status: 308)))
        bench.server.respond(to: "/d", step(.object(object)))
        let report = try await bench.deliver(object)
        #expect(known.withLock { $0 } == [0, 1, 2, 3])
        #expect(report.requests == 4)
        #expect(report.currentURL == bench.server.localhostURL("/d"))
        #expect(bench.log.lines.first == "redirected 301 1 \(bench.server.url("/a")) -> \(bench.server.url("/b"))?…")
    }

    @Test(
        "A request after a hop waits until that is on record, and only that one: others go on meanwhile [S76]",
        arguments: [false, true])
    func onRecord(byRule: Bool) async throws {
        let waiting = Mutex<[@Sendable () -> Void]>([])
        let server = try FaultServer()
        let rule = try RewriteRule("\(server.url("/a")) \(server.url("/b"))")
        let bench = try Bench(server: server) { configuration in
            configuration.awaitRecord = { done in
                waiting.withLock { $0.append(done) }
                return true
            }
            guard byRule else { return }
            configuration.rewriteRules = [rule]
        }
        bench.server.script("/a", .redirect(to: "/b"))
        bench.server.serve(object, at: "/b")
        bench.server.serve(object, at: "/other")
        let moved = bench.start(object)
        try await waitFor { waiting.withLock { $0.isEmpty } ? nil : true }
        for _ in 1...3 { try await bench.deliver(object, from: [bench.server.url("/other")]) }
        #expect(bench.server.log.requests(to: "/b").isEmpty, "its hop is not on record")
        for done in waiting.withLock({ $0 }) { done() }
        try await bench.finish(moved, object)
        #expect(bench.server.log.requests(to: "/b").count == 1)
        #expect(waiting.withLock { $0.count } == 1, "asked once a hop")
    }

    @Test("What one redirect taught serves other ranges and neighbours")
    func remembered() async throws {
        let bench = try Bench()
        for name in ["1", "2"] {
            bench.server.script("/packs/\(name)", .redirect(to: "/store/\(name)"))
            bench.server.serve(object, at: "/store/\(name)")
        }
        try await bench.deliver(object, from: [bench.server.url("/packs/1")], range: 0..<100_000)
        try await bench.deliver(object, from: [bench.server.url("/packs/1")], range: 100_000..<400_000)
        try await bench.deliver(object, from: [bench.server.url("/packs/2")])
        #expect(bench.server.log.entries.map(\.request.path) == ["/packs/1", "/store/1", "/store/1", "/store/2"])
        #expect(bench.log.lines(of: "redirected 302 1").count == 3, "where memory leads is told, too")
    }

    @Test("A wrong guess costs one request and is not repeated")
    func wrongGuess() async throws {
        let bench = try Bench()
        bench.server.script("/packs/1", .redirect(to: "/store/1"))
        bench.server.serve(object, at: "/store/1")
        bench.server.serve(object, at: "/packs/2")
        bench.server.serve(object, at: "/packs/3")
        for name in ["1", "2", "3"] { try await bench.deliver(object, from: [bench.server.url("/packs/\(name)")]) }
        #expect(
            bench.server.log.entries.map(\.request.path) == [
                "/packs/1", "/store/1", "/store/2", "/packs/2", "/packs/3",
            ])
    }

    @Test("A redirect that may not be stored is not remembered", arguments: ["no-store", "no-cache", "max-age=0"])
    func notStored(control: String) async throws {
        let bench = try Bench()
        bench.server.script("/a", .redirect(to: "/b").setting("Cache-Control", control))
        bench.server.serve(object, at: "/b")
        for _ in 1...2 { try await bench.deliver(object) }
        #expect(bench.server.log.requests(to: "/a").count == 2)
    }

    @Test("Links that expire after one use cost hops, not bytes [S74 F025]", arguments: [1, 9])
    func signedLinks(hops: Int) async throws {
        let bench = try Bench()
        let links = SignedLinks(uses: 1)
        let server = bench.server
        for hop in 0..<(hops - 1) { server.script(hop == 0 ? "/a" : "/hop\(hop)", .redirect(to: "/hop\(hop + 1)")) }
        let object = object
        let port = server.port
        server.respond(to: hops == 1 ? "/a" : "/hop\(hops - 1)") { _ in
            .redirect(to: "http://127.0.0.1:\(port)\(links.sign("/store"))")
        }
        server.respond(to: "/store") { request in links.admit(request) { .object(object).dropping(at: 70_000) } }
        let report = try await bench.deliver(object)
        #expect(report.bytesReceived <= 401_000, "refusals aside, no byte came twice")
        #expect(server.log.bytesSent(to: "/store") - 400_000 < 20_000)
        #expect(links.issued == 6)
    }

    @Test("Parts of one object that are under way together do not take each other's links of one use [S74 F025]")
    func linksOfOthers() async throws {
        let bench = try Bench()
        let links = SignedLinks(uses: 1)
        let (server, object) = (bench.server, object)
        server.respond(to: "/a") { _ in .redirect(to: links.sign("/store")) }
        server.respond(to: "/store") { request in
            links.admit(request) { .object(object).dropping(at: 5_000).dripping(1_000, every: .milliseconds(2)) }
        }
        try await withThrowingTaskGroup { group in
            for part in 0..<8 {
                group.addTask {
                    _ = try await bench.deliver(object, range: UInt64(part) * 50_000..<UInt64(part + 1) * 50_000)
                }
            }
            try await group.waitForAll()
        }
        #expect(server.log.entries.contains { $0.status == 403 }, "links of others were tried")
    }

    @Test("Rules apply to original URLs and to redirect targets, and each is told [S54 S77]")
    func rules() async throws {
        let server = try FaultServer()
        let bench = try Bench(server: server) { configuration in
            configuration.rewriteRules = [
                RewriteRuleFixture.rule("http://moved.example/ \(server.url("/"))"),
                RewriteRuleFixture.rule("~^http://cdn\\.example/v([0-9]) \(server.url("/mirror"))$1"),
            ]
        }
        server.script("/a", .redirect(to: "http://cdn.example/v2/a"))
        server.serve(object, at: "/mirror2/a")
        let report = try await bench.deliver(object, from: ["http://moved.example/a"])
        #expect(report.currentURL == server.url("/mirror2/a"))
        #expect(
            bench.log.lines == [
                "rewritten 1 0 http://moved.example/a -> \(server.url("/a"))",
                "redirected 302 1 \(server.url("/a")) -> http://cdn.example/v2/a",
                "rewritten 2 1 http://cdn.example/v2/a -> \(server.url("/mirror2/a"))",
            ])
    }

    @Test(
        "Refused, with the reason and both URLs [S79]",
        arguments: [("ftp://127.0.0.1/x", "redirectRefused"), ("/a", "redirectRefused"), ("", "redirectRefused")])
    func refused(location: String, code: String) async throws {
        let bench = try Bench()
        bench.server.script("/a", .redirect(to: location))
        let error = try await bench.failure(bench.start(object))
        #expect(error.code.name == code)
        #expect(bench.server.log.requestCount == 1, "a refused redirect is not asked again")
    }

    @Test(
        "A public server may not lead to a private address; a proxy's address is not held against it [V29 F024]",
        arguments: [
            "http://127.0.0.1:9/x", "http://0x7f.1/x", "http://localhost/x", "http://[::1]/x",
            "http://169.254.169.254/x", "http://10.0.0.1/",
        ])
    func privateTarget(location: String) async throws {
        let server = try FaultServer()
        let bench = try Bench(server: server) { $0.proxy = ProxyConfiguration(url: server.url("")) }
        let object = object
        server.respondToOthers { request in
            request.target.contains("files.example") ? .redirect(to: location) : .object(object)
        }
        let error = try await bench.failure(bench.start(object, from: ["http://files.example/a"]))
        #expect(error.code == .refusedByPolicy)
        #expect(server.log.requestCount == 1)
    }

    @Test("A public server may lead to a private address that is exempt")
    func exempt() async throws {
        let server = try FaultServer()
        let bench = try Bench(server: server) {
            $0.proxy = ProxyConfiguration(url: server.url(""))
            $0.redirects.privateTargets = .hosts(["10.0.0.1"])
        }
        let object = object
        server.respondToOthers { request in
            request.target.contains("files.example") ? .redirect(to: "http://10.0.0.1/b") : .object(object)
        }
        try await bench.deliver(object, from: ["http://files.example/a"])
    }

    @Test("A body behind a redirect is not read for long")
    func redirectBody() async throws {
        let bench = try Bench()
        bench.server.script("/a", .object(.patterned(size: 5_000_000)).withStatus(302).setting("Location", "/b"))
        bench.server.serve(object, at: "/b")
        try await bench.deliver(object)
        #expect(bench.transport.totals.bytesReceived < 600_000)
    }
}

enum RewriteRuleFixture {
    /// A rule that the test knows to be well formed; an empty one would fail its expectations.
    static func rule(_ text: String) -> RewriteRule {
        guard let rule = try? RewriteRule(text) else { preconditionFailure("not a rule: \(text)") }
        return rule
    }
}

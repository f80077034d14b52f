import SyncModel
import SyncPlugins
import SyncSystem
import SyncTestKit
import SyncTransfer
import Testing

/// A manifest names URLs as a redirect would: from a public server not to private places, from https not to http.
///
/// Names that look public are asked through a proxy, the server itself.
@Suite("What a manifest from a server may name", .timeLimit(.minutes(10)))
struct ReferrerTests {
    static let shared = ServedObject.patterned(size: 5_000)
    var object: ServedObject { Self.shared }

    private func bench(_ change: (inout TransportConfiguration) -> Void = { _ in }) throws -> Bench {
        let server = try FaultServer()
        server.respondToOthers { [object] _ in .object(object) }
        return try Bench(server: server) {
            $0.proxy = ProxyConfiguration(url: server.url(""))
            change(&$0)
        }
    }

    private func start(
        _ bench: Bench, _ urls: [String], by manifest: String = "http://files.example/manifest.json",
        isPublic: Bool? = true
    ) -> TransferRun { bench.start(object, from: urls) { $0.referrer = .init(url: manifest, isPublic: isPublic) } }

    @Test(
        "A private address that a public manifest names is not asked [V29 F024]",
        arguments: [
            "http://169.254.169.254/latest", "http://127.0.0.1:9/x", "http://127.1/x", "http://0x7f.1/x",
            "http://localhost/x", "http://localhost./x", "http://a.localhost/x", "http://10.0.0.1/",
            "http://192.168.1.1/", "http://172.16.0.1/", "http://[::1]/x", "http://[fe80::1]/x", "http://[fd00::1]/x",
            "http://[::ffff:10.0.0.1]/x", "http://[::ffff:7f00:1]/x", "http://0.0.0.0/",
        ])
    func privateAddress(url: String) async throws {
        for isPublic in [true, nil] {
            let bench = try bench()
            let error = try await bench.failure(start(bench, [url], isPublic: isPublic))
            #expect(error.code == .refusedByPolicy && error.requests == 0)
            #expect(error.detail.contains("private") && error.detail.hasSuffix("; allowPrivateTarget"), "\(error)")
            #expect(bench.server.log.requestCount == 0)
        }
    }

    @Test("The connected address counts, not the name [V29]")
    func connectedAddress() async throws {
        let bench = try Bench()
        bench.server.serve(object, at: "/a")
        let url = bench.server.url("/a")
        let exempt = try Bench(server: bench.server) { $0.redirects.privateTargets = .hosts(["127.0.0.1"]) }
        #expect(try await bench.failure(start(bench, [url])).code == .refusedByPolicy)
        #expect(bench.server.log.requestCount == 0)
        try await exempt.finish(start(exempt, [url]), object)
    }

    @Test("A mirror that is refused leaves the others, and they are asked in their order")
    func mirrors() async throws {
        let bench = try bench()
        let run = start(bench, ["http://10.0.0.1/a", "http://mirror.example/a", "http://127.0.0.1/a"])
        let report = try await bench.finish(run, object)
        #expect(report.sourceIndex == 1 && report.requests == 1)
        #expect(bench.server.log.entries.map(\.request.target) == ["http://mirror.example/a"])
    }

    @Test("What the user named, or a rule or a resolver of the user's chose, is the user's own wish")
    func ownWish() async throws {
        let plain = try bench()
        try await plain.deliver(object, from: ["http://10.0.0.1/a"])
        let ruled = try bench { $0.rewriteRules = [RewriteRuleFixture.rule("http://cdn.example/ http://10.0.0.1/")] }
        try await ruled.finish(start(ruled, ["http://cdn.example/a"]), object)
        // A mirror nearby may lead to another machine nearby.
        ruled.server.respondToOthers { [object] request in
            request.target.contains("10.0.0.1") ? .redirect(to: "http://10.0.0.2/b") : .object(object)
        }
        try await ruled.finish(start(ruled, ["http://cdn.example/b"]), object)
        let resolver = ScriptedResolver { request in
            request.reason == .start ? .replace(url: "http://10.0.0.1/b", headers: []) : .proceed
        }
        let resolved = try bench { $0.resolvers = [ConfiguredResolver(name: "scripted", plugin: resolver)] }
        try await resolved.finish(start(resolved, ["http://cdn.example/a"]), object)
        let allowed = try bench { $0.redirects.privateTargets = .hosts(["10.0.0.1"]) }
        try await allowed.finish(start(allowed, ["http://10.0.0.1/a"]), object)
        #expect(try await allowed.failure(start(allowed, ["http://10.0.0.2/a"])).code == .refusedByPolicy)
    }

    @Test(
        "A manifest from a private place may name others, and a host may name itself",
        arguments: [
            ("http://mirror.lan/manifest.json", false, "http://10.0.0.1/a"),
            ("http://10.0.0.1/manifest.json", nil, "http://10.0.0.1:81/a"),
            ("http://10.0.0.1/manifest.json", nil, "http://10.0.0.2/a"),
            ("http://localhost/manifest.json", true, "http://localhost/a"),
        ] as [(String, Bool?, String)])
    func privateManifest(manifest: String, isPublic: Bool?, url: String)
        async throws
    {
        let bench = try bench()
        try await bench.finish(start(bench, [url], by: manifest, isPublic: isPublic), object)
    }

    @Test("A report says whether the answer came from a public place")
    func report() async throws {
        let bench = try bench { $0.proxy?.exceptions = ["localhost"] }
        let report = try await bench.deliver(object, from: ["http://files.example/manifest.json"])
        #expect(report.isPublic == true)
        #expect(try await bench.deliver(object, from: [bench.server.localhostURL("/a")]).isPublic == false)
    }

    @Test("An https manifest does not name http, unless the host may [V25 F023]")
    func downgrade() async throws {
        let manifest = "https://files.example/manifest.json"
        for isPublic in [true, false, nil] {
            let bench = try bench()
            let error = try await bench.failure(
                start(bench, ["http://files.example/a"], by: manifest, isPublic: isPublic))
            #expect(error.code == .refusedByPolicy)
            #expect(error.detail.hasSuffix("; allowDowngrade"), "\(error)")
            #expect(bench.server.log.requestCount == 0)
        }
        let allowed = try bench { $0.redirects.downgrade = .hosts(["files.example"]) }
        try await allowed.finish(start(allowed, ["http://files.example/a"], by: manifest), object)
        let ruled = try bench {
            $0.rewriteRules = [RewriteRuleFixture.rule("https://files.example/ http://mirror.example/")]
        }
        try await ruled.finish(start(ruled, ["https://files.example/a"], by: manifest), object)
    }
}

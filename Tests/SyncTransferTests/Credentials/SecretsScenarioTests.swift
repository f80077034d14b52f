import SyncPlugins
import SyncSystem
import SyncTestKit
import SyncTransfer
import Testing

@Suite("Secrets stay with their origin", .timeLimit(.minutes(10)))
struct SecretsScenarioTests {
    static let shared = ServedObject.patterned(size: 50_000)
    var object: ServedObject { Self.shared }

    static let kinds: [Credential.Kind] = [
        .basic(user: "canary-user", password: "canary-secret"), .bearer(token: "canary-secret"),
        .sigV4(
            accessKey: "canary-key", secretKey: "canary-secret", sessionToken: "canary-session", region: "r",
            service: "s3"),
    ]

    func bench(_ kind: Credential.Kind, for url: @Sendable (FaultServer) -> String) throws -> Bench {
        let server = try FaultServer()
        let origin = try CurlURL(url(server)).origin
        return try Bench(server: server) {
            $0.credentials[origin] = kind
            $0.headers = ["X-Private: canary-header"]
        }
    }

    func sawSecrets(_ bench: Bench, at path: String) -> Bool {
        bench.server.log.requests(to: path).contains { entry in
            entry.request.headers.contains { $0.name.lowercased() == "authorization" || $0.value.contains("canary") }
        }
    }

    @Test("Sent to the origin, and not where it redirects to [V19 V20 V22 V25]", arguments: kinds)
    func origin(kind: Credential.Kind) async throws {
        let bench = try bench(kind) { $0.url("/") }
        bench.server.script("/a", .redirect(to: bench.server.localhostURL("/b")))
        bench.server.script("/c", .redirect(to: "/d"))
        for path in ["/b", "/d", "/e"] { bench.server.serve(object, at: path) }
        for path in ["/a", "/c"] { try await bench.deliver(object, from: [bench.server.url(path)]) }
        try await bench.deliver(object, from: [bench.server.localhostURL("/e")])
        for path in ["/a", "/c", "/d"] { #expect(sawSecrets(bench, at: path), "\(path)") }
        let others = bench.server.log.requests(to: "/b") + bench.server.log.requests(to: "/e")
        #expect(!others.isEmpty)
        #expect(others.allSatisfy { $0.request.header("authorization") == nil })
        #expect(!sawSecrets(bench, at: "/b"))
    }

    @Test("What each kind looks like on the wire")
    func wire() async throws {
        let expected = [
            "Basic Y2FuYXJ5LXVzZXI6Y2FuYXJ5LXNlY3JldA==", "Bearer canary-secret",
            "AWS4-HMAC-SHA256 Credential=canary-key/",
        ]
        for (kind, start) in zip(Self.kinds, expected) {
            let bench = try bench(kind) { $0.url("/") }
            bench.server.serve(object, at: "/a")
            try await bench.deliver(object)
            let sent = bench.server.log.values(of: "authorization")
            #expect(sent.count == 1 && sent[0].hasPrefix(start), "\(sent)")
            #expect(bench.server.log.values(of: "x-private") == ["canary-header"])
            if case .sigV4 = kind {
                #expect(bench.server.log.values(of: "x-amz-security-token") == ["canary-session"])
                #expect(sent[0].contains("x-amz-date"))
            }
        }
    }

    @Test("A signed link gets no other credentials")
    func signedLink() async throws {
        let bench = try bench(.bearer(token: "canary-secret")) { $0.url("/") }
        bench.server.script("/a", .redirect(to: "/b?X-Amz-Signature=ab"))
        bench.server.serve(object, at: "/b")
        try await bench.deliver(object)
        #expect(bench.server.log.requests(to: "/b").allSatisfy { $0.request.header("authorization") == nil })
    }

    @Test("No event and no error holds a secret [V64]", arguments: kinds)
    func messages(kind: Credential.Kind) async throws {
        let bench = try bench(kind) { $0.url("/") }
        bench.server.script("/a", .redirect(to: "/b?token=canary-query"))
        bench.server.script("/b", .status(401))
        let error = try await bench.failure(bench.start(object))
        #expect(error.code == .authentication)
        let text = bench.log.lines.joined(separator: "\n") + "\(error)" + error.url + error.detail
        #expect(!text.contains("canary"))
        #expect(!bench.log.lines.isEmpty)
    }

    @Test("Headers are for their home: a source that a manifest names elsewhere does not get them [V19]")
    func homes() async throws {
        let server = try FaultServer()
        let home = try CurlURL(server.url("/")).origin
        let bench = try Bench(server: server) {
            $0.headers = ["X-Private: canary-header"]
            $0.homes = [home]
        }
        for path in ["/a", "/b"] { server.serve(object, at: path) }
        try await bench.deliver(object)
        try await bench.deliver(object, from: [server.localhostURL("/b")])
        #expect(sawSecrets(bench, at: "/a") && !sawSecrets(bench, at: "/b"))
    }

    @Test("A proxy's credentials go to the proxy, and nothing of the origin's to CONNECT [F054]")
    func proxy() async throws {
        let proxy = try FaultServer()
        let bench = try Bench(server: proxy) {
            $0.proxy = ProxyConfiguration(url: proxy.url(""), user: "canary-user", password: "canary-proxy")
            $0.headers = ["X-Private: canary-header"]
        }
        let object = object
        proxy.respondToOthers { $0.method == "CONNECT" ? .status(403) : .object(object) }
        try await bench.deliver(object, from: ["http://files.example/a"])
        #expect(proxy.log.values(of: "proxy-authorization").first?.hasPrefix("Basic ") == true)
        #expect(proxy.log.values(of: "authorization").isEmpty)
        let error = try await bench.failure(
            bench.start(object, from: ["https://files.example/a"]) { $0.urls = ["https://files.example/a"] })
        #expect(error.code != .cancelled)
        let connect = try #require(proxy.log.entries.last { $0.request.method == "CONNECT" })
        #expect(connect.request.header("x-private") == nil)
        #expect(connect.request.header("proxy-authorization") != nil)
    }
}

import SyncModel
import SyncPlugins
import SyncSystem
import SyncTestKit
import SyncTransfer
import Testing

/// Servers and proxies as Debian has them. Each test is skipped, and said to be, where its program is missing.
@Suite("Servers people really have", .timeLimit(.minutes(10)))
struct RealServerTests {
    static let shared = ServedObject.patterned(size: 3_000_000)
    var object: ServedObject { Self.shared }

    func root() throws -> TemporaryRoot {
        let root = try TemporaryRoot()
        try root.write(object.bytes, to: "files/a")
        return root
    }

    /// Spans side by side, then the whole object.
    func pull(_ bench: Bench, _ url: String) async throws {
        let ranges: [Range<UInt64>] = [0..<1_000_000, 1_000_000..<1_000_001, 1_000_001..<3_000_000]
        let runs = ranges.map { bench.start(object, from: [url], range: $0) }
        for (run, range) in zip(runs, ranges) { try await bench.finish(run, object, range: range) }
        try await bench.deliver(object, from: [url])
    }

    @Test("nginx", .enabled(if: RealServer.isInstalled("nginx"), "nginx is not installed"))
    func nginx() async throws {
        let root = try root()
        let port = try RealServer.freePort()
        let program = try await RealServer.nginx(root, port: port, server: "listen 127.0.0.1:\(port);")
        let bench = try Bench()
        try await pull(bench, "http://127.0.0.1:\(port)/a")
        // There is nothing but libcurl's words for it.
        let error = try await bench.failure(bench.start(object, from: ["https://127.0.0.1:\(port)/a"]))
        #expect("\(error)".hasSuffix("; isPlainHTTP"))
        program.stop()
    }

    @Test(
        "nginx with TLS, a private authority and a client certificate",
        .enabled(if: RealServer.isInstalled("nginx"), "nginx is not installed"), arguments: [HTTP2Use.never, .always])
    func nginxTLS(http2: HTTP2Use) async throws {
        let root = try root()
        let port = try RealServer.freePort()
        let authority = try TestAuthority()
        let server = try authority.issue()
        let client = try authority.issue(commonName: "client")
        for (name, text) in [
            ("ca.pem", authority.certificate), ("server.pem", server.certificate), ("server.key", server.privateKey),
            ("client.pem", client.certificate), ("client.key", client.privateKey),
        ] { try root.write(text, to: name) }
        let program = try await RealServer.nginx(
            root, port: port,
            server: """
                listen 127.0.0.1:\(port) ssl http2; ssl_protocols TLSv1.2 TLSv1.3;
                ssl_certificate \(root.path("server.pem")); ssl_certificate_key \(root.path("server.key"));
                ssl_client_certificate \(root.path("ca.pem")); ssl_verify_client on;
                """)
        let bench = try Bench {
            $0.tls.authorities = root.path("ca.pem")
            $0.tls.certificate = root.path("client.pem")
            $0.tls.key = root.path("client.key")
            $0.tls.minimumVersion = .tls13
            $0.http2 = http2
        }
        try await pull(bench, "https://127.0.0.1:\(port)/a")
        let log = String(decoding: root.read("access.log") ?? [], as: UTF8.self)
        #expect(log.contains(http2 == .always ? "HTTP/2.0" : "HTTP/1.1"))

        let stranger = try Bench { $0.tls.authorities = root.path("ca.pem") }
        let refused = try await stranger.failure(stranger.start(object, from: ["https://127.0.0.1:\(port)/a"]))
        #expect(refused.code == .badStatus(400), "nginx says so when the certificate is missing")
        let untrusting = try Bench()
        let error = try await untrusting.failure(untrusting.start(object, from: ["https://127.0.0.1:\(port)/a"]))
        #expect(error.code == .tls)
        #expect(untrusting.transport.totals.requests == 0)
        program.stop()
    }

    @Test(
        "tinyproxy with credentials [F054]",
        .enabled(if: RealServer.isInstalled("tinyproxy"), "tinyproxy is not installed"))
    func tinyproxy() async throws {
        let root = try root()
        let port = try RealServer.freePort()
        let program = try await RealServer.tinyproxy(root, port: port)
        let proxy = "http://127.0.0.1:\(port)"
        let bench = try Bench { $0.proxy = ProxyConfiguration(url: proxy, user: "someone", password: "canary") }
        bench.server.serve(object, at: "/a")
        try await pull(bench, bench.server.url("/a"))
        let headers = bench.server.log.entries.flatMap(\.request.headers)
        #expect(!headers.contains { $0.name.lowercased() == "proxy-authorization" || $0.value.contains("canary") })

        let stranger = try Bench(server: bench.server) { $0.proxy = ProxyConfiguration(url: proxy) }
        let error = try await stranger.failure(stranger.start(object))
        #expect(error.code == .authentication)
        program.stop()
    }

    @Test(
        "squid, in the clear and as a tunnel", .enabled(if: RealServer.isInstalled("squid"), "squid is not installed"))
    func squid() async throws {
        let root = try root()
        let port = try RealServer.freePort()
        let program = try await RealServer.squid(root, port: port)
        let authority = try TestAuthority()
        try root.write(authority.certificate, to: "ca.pem")
        for server in [try FaultServer(), try FaultServer(tls: ServerTLS(try authority.issue()))] {
            let bench = try Bench(server: server) {
                $0.proxy = ProxyConfiguration(url: "http://127.0.0.1:\(port)")
                $0.tls.authorities = root.path("ca.pem")
            }
            server.serve(object, at: "/a")
            try await pull(bench, server.url("/a"))
        }
        program.stop()
    }
}

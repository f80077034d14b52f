import Glibc
import SyncTestKit
import Testing

/// The program curl as a client that is not ours.
struct CurlProgram {
    static let path = ChildProgram.find("curl")

    let root: TemporaryRoot

    init() throws { root = try TemporaryRoot() }

    /// Runs curl; the body goes to a file. Exit statuses: `curl(1)`, EXIT CODES.
    func fetch(_ url: String, _ arguments: [String]) throws -> (status: Int32, body: [UInt8], said: String) {
        let said = root.path("said")
        let child = try ChildProgram(
            try #require(Self.path),
            ["-sS", "-q", "--noproxy", "*", "--max-time", "20", "-o", root.path("body")] + arguments + [url],
            output: said)
        let status = try child.wait()
        return (status, root.read("body") ?? [], child.output)
    }
}

@Suite(
    "The fault server speaks TLS and HTTP/2", .timeLimit(.minutes(10)),
    .enabled(if: CurlProgram.path != nil, "SKIPPED: the program curl is not installed; apt-get install curl"))
struct FaultServerTLSTests {
    static let object = ServedObject.patterned(size: 1_000_000)

    private func tlsServer(_ change: (inout ServerTLS) throws -> Void = { _ in }) throws -> (
        FaultServer, [String], CurlProgram
    ) {
        let authority = try TestAuthority()
        var tls = ServerTLS(try authority.issue())
        try change(&tls)
        let server = try FaultServer(tls: tls)
        server.serve(Self.object, at: "/a")
        let curl = try CurlProgram()
        try curl.root.write(authority.certificate, to: "ca.pem")
        return (server, ["--cacert", curl.root.path("ca.pem")], curl)
    }

    @Test("Both versions of HTTP carry the object over TLS", arguments: [("--http1.1", "1.1"), ("--http2", "2")])
    func overTLS(flag: String, version: String) throws {
        let (server, trust, curl) = try tlsServer()
        let (status, body, said) = try curl.fetch(server.url("/a"), trust + [flag, "-r", "5-"])
        #expect(status == 0, "\(said)")
        #expect(body == Array(Self.object.bytes[5...]))
        #expect(server.log.entries.map(\.request.version) == [version])
        #expect(server.log.entries.map(\.status) == [206])
    }

    @Test("Many streams share one connection")
    func manyStreams() throws {
        let (server, trust, curl) = try tlsServer()
        let more = (0..<19).flatMap { _ in [server.url("/a"), "-o", "/dev/null"] }
        let (status, body, said) = try curl.fetch(server.url("/a"), trust + more + ["--http2", "-Z"])
        #expect(status == 0, "\(said)")
        #expect(body == Self.object.bytes)
        #expect(server.log.requestCount == 20)
        #expect(server.log.maximumConcurrentRequests > 1)
        #expect(server.log.bytesSent == 20_000_000)
        #expect(server.log.entries.allSatisfy { $0.request.version == "2" && $0.end == .complete })
    }

    @Test("A stream is reset, a connection goes away, in the middle of a body")
    func streamFaults() throws {
        let server = try FaultServer()
        let curl = try CurlProgram()
        server.script("/reset", .object(Self.object).resettingStream(at: 500_000))
        let reset = try curl.fetch(server.url("/reset"), ["--http2-prior-knowledge"])
        #expect(reset.status == 92, "CURLE_HTTP2_STREAM: \(reset.said)")
        // The client may have ended before the server has noted why.
        for _ in 0..<2_000 where server.log.requests(to: "/reset").contains(where: { $0.end == .open }) {
            usleep(5_000)
        }
        #expect(server.log.requests(to: "/reset").map(\.bytesSent) == [500_000])
        #expect(server.log.requests(to: "/reset").map(\.end) == [.reset])

        server.script("/away", .object(Self.object).goingAway(at: 500_000))
        let away = try curl.fetch(server.url("/away"), ["--http2-prior-knowledge"])
        #expect(away.status != 0, "\(away.said)")
        server.script("/last", .object(Self.object).goingAway(at: 500_000, finishing: true))
        let last = try curl.fetch(server.url("/last"), ["--http2-prior-knowledge"])
        #expect(last.status == 0 && last.body == Self.object.bytes, "\(last.said)")
    }

    @Test("A server may allow one stream at a time [F034]")
    func oneStream() throws {
        let authority = try TestAuthority()
        var options = FaultServer.Options()
        options.tls = ServerTLS(try authority.issue())
        options.http2Streams = 1
        let server = try FaultServer(options)
        server.serve(Self.object, at: "/a")
        let curl = try CurlProgram()
        try curl.root.write(authority.certificate, to: "ca.pem")
        let more = (0..<4).flatMap { _ in [server.url("/a"), "-o", "/dev/null"] }
        let flags = ["--cacert", curl.root.path("ca.pem"), "--http2", "-Z"]
        let (status, _, said) = try curl.fetch(server.url("/a"), more + flags)
        #expect(status == 0, "\(said)")
        // The client may have them before they are counted.
        for _ in 0..<500 where server.log.bytesSent < 5_000_000 { usleep(20_000) }
        #expect(server.log.bytesSent == 5_000_000)
    }

    @Test("Certificates that are expired, early, or for another name are refused by a client [F055]")
    func certificates() throws {
        for terms in [TestAuthority.Terms.expired, .notYetValid, .wrongName] {
            let authority = try TestAuthority()
            let server = try FaultServer(tls: ServerTLS(try authority.issue(terms)))
            let curl = try CurlProgram()
            try curl.root.write(authority.certificate, to: "ca.pem")
            #expect(try curl.fetch(server.url("/a"), ["--cacert", curl.root.path("ca.pem")]).status == 60)
            #expect(server.log.requestCount == 0)
        }
        let (server, _, curl) = try tlsServer()
        #expect(try curl.fetch(server.url("/a"), []).status == 60, "unknown authority")
    }

    @Test("TLS 1.0 alone, client certificates, and a certificate changed while running [F056 F058]")
    func kinds() throws {
        let (old, oldTrust, oldCurl) = try tlsServer { $0.isOnlyTLS10 = true }
        #expect(try oldCurl.fetch(old.url("/a"), oldTrust).status == 35)
        while old.log.failedHandshakes < 1 { usleep(1_000) }
        #expect(old.log.failedHandshakes == 1)

        let clients = try TestAuthority()
        let (server, trust, curl) = try tlsServer { $0.clientAuthority = clients.certificate }
        #expect(try curl.fetch(server.url("/a"), trust).status != 0)
        let client = try clients.issue(commonName: "client")
        try curl.root.write(client.certificate, to: "client.pem")
        try curl.root.write(client.privateKey, to: "client.key")
        let shown = ["--cert", curl.root.path("client.pem"), "--key", curl.root.path("client.key")]
        #expect(try curl.fetch(server.url("/a"), trust + shown).status == 0)

        let other = try TestAuthority()
        try server.changeTLS(ServerTLS(try other.issue()))
        let changed = try curl.fetch(server.url("/a"), trust)
        #expect(changed.status == 60, "\(changed.said)")
        try curl.root.write(other.certificate, to: "ca.pem")
        #expect(try curl.fetch(server.url("/a"), trust).status == 0)
    }

    @Test("HPACK reads Huffman text, and refuses bad padding")
    func huffman() throws {
        // RFC 7541 §C.4.1 shows www.example.com as f1e3 c2e5 f23a 6ba0 ab90 f4ff; curl sends such text.
        let server = try FaultServer()
        server.respondToOthers { .status(200, text: $0.target + " " + ($0.header("x-odd") ?? "")) }
        let url = server.url("/www.example.com/%7E?q=%00&long=\(String(repeating: "z", count: 300))")
        let flags = ["--http2-prior-knowledge", "-H", "X-Odd: \u{1F3D7} ~|<>{}"]
        for _ in 0..<2 {
            let (status, body, said) = try CurlProgram().fetch(url, flags)
            #expect(status == 0, "\(said)")
            let target = url.dropFirst(server.url("").count)
            #expect(String(decoding: body, as: UTF8.self) == target + " \u{1F3D7} ~|<>{}")
        }
    }
}

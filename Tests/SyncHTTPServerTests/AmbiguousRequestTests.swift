import Testing

@testable import SyncServer

/// RFC 9112 §11.2: what a proxy in front may understand in another way is refused, and the connection ends.
@Suite("Requests that can be read in two ways are refused", .timeLimit(.minutes(10)))
struct AmbiguousRequestTests {
    private static let host = "Host: h\r\n"

    @Test(
        "Lengths, hosts, blanks, line ends, NUL",
        arguments: [
            "GET /a HTTP/1.1\r\n\(host)Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
            "GET /a HTTP/1.1\r\n\(host)Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
            "POST /a HTTP/1.1\r\n\(host)Content-Length: 1, 1\r\n\r\nx",
            "POST /a HTTP/1.1\r\n\(host)Content-Length: +1\r\n\r\nx",
            "POST /a HTTP/1.1\r\n\(host)Content-Length:\r\n\r\n",
            "POST /a HTTP/1.1\r\n\(host)Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "POST /a HTTP/1.1\r\n\(host)Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
            "POST /a HTTP/1.1\r\n\(host)Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "POST /a HTTP/1.1\r\n\(host)Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "POST /a HTTP/1.1\r\n\(host)Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
            "POST /a HTTP/1.0\r\n\(host)Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "GET /a HTTP/1.1\r\n\(host)Content-Length : 0\r\n\r\n", "GET /a HTTP/1.1\r\nHost : h\r\n\r\n",
            "GET /a HTTP/1.1\r\n\(host)X\t: 0\r\n\r\n", "GET /a HTTP/1.1\r\n\(host)A B: 0\r\n\r\n",
            "GET /a HTTP/1.1\r\n\(host)X: a\r\n b\r\n\r\n", "GET /a HTTP/1.1\r\n X: a\r\n\(host)\r\n",
            "GET /a HTTP/1.1\r\n\r\n", "GET /a HTTP/1.1\r\n\(host)\(host)\r\n",
            "GET /a HTTP/1.1\r\n\(host)Host: g\r\n\r\n", "GET /a HTTP/1.1\r\nHost: h, g\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: h/x\r\n\r\n", "GET /a HTTP/1.1\r\nHost: h\0x\r\n\r\n",
            "GET /a HTTP/1.1\r\n\(host)A\0B: c\r\n\r\n", "GET /a\0b HTTP/1.1\r\n\(host)\r\n",
            "GET\0 /a HTTP/1.1\r\n\(host)\r\n", "GET /a HTTP/1.1\0\r\n\(host)\r\n",
            "GET /a HTTP/1.1\r\nHost: h\rX: y\r\n\r\n", "GET /a HTTP/1.1\nHost: h\n\n",
            "GET /a HTTP/1.1\r\nHost: h\nX: y\r\n\r\n", "GET  /a HTTP/1.1\r\n\(host)\r\n",
            "GET /a  HTTP/1.1\r\n\(host)\r\n", "GET /a b HTTP/1.1\r\n\(host)\r\n", "GET\t/a\tHTTP/1.1\r\n\(host)\r\n",
            "GET /a\r\n\r\n", "GET /a HTTP/1.2\r\n\(host)\r\n", "G(T /a HTTP/1.1\r\n\(host)\r\n",
        ]) func refused(request: String) async throws
    {
        for answering in [
            HTTPServer.Answering.atOnce { _ in HTTPResponse(status: 200) }, .later { _ in HTTPResponse(status: 200) },
        ] {
            let said = try await serving(answering) { port in
                let client = try Client(port)
                client.send(request + "GET /hidden HTTP/1.1\r\n\(Self.host)\r\n")
                return try await client.read()
            }
            #expect(said.isEmpty || said.hasPrefix("HTTP/1.1 400 "), "\(said)")
            #expect(!said.contains(" 200 "), "\(said)")
        }
    }

    @Test(
        "What is clear is answered, however unusual",
        arguments: [
            "GET /a HTTP/1.1\r\n\(host)\r\n", "GET /a HTTP/1.0\r\n\r\n", "GET /a HTTP/1.1\r\nhOST:h:80\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: \t [::1]:80 \r\n\r\n", "GET /a HTTP/1.1\r\nHost:\r\n\r\n",
            "GET /a HTTP/1.1\r\n\(host)X:\r\nX: \r\nX: \u{FC}\r\nCookie: a=b; c=\"d e\"\r\n\r\n",
            "GET /a?b=%20&c HTTP/1.1\r\n\(host)\r\n", "GET /\u{FC} HTTP/1.1\r\n\(host)\r\n",
            "POST /a HTTP/1.1\r\n\(host)Content-Length: 2\r\n\r\nok",
            "POST /a HTTP/1.1\r\n\(host)Transfer-Encoding: Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "\r\nGET /a HTTP/1.1\r\n\(host)\r\n",
        ])
    func clear(request: String) async throws {
        let said = try await serving(.later { _ in HTTPResponse(status: 200) }) { port in
            let client = try Client(port)
            client.send(request + "GET /b HTTP/1.1\r\n\(Self.host)Connection: close\r\n\r\n")
            return try await client.read()
        }
        #expect(said.hasPrefix("HTTP/1.1 200 "), "\(said)")
    }
}

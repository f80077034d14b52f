import Glibc
import SyncTestKit
import Testing

@Suite("The fault server fails on cue", .timeLimit(.minutes(10)))
struct FaultServerTests {
    static let object = ServedObject.patterned(size: 200_000)

    /// The answer to one plain request at a server that gives `answer`, and the server's note of it.
    private func ask(_ answer: FaultAnswer, _ headers: [String] = [], quiet: Int32 = 5_000) throws -> (
        RawAnswer, ByteLog.Entry
    ) {
        let server = try FaultServer()
        server.script("/a", answer)
        let got = try #require(RawAnswer(port: server.port, "/a", headers, quiet: quiet))
        server.stop()
        return (got, try #require(server.log.entries.first))
    }

    @Test("Drop and reset end the body at the same byte", arguments: [0, 1, 65_536, 100_000, 200_000])
    func dropAndReset(position: Int) throws {
        let (dropped, dropEntry) = try ask(.object(Self.object).dropping(at: position))
        #expect(dropped.body == Array(Self.object.bytes[..<position]))
        #expect(dropped.end == .fin)
        #expect(dropEntry.bytesSent == position)
        #expect(dropEntry.end == .dropped)

        let (reset, resetEntry) = try ask(.object(Self.object).resetting(at: position))
        #expect(reset.body == Array(Self.object.bytes[..<position]))
        #expect(reset.end == .reset)
        #expect(resetEntry.bytesSent == position)
        #expect(resetEntry.end == .reset)
    }

    @Test("A stall ends after its time, when released, or never")
    func stalls() throws {
        let (whole, _) = try ask(.object(Self.object).stalling(at: 10, for: .milliseconds(30)))
        #expect(whole.body == Self.object.bytes)

        let (part, entry) = try ask(.object(Self.object).stalling(at: 10), quiet: 100)
        #expect(part.body == Array(Self.object.bytes[..<10]))
        #expect(part.end == .quiet)
        #expect(entry.end == .abandoned || entry.end == .stopped)

        let server = try FaultServer()
        server.script("/a", .object(Self.object).stalling(at: 10))
        let client = try #require(RawClient(port: server.port))
        client.send("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        let first = client.readToEnd(quiet: 100)
        server.releaseStalls()
        let rest = client.readToEnd()
        #expect(first.end == .quiet && rest.end == .fin)
        #expect((first.bytes + rest.bytes).suffix(200_000).elementsEqual(Self.object.bytes))
    }

    @Test("Silence, a drop and a reset without an answer")
    func noAnswer() throws {
        #expect(try ask(.silence, quiet: 50).0.end == .quiet)
        #expect(try ask(.dropped).0.end == .fin)
        #expect(try ask(.reset).0.end == .reset)
    }

    @Test("Content-Length is what is claimed: too long, twice, or not there")
    func lengths() throws {
        let small = ServedObject(text: "0123456789")
        let (long, _) = try ask(.object(small).claimingLength("99"))
        #expect(long.header("content-length") == "99" && long.body.count == 10 && long.end == .fin)
        let (two, _) = try ask(.object(small).claimingLength("10", "11"))
        #expect(two.headers.filter { $0.name == "content-length" }.map(\.value) == ["10", "11"])
        let (none, _) = try ask(.object(small).withoutLength())
        #expect(none.header("content-length") == nil && none.body == small.bytes && none.end == .fin)
        let (more, _) = try ask(.object(small).appending(bytes: 5))
        #expect(more.header("content-length") == "15" && more.body.count == 15)
    }

    @Test("Chunks are right, or wrong in the way asked for")
    func chunks() throws {
        let small = ServedObject(text: "0123456789")
        func body(_ fault: FaultAnswer.ChunkFault?) throws -> String {
            String(decoding: try ask(.object(small).chunked(size: 6, fault: fault)).0.body, as: UTF8.self)
        }
        #expect(try body(nil) == "6\r\n012345\r\n4\r\n6789\r\n0\r\n\r\n")
        #expect(try body(.badSize) == "6\r\n012345\r\nxyz\r\n6789\r\n0\r\n\r\n")
        #expect(try body(.hugeSize) == "6\r\n012345\r\nFFFFFFFFFFFFFFFFF\r\n6789\r\n0\r\n\r\n")
        #expect(try body(.missingLineEnd) == "6\r\n0123454\r\n6789\r\n0\r\n\r\n")
        #expect(try body(.missingEnd) == "6\r\n012345\r\n4\r\n6789\r\n")
        #expect(try body(.trailerFlood).hasSuffix("X-Trailer: 0123456789\r\n\r\n"))
    }

    @Test("Ranges are ignored, shifted, refused, mislabelled and wrapped")
    func ranges() throws {
        let small = ServedObject(text: "0123456789")
        let good = FaultAnswer.object(small)
        let range = ["Range: bytes=4-6"]
        func seen(_ answer: FaultAnswer) throws -> [String] {
            let (got, _) = try ask(answer, range)
            return ["\(got.status)", got.header("content-range") ?? "-", String(decoding: got.body, as: UTF8.self)]
        }
        #expect(try seen(good) == ["206", "bytes 4-6/10", "456"])
        #expect(try seen(good.ignoringRanges()) == ["200", "-", "0123456789"])
        #expect(try seen(good.shiftingRanges(by: -2)) == ["206", "bytes 2-6/10", "23456"])
        #expect(try seen(good.shiftingRanges(by: 1)) == ["206", "bytes 5-6/10", "56"])
        #expect(try seen(good.refusingRanges()) == ["416", "bytes */10", ""])
        #expect(try seen(good.withoutContentRange()) == ["206", "-", "456"])
        #expect(try seen(good.withUnknownTotal()) == ["206", "bytes 4-6/*", "456"])
        #expect(try seen(good.withTotal(11)) == ["206", "bytes 4-6/11", "456"])
        #expect(try seen(good.flippingByte(at: 5)) == ["206", "bytes 4-6/10", "4\u{FFFD}6"])
        let (wrapped, _) = try ask(good.withMultipartRanges(), range)
        #expect(wrapped.header("content-type")?.hasPrefix("multipart/byteranges; boundary=") == true)
        #expect(String(decoding: wrapped.body, as: UTF8.self).contains("Content-Range: bytes 4-6/10\r\n\r\n456\r\n--"))
    }

    @Test("Headers, validators and versions are bent")
    func headers() throws {
        let small = FaultAnswer.object(ServedObject(Array("abc".utf8), etag: "\"v\""))
        #expect(try ask(small.withWeakETag()).0.header("etag") == "W/\"v\"")
        let (bare, _) = try ask(small.withoutValidators())
        #expect(bare.header("etag") == nil && bare.header("last-modified") == nil)
        #expect(try ask(small.claimingGzip()).0.header("content-encoding") == "gzip")
        #expect(try ask(small.withHeaderFlood(500)).0.headers.filter { $0.name == "x-flood" }.count == 500)
        #expect(try ask(small.withHugeHeader(100_000)).0.header("x-huge")?.count == 100_000)
        #expect(try ask(small.withInterimAnswers(3)).0.status == 103)
        #expect(try ask(.unavailable(retryAfter: "120")).0.header("retry-after") == "120")
        #expect(try ask(.redirect(to: "//other/x", status: 308)).0.header("location") == "//other/x")
        #expect(try ask(.raw("nonsense")).0.body == Array("nonsense".utf8))
        let (old, _) = try ask(small.asHTTP10(), ["Range: bytes=1-"])
        #expect(old.status == 200 && old.end == .fin)
    }

    @Test("Answers come in the order of the script, the last one again and again")
    func order() throws {
        let server = try FaultServer()
        server.script("/a", .status(503), .status(429), .status(200, text: "ok"))
        let statuses = (0..<4).map { _ in RawAnswer(port: server.port, "/a?x=1")?.status }
        #expect(statuses == [503, 429, 200, 200])
        #expect(server.log.requests(to: "/a").map(\.request.ordinalAtPath) == [1, 2, 3, 4])
        #expect(server.log.entries.allSatisfy { $0.request.query == "x=1" })
    }

    @Test("A connection carries many requests and is counted once")
    func keepAlive() throws {
        let server = try FaultServer()
        server.serve(ServedObject(text: "abc"), at: "/a")
        let client = try #require(RawClient(port: server.port))
        client.send(String(repeating: "GET /a HTTP/1.1\r\nHost: a\r\n\r\n", count: 3))
        let (bytes, end) = client.readToEnd(quiet: 100)
        #expect(end == .quiet)
        #expect(String(decoding: bytes, as: UTF8.self).components("\r\n\r\nabc") == 3)
        #expect(server.log.connectionCount == 1 && server.log.requestCount == 3)
    }

    @Test("Connections at a time are counted at their height")
    func highWater() throws {
        let server = try FaultServer()
        server.serve(ServedObject(text: "abc"), at: "/a")
        server.script("/slow", .silence)
        let clients = (0..<5).map { _ in RawClient(port: server.port) }
        for client in clients { client?.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n") }
        while server.log.requestCount < 5 { usleep(1_000) }
        #expect(server.log.maximumConcurrentConnections == 5)
        #expect(server.log.maximumConcurrentRequests == 5)
    }

    @Test("A closed port refuses, and opens again with the same number")
    func closedPort() throws {
        let server = try FaultServer()
        server.serve(ServedObject(text: "abc"), at: "/a")
        #expect(RawAnswer(port: server.port, "/a")?.status == 200)
        try server.closePort()
        #expect(RawClient(port: server.port) == nil)
        try server.openPort()
        #expect(RawAnswer(port: server.port, "/a")?.status == 200)
        let closed = try ClosedPort()
        #expect(RawClient(port: closed.port) == nil)
    }

    @Test("Connections are dropped, reset and ignored before their first request")
    func connectionFaults() throws {
        let server = try FaultServer()
        server.serve(ServedObject(text: "abc"), at: "/a")
        server.scriptConnections(.drop, .reset, .ignore, .serve)
        let answers = (0..<4).map { _ in RawAnswer(port: server.port, "/a", quiet: 200) }
        #expect(answers.map { $0?.status } == [0, 0, 0, 200])
        #expect(answers[2]?.end == .quiet)
        #expect(server.log.requestCount == 1)
    }

    @Test("An old copy is served until the cache is told to ask")
    func stale() throws {
        let server = try FaultServer()
        server.respond(to: "/a", FaultServer.staleCache(ServedObject(text: "old"), fresh: ServedObject(text: "new")))
        #expect(RawAnswer(port: server.port, "/a")?.body == Array("old".utf8))
        #expect(RawAnswer(port: server.port, "/a", ["Cache-Control: no-cache"])?.body == Array("new".utf8))
    }
}

extension String {
    fileprivate func components(_ text: String) -> Int {
        split(separator: text, omittingEmptySubsequences: false).count - 1
    }
}

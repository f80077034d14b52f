import SyncTestKit
import Testing

@Suite("The fault server serves objects as RFC 9110 wants it", .timeLimit(.minutes(10)))
struct FaultServerRangeTests {
    static let object = ServedObject.patterned(size: 1_000)

    @Test(
        "A range gets the bytes it asks for, and says which",
        arguments: [
            ("bytes=0-", 206, 0..<1_000), ("bytes=0-0", 206, 0..<1), ("bytes=10-19", 206, 10..<20),
            ("bytes=999-", 206, 999..<1_000), ("bytes=900-5000", 206, 900..<1_000), ("bytes=-5", 206, 995..<1_000),
            ("bytes=1-2,5-6", 200, 0..<1_000), ("lines=1-2", 200, 0..<1_000),
        ])
    func range(header: String, status: Int, bytes: Range<Int>) throws {
        let server = try FaultServer()
        server.serve(Self.object, at: "/a")
        let answer = try #require(RawAnswer(port: server.port, "/a", ["Range: \(header)"]))
        #expect(answer.status == status)
        #expect(answer.body == Array(Self.object.bytes[bytes]))
        #expect(answer.header("content-length") == "\(bytes.count)")
        let told = "bytes \(bytes.lowerBound)-\(bytes.upperBound - 1)/1000"
        #expect(answer.header("content-range") == (status == 206 ? told : nil))
        #expect(answer.header("accept-ranges") == "bytes")
    }

    @Test("A range behind the end gets 416 and the size")
    func behindTheEnd() throws {
        let server = try FaultServer()
        server.serve(Self.object, at: "/a")
        let answer = try #require(RawAnswer(port: server.port, "/a", ["Range: bytes=1000-"]))
        #expect(answer.status == 416)
        #expect(answer.header("content-range") == "bytes */1000")
    }

    @Test(
        "If-Range decides between the range and the whole",
        arguments: [
            ("\"v1\"", "\"v1\"", 206), ("\"v1\"", "\"v2\"", 200), ("W/\"v1\"", "W/\"v1\"", 200),
            ("\"v1\"", "Sun, 01 Feb 2026 10:00:00 GMT", 206), ("\"v1\"", "Sun, 01 Feb 2026 10:00:01 GMT", 200),
        ])
    func ifRange(etag: String, condition: String, status: Int) throws {
        let server = try FaultServer()
        server.serve(ServedObject(Self.object.bytes, etag: etag), at: "/a")
        let answer = try #require(RawAnswer(port: server.port, "/a", ["Range: bytes=5-", "If-Range: \(condition)"]))
        #expect(answer.status == status)
    }

    @Test(
        "A known version gets 304 without a body",
        arguments: [
            "If-None-Match: \"v1\"", "If-None-Match: \"x\", W/\"v1\"",
            "If-Modified-Since: Sun, 01 Feb 2026 10:00:00 GMT",
        ])
    func notModified(condition: String) throws {
        let server = try FaultServer()
        server.serve(ServedObject(Self.object.bytes, etag: "\"v1\""), at: "/a")
        let answer = try #require(RawAnswer(port: server.port, "/a", [condition]))
        #expect(answer.status == 304)
        #expect(answer.body.isEmpty)
    }

    @Test("HEAD gets the head alone, and paths without a script 404")
    func headAndMissing() throws {
        let server = try FaultServer()
        server.serve(Self.object, at: "/a")
        let head = try #require(RawAnswer(port: server.port, "/a", method: "HEAD"))
        #expect(head.status == 200 && head.body.isEmpty && head.header("content-length") == "1000")
        #expect(try #require(RawAnswer(port: server.port, "/b")).status == 404)
    }

    @Test("Equal seeds give equal bytes, and neighbouring words differ")
    func patterned() {
        let bytes = patternedBytes(size: 4_096, seed: 7)
        #expect(bytes == patternedBytes(size: 4_096, seed: 7))
        #expect(bytes != patternedBytes(size: 4_096, seed: 8))
        #expect(patternedBytes(size: 100, seed: 7) == Array(bytes[..<100]), "the size changes no byte")
        let words = stride(from: 0, to: 4_096, by: 8).map { Array(bytes[$0..<($0 + 8)]) }
        #expect(Set(words).count == 512)
    }
}

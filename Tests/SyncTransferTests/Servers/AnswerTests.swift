import SyncSystem
import Testing

@testable import SyncTransfer

@Suite("Answers", .timeLimit(.minutes(10)))
struct AnswerTests {
    @Test(
        "Content-Range by its grammar [R3 F015 V47]",
        arguments: [
            ("bytes 0-499/1234", 0, 500, 1234), ("bytes 500-999/*", 500, 1000, nil), ("BYTES 0-0/1", 0, 1, 1),
            ("bytes */1234", nil, nil, 1234),
        ] as [(String, UInt64?, UInt64?, UInt64?)])
    func contentRange(
        text: String, first: UInt64?, end: UInt64?, total: UInt64?
    ) throws {
        let range = try #require(ContentRange(text))
        #expect(range.range?.lowerBound == first)
        #expect(range.range?.upperBound == end)
        #expect(range.total == total)
    }

    @Test(
        "No Content-Range [F015 V47]",
        arguments: [
            "", "bytes", "bytes 0-499", "bytes 0-499/", "bytes 5-4/10", "bytes 0-10/10", "bytes */*", "items 0-1/2",
            "bytes -1-5/10", "bytes 0-+5/10", "bytes 0-18446744073709551615/*", "bytes 0-99999999999999999999/*",
            "bytes 0-1/2/3", "bytes 0--1/3", "bytes 1-/3",
        ])
    func noContentRange(text: String) { #expect(ContentRange(text) == nil) }

    @Test(
        "A handshake is refused by what libcurl says of it, not by the name of the host [F003 F055]",
        arguments: [
            ("OpenSSL SSL_connect: Connection reset by peer in connection to versions.example.com:443 ", false),
            ("OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to alerts.example.com:443 ", false),
            ("OpenSSL SSL_connect: Connection reset by peer in connection to certificate.example:443 ", false),
            ("TLS connect error: error:0A000410:SSL routines::ssl/tls alert handshake failure", true),
            ("TLS connect error: error:0A00010B:SSL routines::wrong version number", true),
            ("OpenSSL SSL_connect: unsupported protocol in connection to files.example.com:443 ", true), ("", false),
        ])
    func handshake(text: String, isRefusal: Bool) { #expect(Fault.isTLSRefusal(text) == isRefusal) }

    static func answer(_ status: Int, _ fields: [(String, String)] = []) -> ResponseHeaders {
        var headers = ResponseHeaders()
        headers.status = status
        for (name, value) in fields { headers.set(Substring(name), value) }
        return headers
    }

    static let span = Question(first: 100, end: 200, objectSize: 1000)

    @Test("A 206 that fits, also one that begins earlier or ends otherwise [R3 R4 F012]")
    func fitting() {
        for (text, offset, end) in [
            ("100-199", 100, 200), ("64-199", 64, 200), ("100-149", 100, 150), ("100-999", 100, 1000),
        ] {
            let verdict = judge(Self.answer(206, [("content-range", "bytes \(text)/1000")]), to: Self.span, now: 0)
            #expect(verdict == .body(offset: UInt64(offset), end: UInt64(end), total: 1000))
        }
        let unknown = judge(Self.answer(206, [("content-range", "bytes 100-199/*")]), to: Self.span, now: 0)
        #expect(unknown == .body(offset: 100, end: 200, total: nil))
    }

    @Test(
        "A first range says how long the object is, also where nothing follows, and one that does not is no answer [F012 F015]"
    )
    func first() {
        let (whole, rest) = (Question(first: 0, end: 500, isFirst: true), Question(first: 100, end: 600, isFirst: true))
        func verdict(_ status: Int, _ range: String, _ question: Question) -> AnswerVerdict {
            judge(Self.answer(status, [("content-range", "bytes \(range)")]), to: question, now: 0)
        }
        #expect(verdict(206, "0-99/100", whole) == .body(offset: 0, end: 100, total: 100))
        #expect(verdict(206, "0-499/1000", whole) == .body(offset: 0, end: 500, total: 1000))
        #expect(verdict(416, "*/0", whole) == .body(offset: 0, end: 0, total: 0))
        #expect(verdict(416, "*/100", rest) == .body(offset: 100, end: 100, total: 100))
        for (status, range, question) in [(206, "0-99/*", whole), (416, "*/50", rest), (416, "*/0", Self.span)] {
            guard case .fault(let fault) = verdict(status, range, question) else {
                Issue.record("\(status) \(range)")
                continue
            }
            #expect(fault.kind == .wrongRange)
        }
    }

    @Test(
        "What object stores keep of an upload's coding leaves the bytes as they are [F031]",
        arguments: [
            [""], ["identity"], ["Identity"], ["aws-chunked"], ["aws-chunked,"], [",identity"],
            ["identity, AWS-Chunked"], ["aws-chunked", ""], ["\taws-chunked ,\tidentity"],
        ])
    func plain(codings: [String]) {
        let fields = codings.map { ("Content-Encoding", $0) }
        let part = Self.answer(206, [("Content-Range", "bytes 100-199/1000")] + fields)
        #expect(judge(part, to: Self.span, now: 0) == .body(offset: 100, end: 200, total: 1000))
        let whole = judge(Self.answer(200, fields), to: Question(objectSize: 1000), now: 0)
        #expect(whole == .body(offset: 0, end: nil, total: nil))
    }

    @Test(
        "Refused heads and their kinds [R3 R8 R9 F009 F013 F014 F015 F016 F018 F031 F038 F039]",
        arguments: [
            (206, [("Content-Range", "bytes 101-199/1000")], .wrongRange),
            (206, [("Content-Range", "bytes 0-99/1000")], .wrongRange),
            (206, [("Content-Range", "bytes 100-199/999")], .otherSize),
            (206, [("Content-Range", "bytes */1000")], .wrongRange), (206, [], .wrongRange),
            (206, [("Content-Range", "bytes 100-1999/*")], .wrongRange),
            (206, [("Content-Range", "bytes 100-199/1000"), ("Content-Length", "99")], .malformed),
            (206, [("Content-Range", "bytes 100-199/1000"), ("Content-Range", "bytes 0-1/2")], .malformed),
            (206, [("Content-Type", "multipart/byteranges; boundary=x")], .wrongRange),
            (206, [("Content-Range", "bytes 100-199/1000"), ("Content-Encoding", "gzip")], .unwantedForm),
            (200, [("Content-Encoding", "br")], .unwantedForm),
            (200, [("Content-Encoding", "aws-chunked, gzip")], .unwantedForm),
            (200, [("Content-Encoding", "aws-chunked"), ("Content-Encoding", "zstd")], .unwantedForm),
            (200, [("Content-Length", "1001")], .tooLarge), (200, [("Content-Length", "999")], .otherSize),
            (200, [("Content-Length", "-1")], .malformed),
            (200, [("Content-Length", "18446744073709551616")], .malformed),
            (200, [("Content-Length", "1000"), ("Content-Length", "1001")], .malformed),
            (200, [("Content-Type", "text/html"), ("Content-Length", "512")], .captivePortal), (204, [], .unwantedForm),
            (205, [], .unwantedForm), (304, [], .unwantedForm), (202, [], .unwantedForm), (300, [], .unwantedForm),
            (407, [], .proxyAuthentication), (416, [("Content-Range", "bytes */1000")], .wrongRange),
            (404, [], .status(404)), (999, [], .status(999)), (0, [], .unwantedForm),
        ] as [(Int, [(String, String)], Fault.Kind)]) func refused(
            status: Int, fields: [(String, String)], kind: Fault.Kind
        )
    {
        guard case .fault(let fault) = judge(Self.answer(status, fields), to: Self.span, now: 0) else {
            Issue.record("accepted")
            return
        }
        #expect(fault.kind == kind, "\(fault.detail)")
    }

    @Test("A 206 nobody asked for is refused; 304 only when asked [F039]")
    func unasked() {
        let part = Self.answer(206, [("content-range", "bytes 0-9/10")])
        guard case .fault(let fault) = judge(part, to: Question(), now: 0) else {
            Issue.record("accepted")
            return
        }
        #expect(fault.kind == .wrongRange)
        #expect(judge(Self.answer(304), to: Question(isConditional: true), now: 0) == .notModified)
        #expect(judge(Self.answer(204), to: Question(objectSize: 0), now: 0) == .body(offset: 0, end: 0, total: 0))
    }

    @Test(
        "A web page in place of a file is a portal's, unless it can be the file [F030]",
        arguments: [
            (Question(objectSize: 10, isElsewhere: true), "10", false), (Question(objectSize: 10), "11", true),
            (Question(objectSize: 10, isElsewhere: true), nil, true), (Question(objectSize: 10), nil, true),
            (Question(isElsewhere: true), "11", true), (Question(), "11", false),
            (Question(isElsewhere: true, mayBeWebPage: true), "11", false),
        ] as [(Question, String?, Bool)])
    func portal(question: Question, length: String?, isPortal: Bool) {
        var fields = [("Content-Type", "text/html; charset=utf-8")]
        if let length { fields.append(("Content-Length", length)) }
        let verdict = judge(Self.answer(200, fields), to: question, now: 0)
        if case .fault(let fault) = verdict {
            #expect(isPortal && fault.kind == .captivePortal)
        } else {
            #expect(!isPortal)
        }
    }

    @Test(
        "What If-Range may carry [R2 F020 RFC 9110 13.1.5]",
        arguments: [
            ("\"v1\"", nil, nil, "\"v1\""), ("W/\"v1\"", nil, nil, nil), ("v1", nil, nil, nil),
            (nil, "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT", "Sun, 06 Nov 1994 08:49:37 GMT"),
            (nil, "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", nil),
            (nil, "Sun, 06 Nov 1994 08:49:37 GMT", nil, nil),
            ("W/\"v1\"", "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 09:49:37 GMT", nil),
        ] as [(String?, String?, String?, String?)])
    func ifRange(
        etag: String?, modified: String?, date: String?, expected: String?
    ) {
        var headers = ResponseHeaders()
        headers.etag = etag
        headers.lastModified = modified
        headers.date = date
        #expect(headers.ifRange == expected)
        // What asks whether there is another version: any date that is no longer that of the second in which it was sent.
        let isOfNow = etag == nil && date != nil && expected == nil
        #expect(headers.dateOfVersion == (isOfNow ? nil : modified))
    }
}

@Suite("Header lines", .timeLimit(.minutes(10)))
struct HeaderCollectorTests {
    func collect(_ lines: [String], bytes: Int = 4096, count: Int = 20) -> (HeaderCollector, [HeaderCollector.Outcome])
    {
        var collector = HeaderCollector(maximumBytes: bytes, maximumLines: count)
        let outcomes = lines.map { line in Array((line + "\r\n").utf8).withUnsafeBytes { collector.add($0) } }
        return (collector, outcomes)
    }

    @Test("1xx answers come before the answer and leave nothing behind")
    func interim() {
        let (collector, outcomes) = collect([
            "HTTP/1.1 103 Early", "Location: /x", "", "HTTP/1.1 200 OK", "ETag:\"a\"  ", "",
        ])
        #expect(outcomes.last == .headEnded)
        #expect(outcomes.dropLast().allSatisfy { $0 == .more })
        #expect(collector.headers.status == 200)
        #expect(collector.headers.location == nil)
        #expect(collector.headers.etag == "\"a\"")
    }

    @Test("Two targets contradict each other, and their secrets are not told [V63 V64]")
    func twice() throws {
        let (collector, _) = collect([
            "HTTP/1.1 302 Found", "Location: https://a.example/x?sig=canary", "Location: https://u:canary@b.example/",
            "",
        ])
        let text = try #require(collector.headers.contradiction)
        #expect(text == "Location twice: https://a.example/x?… and https://b.example/")
        #expect(
            collect(["HTTP/1.1 200 OK", "Content-Length: 1", "Content-Length: 2", ""]).0.headers.contradiction
                == "Content-Length twice: 1 and 2")
    }

    @Test("Trailers change nothing and are bounded [F032 V45]")
    func trailers() {
        let (collector, outcomes) = collect(
            ["HTTP/1.1 200 OK", "ETag: \"a\"", ""] + (0..<30).map { "ETag: \"\($0)\"" })
        #expect(collector.headers.etag == "\"a\"")
        #expect(outcomes.last == .tooMuch)
    }

    @Test("Too many lines and too many bytes end it [F036 V45]")
    func bounds() {
        #expect(collect((0..<21).map { "X-\($0): 1" }).1.last == .tooMuch)
        #expect(collect(["X: " + String(repeating: "a", count: 5000)]).1.last == .tooMuch)
        #expect(collect(Array(repeating: ["HTTP/1.1 100 Go", ""], count: 11).flatMap { $0 }).1.last == .tooMuch)
    }
}

import SyncModel
import Testing

@testable import SyncServer

@Suite(.timeLimit(.minutes(10)))
struct AnswerTests {
    static let file = FileVersion(size: 1000, modified: HTTPDate(seconds: 784_111_777), entityTag: "\"tag-1\"")

    static func answer(_ headers: HTTPFields, isHead: Bool = false, file: FileVersion = file) -> Answer {
        Answer(to: headers, isHead: isHead, file: file)
    }

    @Test(
        "A Range header is answered as RFC 9110 says [F021]",
        arguments: [
            ("bytes=0-9", Answer(status: 206, body: 0..<10, contentRange: "bytes 0-9/1000")),
            ("bytes=990-", Answer(status: 206, body: 990..<1000, contentRange: "bytes 990-999/1000")),
            ("bytes=-7", Answer(status: 206, body: 993..<1000, contentRange: "bytes 993-999/1000")),
            ("bytes=-5000", Answer(status: 206, body: 0..<1000, contentRange: "bytes 0-999/1000")),
            ("bytes=999-2000", Answer(status: 206, body: 999..<1000, contentRange: "bytes 999-999/1000")),
            ("Bytes= 1 - 2 ", Answer(status: 206, body: 1..<3, contentRange: "bytes 1-2/1000")),
            ("bytes=5-99999999999999999999999", Answer(status: 206, body: 5..<1000, contentRange: "bytes 5-999/1000")),
            ("bytes=1000-", Answer(status: 416, contentRange: "bytes */1000")),
            ("bytes=99999999999999999999-", Answer(status: 416, contentRange: "bytes */1000")),
            ("bytes=-0", Answer(status: 416, contentRange: "bytes */1000")),
            // Not one valid range: the header counts for nothing.
            ("bytes=9-3", Answer(status: 200, body: 0..<1000)), ("bytes=-", Answer(status: 200, body: 0..<1000)),
            ("bytes=0-1,5-6", Answer(status: 200, body: 0..<1000)), ("bytes=+1-2", Answer(status: 200, body: 0..<1000)),
            ("lines=1-2", Answer(status: 200, body: 0..<1000)), ("", Answer(status: 200, body: 0..<1000)),
        ])
    func ranges(header: String, expected: Answer) { #expect(Self.answer([.range: header]) == expected) }

    @Test("No range lies inside an empty file")
    func emptyFile() {
        let empty = FileVersion(size: 0, modified: HTTPDate(seconds: 0), entityTag: "\"e\"")
        #expect(Self.answer([.range: "bytes=0-"], file: empty) == Answer(status: 416, contentRange: "bytes */0"))
        #expect(Self.answer([.range: "bytes=-1"], file: empty).status == 416)
        #expect(Self.answer([:], file: empty) == Answer(status: 200, body: 0..<0))
    }

    @Test("HEAD knows no ranges")
    func headIgnoresRange() {
        #expect(Self.answer([.range: "bytes=0-9"], isHead: true) == Answer(status: 200, body: 0..<1000))
    }

    @Test(
        "If-Range decides between a part and the whole [F023]",
        arguments: [
            ("\"tag-1\"", 206), ("Sun, 06 Nov 1994 08:49:37 GMT", 206), ("\"tag-2\"", 200), ("W/\"tag-1\"", 200),
            ("Sun, 06 Nov 1994 08:49:38 GMT", 200), ("", 200),
        ])
    func ifRange(condition: String, status: Int) {
        #expect(Self.answer([.range: "bytes=0-9", .ifRange: condition]).status == status)
    }

    @Test(
        "Conditions are taken in the order of RFC 9110 §13.2.2",
        arguments: [
            ([.ifNoneMatch: "\"tag-1\""], 304), ([.ifNoneMatch: "W/\"tag-1\""], 304),
            ([.ifNoneMatch: "\"a\", \"tag-1\""], 304), ([.ifNoneMatch: "*"], 304), ([.ifNoneMatch: "\"tag-2\""], 200),
            ([.ifModifiedSince: "Sun, 06 Nov 1994 08:49:37 GMT"], 304),
            ([.ifModifiedSince: "Sun, 06 Nov 1994 08:49:36 GMT"], 200), ([.ifModifiedSince: "yesterday"], 200),
            // A tag that differs outweighs a date that does not.
            ([.ifNoneMatch: "\"tag-2\"", .ifModifiedSince: "Sun, 06 Nov 1994 08:49:37 GMT"], 200),
            ([.ifMatch: "\"tag-1\""], 200), ([.ifMatch: "W/\"tag-1\""], 412), ([.ifMatch: "\"tag-2\""], 412),
            ([.ifUnmodifiedSince: "Sun, 06 Nov 1994 08:49:37 GMT"], 200),
            ([.ifUnmodifiedSince: "Sun, 06 Nov 1994 08:49:36 GMT"], 412),
            ([.ifNoneMatch: "\"tag-1\"", .range: "bytes=0-9"], 304),
        ] as [(HTTPFields, Int)])
    func conditions(headers: HTTPFields, status: Int) { #expect(Self.answer(headers).status == status) }

    @Test("A tag of another server's may contain a comma")
    func comma() {
        let file = FileVersion(size: 1000, modified: HTTPDate(seconds: 0), entityTag: "\"a,b\"")
        #expect(Self.answer([.ifNoneMatch: "\"a,b\""], file: file).status == 304)
        #expect(Self.answer([.ifNoneMatch: "\"a\""], file: file).status == 200)
    }
}

@Suite(.timeLimit(.minutes(10)))
struct HTTPDateTests {
    @Test(
        "The preferred form is written and read back",
        arguments: [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"), (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (-1, "Wed, 31 Dec 1969 23:59:59 GMT"), (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
        ] as [(Int64, String)])
    func preferredForm(seconds: Int64, text: String) {
        #expect(HTTPDate(seconds: seconds).description == text)
        #expect(HTTPDate(text)?.seconds == seconds)
    }
}

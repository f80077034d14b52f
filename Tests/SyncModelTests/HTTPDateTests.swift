import SyncModel
import Testing

@Suite("Dates of HTTP [RFC 9110 5.6.7]")
struct HTTPDateTests {
    @Test(
        "All three forms are read, nothing else",
        arguments: [
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777), ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
            ("Sun Nov  6 08:49:37 1994", 784_111_777), ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Tue, 29 Feb 2028 23:59:60 GMT", 1_835_481_600), ("Sun, 06 Nov 1994 08:49:37", nil),
            ("Sun, 32 Nov 1994 08:49:37 GMT", nil), ("Sun, 06 Foo 1994 08:49:37 GMT", nil),
            ("Sun, 06 Nov 1994 25:49:37 GMT", nil), ("Sun, 06 Nov 99999 08:49:37 GMT", nil), ("", nil),
            ("Sun, 06 Nov 1994 24:49:37 GMT", nil), ("Sun, 06 Nov 1994 08:49 GMT", nil),
            ("Sun, 99 Nov 1994 08:49:37 GMT", nil), ("Sun, -6 Nov 1994 08:49:37 GMT", nil),
            ("Sun, 6 Nov 1994 08:49:37 GMT", nil), ("Sun, 06 Nov 1994 08:49:37 UTC", nil),
            ("Sun 06 Nov 1994 08:49:37 GMT", nil), ("Sun, 06-Nov-1994 08:49:37 GMT", nil),
            ("Sun, 06 Nov 1994 8:49:37 GMT", nil), ("Sun, 06 Nov +994 08:49:37 GMT", nil),
            ("Sun Nov 6 08:49:37 1994", nil), ("Sun, 06 Nov 1994 08:49:37 GMT ", nil),
            ("Sun, 00 Nov 1994 08:49:37 GMT", nil),
        ] as [(String, Int64?)])
    func read(text: String, seconds: Int64?) { #expect(HTTPDate(text)?.seconds == seconds) }

    @Test(
        "The preferred form is written, and read back",
        arguments: [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"), (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_827_696, "Tue, 29 Feb 2000 12:34:56 GMT"), (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
        ] as [(Int64, String)])
    func written(seconds: Int64, text: String) {
        #expect("\(HTTPDate(seconds: seconds))" == text)
        #expect(HTTPDate(text) == HTTPDate(seconds: seconds))
    }
}

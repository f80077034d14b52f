import SyncModel
import Testing

@testable import SyncPluginHost

@Suite(.timeLimit(.minutes(10)))
struct MessageTests {
    @Test(
        "JSON is read as RFC 8259 says",
        arguments: [
            ("null", JSONValue.null), (" [ ] ", .array([])), ("{}", .object([:])), ("-0", .integer(0)),
            ("9223372036854775807", .integer(.max)), ("9223372036854775808", .number(9_223_372_036_854_775_808)),
            ("1.5e1", .number(15)), (#""a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é""#, .string("a\"\\/\u{8}\u{C}\n\r\té😀é")),
            (
                #"{"a":[1,true,false,{"b":null}]}"#,
                .object(["a": .array([.integer(1), .bool(true), .bool(false), .object(["b": .null])])])
            ),
        ])
    func reads(text: String, value: JSONValue) { #expect(JSONParser.parse(text) == value) }

    @Test(
        "What is not JSON is refused",
        arguments: [
            "", " ", "nul", "[1,]", "[,1]", "{\"a\":1,}", "{a:1}", "{\"a\" 1}", "01", "1.", ".5", "+1", "1e", "-",
            "1 2", "\"", "\"\\x\"", "\"\\u12\"", "\"\\ud800\"", "\"\\ud800\\u0041\"", "\"a\nb\"", "'a'", "NaN", "1e999",
            #"{"a":1,"a":2}"#, "// c\n1", "\u{FEFF}1", "[1", "{\"a\":",
            String(repeating: "[", count: 129) + String(repeating: "]", count: 129),
        ])
    func refuses(text: String) { #expect(JSONParser.parse(text) == nil) }

    @Test("Bytes that are not UTF-8 are refused, and any cut of a text is")
    func bytes() {
        for bytes: [UInt8] in [
            [0x22, 0xFF, 0x22], [0x22, 0xC0, 0x80, 0x22], [0x22, 0x5C, 0x6E, 0xED, 0xA0, 0x80, 0x22],
        ] { #expect(bytes.withUnsafeBytes { JSONParser.parse($0) } == nil) }
        let text = Array(#"{"jsonrpc":"2.0","id":1,"result":{"a":[1.5e3,"\u00e9",null,true]}}"#.utf8)
        for count in 0..<text.count { #expect(text[..<count].withUnsafeBytes { JSONParser.parse($0) } == nil) }
    }

    @Test("Lines are cut wherever the pieces end")
    func lines() {
        let text = Array("one\n\ntwo and more\nthree\nrest".utf8)
        for size in 1...text.count {
            var framing = LineFraming(limit: 12)
            var lines: [String] = []
            for start in stride(from: 0, to: text.count, by: size) {
                let fits = text[start..<min(start + size, text.count)].withUnsafeBytes { piece in
                    framing.take(piece) { line in
                        lines.append(String(decoding: line, as: UTF8.self))
                        return true
                    }
                }
                #expect(fits)
            }
            #expect(lines == ["one", "", "two and more", "three"])
            #expect(framing.hasPartialLine)
        }
    }

    @Test("A line longer than the limit is refused, with and without its end", arguments: ["12345\n", "12345"])
    func longLine(text: String) {
        var framing = LineFraming(limit: 4)
        let fits = Array(text.utf8).withUnsafeBytes { framing.take($0) { _ in true } }
        #expect(!fits)
    }

    @Test("An allowance comes back with time and never beyond its most")
    func allowance() {
        var allowance = Allowance(most: 10, perSecond: 5)
        let uses: [(amount: Int, second: Double, isAllowed: Bool)] = [
            (10, 0, true), (1, 0, false), (5, 1, true), (1, 0.5, false),  // A clock that steps back gives nothing.
            (11, 1_000, false), (10, 1_000, true),
        ]
        for use in uses {
            let isAllowed = allowance.use(use.amount, at: .seconds(use.second))
            #expect(isAllowed == use.isAllowed, "\(use)")
        }
    }
}

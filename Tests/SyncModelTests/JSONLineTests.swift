import SyncModel
import Testing

@Suite(.timeLimit(.minutes(10)))
struct JSONLineTests {
    @Test("Every kind of value, nested, on one line")
    func values() {
        let missing: String? = nil
        let line = JSONLine.object { line in
            line.field("event", "a")
            line.field("n", -3)
            line.field("big", UInt64.max)
            line.field("yes", true)
            line.field("none", optional: missing)
            line.field("some", optional: "x")
            line.field("count", optional: Int?.some(1))
            line.key("list")
            line.array { list in
                list.value("a")
                list.value(2)
                list.null()
                list.object { _ in }
                list.array { _ in }
                list.object { $0.field("k", false) }
            }
            line.key("raw")
            line.raw("{\"r\":1}")
        }
        #expect(
            line.text == #"{"event":"a","n":-3,"big":18446744073709551615,"yes":true,"some":"x","count":1,"#
                + #""list":["a",2,null,{},[],{"k":false}],"raw":{"r":1}}"#)
        #expect(line.bytes == Array(line.text.utf8))
    }

    @Test("An object can have more fields at its end")
    func extended() {
        var line = JSONLine.object { _ in }
        line.extend { $0.field("a", 1) }
        line.extend { _ in }
        line.extend { $0.object("b") { $0.field("c", true) } }
        #expect(line.text == #"{"a":1,"b":{"c":true}}"#)
    }

    @Test(
        "Strings are escaped as little as JSON allows, and never break the line [V27, V63]",
        arguments: [
            ("", #""""#), ("a\"b\\c/", #""a\"b\\c/""#), ("a\nb", #""a\nb""#),
            ("\r\t\u{0}\u{1B}\u{7F}", #""\u000d\u0009\u0000\u001b\u007f""#), ("é日😀", "\"é日😀\""),
        ])
    func strings(_ text: String, _ json: String) {
        var line = JSONLine()
        line.value(text)
        #expect(line.text == json)
    }
}

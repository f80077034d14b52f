import SyncManifest
import SyncModel
import Testing

@Suite("Where a set came from, put into a manifest", .timeLimit(.minutes(10)))
struct SourceMemberTests {
    private func put(_ text: String) throws -> (text: String, at: String?) {
        var seen: String?
        let bytes = try SourceOrigin.put(into: Array(text.utf8)) { at in
            seen = at
            return SourceOrigin(kind: "k", url: "k://u", at: at ?? "made")
        }
        return (String(decoding: bytes, as: UTF8.self), seen)
    }

    @Test("It takes the place of what stands there, whatever that is, and is put in front where there is nothing")
    func placed() throws {
        let made = #""source":{"kind":"k","url":"k://u","at":"made"}"#
        #expect(try put(#"{"a":1}"#).text == "{\(made),\"a\":1}")
        #expect(try put("{ }").text == "{\(made) }")
        #expect(try put(#"{"a":{"source":2},"source":null, "b":[]}"#).text == #"{"a":{"source":2},\#(made), "b":[]}"#)
        let known = try put(#"{"x":"}", "source" : {"at":"s\u0031","url":"http://user:secret@h/?k"} ,"b":[]}"#)
        #expect(known.at == "s1")
        #expect(known.text == #"{"x":"}", "source" : {"kind":"k","url":"k://u","at":"s1"} ,"b":[]}"#)
    }

    @Test(
        "What is no object, or has it twice, is refused",
        arguments: [
            "", "[]", "{", #"{"source":{},"source":{}}"#, #"{"source":{"at":1}}"#, #"{"source":{"at":"a","at":"a"}}"#,
            #"{"a":1} x"#, #"{"a":}"#,
        ])
    func refused(text: String) { #expect(throws: ManifestError.self) { try put(text) } }
}

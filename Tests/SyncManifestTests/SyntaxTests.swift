import SyncManifest
import SyncModel
import Testing

@Suite(.timeLimit(.minutes(10)))
struct SyntaxTests {
    @Test(
        "Text that is not exactly one JSON value is refused [V41, F106]",
        arguments: [
            Rejection("", "$", "empty"), Rejection("  \n\t ", "$", "empty"),
            Rejection("\u{FEFF}{}", "$", "byte order mark"), Rejection("<!DOCTYPE html>", "$", "web page"),
            Rejection("[]", "$", "expected an object, found an array"), Rejection("null", "$", "found null"),
            Rejection("not there", "$", "found something that is not JSON"),
            Rejection("{", "$", "expected a key in double quotes, found the end"),
            Rejection("{a:1}", "$", "expected a key in double quotes, found “a”"),
            Rejection("{'a':1}", "$", "expected a key in double quotes"),
            Rejection("{\"format\" 1}", "$", "“:” after a key"),
            Rejection("{\"format\":}", "$.format", "expected a string, found something that is not JSON"),
            Rejection("{\"project\":\"a\" \"x-a\":1}", "$.project", "“,” or “}”"),
            Rejection("{\"project\":\"a\",}", "$.project", "a value after “,”"),
            Rejection("{\"project\":\"a\"},", "$", "text follows"), Rejection("// no\n{}", "$", "expected an object"),
            Rejection("{/*no*/}", "$", "expected a key"),
            Rejection("{\"x-a\":[1,]}", "$[\"x-a\"]", "a value after “,”"),
            Rejection("{\"x-a\":[1 2]}", "$[\"x-a\"]", "“,” or “]”"),
            Rejection("{\"x-a\":[,1]}", "$[\"x-a\"]", "a value"), Rejection("{\"x-a\":NaN}", "$[\"x-a\"]", "a value"),
            Rejection("{\"x-a\":Infinity}", "$[\"x-a\"]", "a value"), Rejection("{\"x-a\":-}", "$[\"x-a\"]", "a digit"),
            Rejection("{\"x-a\":01}", "$[\"x-a\"]", "leading zeros"),
            Rejection("{\"x-a\":1.}", "$[\"x-a\"]", "a digit after “.”"),
            Rejection("{\"x-a\":1e}", "$[\"x-a\"]", "a digit in the exponent"),
            Rejection("{\"x-a\":+1}", "$[\"x-a\"]", "a value"), Rejection("{\"x-a\":tru}", "$[\"x-a\"]", "a value"),
            Rejection("{\"x-a\":nul", "$[\"x-a\"]", "a value"),
            Rejection("{\"x-a\":\"a", "$[\"x-a\"]", "ends inside a string"),
            Rejection("{\"x-a\":\"a\\", "$[\"x-a\"]", "ends inside a string"),
            Rejection("{\"x-a\":\"\\u12", "$[\"x-a\"]", "ends inside a string"),
            Rejection("{\"x-a\":\"\\u12G4\"}", "$[\"x-a\"]", "broken \\u escape"),
            Rejection("{\"x-a\":\"\\x41\"}", "$[\"x-a\"]", "unknown escape"),
            Rejection("{\"x-a\":\"\\uD800\"}", "$[\"x-a\"]", "surrogate"),
            Rejection("{\"x-a\":\"\\uD800\\u0041\"}", "$[\"x-a\"]", "surrogate"),
            Rejection("{\"x-a\":\"\\uDC00\\uD800\"}", "$[\"x-a\"]", "surrogate"),
            Rejection("{\"x-a\":\"line\nline\"}", "$[\"x-a\"]", "control character"),
            Rejection("{\"x-a\":{\"k\":1,\"k\":2}}", "$[\"x-a\"]", "the key “k” appears twice"),
            Rejection("{\"x-a\":{\"k\":1,\"\\u006b\":2}}", "$[\"x-a\"]", "the key “k” appears twice"),
            Rejection("{\"x-a\":1,\"x-a\":2}", "$[\"x-a\"]", "the key “x-a” appears twice"),
            Rejection("{\"project\":\"a\",\"project\":\"a\"}", "$.project", "appears twice"),
            Rejection("{\"project\":\"a\",\"\\u0070roject\":\"a\"}", "$.project", "appears twice"),
            Rejection("{\"fils\":[]}", "$[\"fils\"]", "unknown key “fils”"),
            Rejection("{\"X-a\":[]}", "$[\"X-a\"]", "unknown key"), Rejection("{\"\":[]}", "$[\"\"]", "unknown key"),
            Rejection("{}", "$.format", "the key is missing"),
        ]) func refused(_ row: Rejection)
    { row.check() }

    @Test(
        "Bytes that are not UTF-8 are refused inside strings [V41]",
        arguments: [
            [0x80], [0xC0, 0x80], [0xC1, 0xBF], [0xC3], [0xE0, 0x9F, 0x80], [0xED, 0xA0, 0x80], [0xE2, 0x82],
            [0xF0, 0x8F, 0x80, 0x80], [0xF4, 0x90, 0x80, 0x80], [0xF5, 0x80, 0x80, 0x80], [0xFF], [0xE2, 0x28, 0xA1],
        ] as [[UInt8]])
    func notUTF8(_ bytes: [UInt8]) {
        let text = Array("{\"x-a\":\"".utf8) + bytes + Array("\"}".utf8)
        #expect(throws: ManifestError.self) { try ManifestAssembly(text, digest: .zero).finish() }
        do throws(ManifestError) { _ = try ManifestAssembly(text, digest: .zero).finish() } catch {
            #expect(error.reason.contains("UTF-8") || error.reason.contains("not JSON"))
            #expect(error.path == "$[\"x-a\"]")
        }
    }

    @Test("Every scalar survives, as itself and as escapes")
    func scalars() throws {
        for value in [0x21, 0x7E, 0xE9, 0x7FF, 0x800, 0xFFFD, 0x10000, 0x1F600, 0x10FFFF] as [UInt32] {
            let scalar = try #require(Unicode.Scalar(value))
            let name = String(Character(scalar))
            var escape = ""
            for unit in name.utf16 {
                let digits = String(unit, radix: 16)
                escape += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            }
            let files = ManifestFixture.entry("a/" + name)
            #expect(try ManifestFixture.load(ManifestFixture.document(files: files)).files.path(0) == "a/" + name)
            let escaped = files.replacing("a/" + name, with: "\\u0061\\/" + escape)
            #expect(try ManifestFixture.load(ManifestFixture.document(files: escaped)).files.path(0) == "a/" + name)
        }
    }

    @Test("Where reading stopped is told by line and column")
    func position() throws {
        let error = try #require(ManifestFixture.refusal("{\n  \"format\": \"syncagent-manifest/1\",\n  \"size\": 1}"))
        #expect(error.line == 3)
        #expect(error.column == 10)
        #expect(error.description.hasPrefix("manifest refused at $[\"size\"] (line 3, column 10): unknown key"))
    }

    @Test("Depth is bounded: 64 levels are read, 65 and 100,000 are refused [V48]", arguments: [63, 64, 100_000])
    func depth(_ levels: Int) throws {
        // The document is one level itself.
        let value = String(repeating: "[", count: levels) + String(repeating: "]", count: levels)
        let text = ManifestFixture.document(files: "", extra: ",\"x-a\":" + value)
        if levels < 64 {
            _ = try ManifestFixture.load(text)
        } else {
            Rejection(text, "$[\"x-a\"]", "more than 64 nested").check()
        }
    }

    @Test(
        "A number of a million digits is refused or skipped in linear time [V49]",
        arguments: ["9", "0", "1.5", "-1", "1e5"])
    func longNumbers(_ start: String) throws {
        let digits = start + String(repeating: "9", count: 1_000_000)
        let size = ManifestFixture.document(
            files: "{\"path\":\"a\",\"size\":\(digits),\"sha256\":\"\(ManifestFixture.digest)\"}")
        #expect(ManifestFixture.refusal(size)?.path == "$.files[0].size")
        let skipped = ManifestFixture.refusal(ManifestFixture.document(files: "", extra: ",\"x-a\":\(digits)"))
        #expect((skipped == nil) == (start != "0"))
    }

    @Test("Extension keys are skipped everywhere, whatever they hold [V41]")
    func extensions() throws {
        let value = #"{"a":[1,-2.5e+10,1e400,"\ud83d\ude00",true,false,null,{}],"b":{"x":{}}}"#
        let text = """
            {"x-top":\(value),"format":"syncagent-manifest/1","project":"p",
            "packs":[{"x-pack":\(value),"url":"a","size":1,"sha256":"\(ManifestFixture.digest)"}],
            "groups":[{"name":"g","x-group":\(value)}],
            "files":[{"x-file":\(value),"path":"a","size":0,"sha256":"\(ManifestFixture.digestOfNothing)","x-b":1}]}
            """
        #expect(try ManifestFixture.load(text).files.path(0) == "a")
    }
}

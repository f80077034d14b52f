import SyncManifest
import SyncModel
import Testing

private let digest = "\"sha256\":\"\(ManifestFixture.digest)\""
private let nothing = "\"sha256\":\"\(ManifestFixture.digestOfNothing)\""
private let own = "\"\(ManifestFixture.digest)\""

@Suite(.timeLimit(.minutes(10)))
struct EntryTests {
    @Test(
        "Keys of an entry are known, single and of the right kind [V41, V49, F106, F109]",
        arguments: [
            Rejection.files("1", "[0]", "expected an object, found a number"),
            .files("{}", "[0].path", "the key is missing"), .files("{\"size\":1}", "[0].path", "the key is missing"),
            .file(digest, ".size", "the key is missing"), .file("\"size\":1", ".sha256", "the key is missing"),
            .file("\"size\":1,\"size\":1", ".size", "appears twice"),
            .file("\"size\":1,\"\\u0073ize\":1", ".size", "appears twice"),
            .file("\"path\":\"b\"", ".path", "appears twice"),
            .file("\"owner\":420", "[\"owner\"]", "unknown key “owner”"),
            .file("\"command\":\"rm\"", "[\"command\"]", "unknown key"),
            .file("\"x-a\":1,\"x-a\":1", "[\"x-a\"]", "appears twice"),
            .file("\"size\":\"1\"", ".size", "expected an integer, found a string"),
            .file("\"size\":null", ".size", "expected an integer, found null"),
            .file("\"size\":[1]", ".size", "expected an integer, found an array"),
            .file("\"size\":true", ".size", "expected an integer, found true or false"),
            .file("\"executable\":1", ".executable", "expected true or false, found a number"),
            .file("\"executable\":\"true\"", ".executable", "expected true or false, found a string"),
            .file("\"blobs\":{}", ".blobs", "expected an array, found an object"),
            .file("\"urls\":\"a\"", ".urls", "expected an array, found a string"),
            .file("\"urls\":[1]", ".urls[0]", "expected a string, found a number"),
            .file("\"group\":7", ".group", "expected a string"), .file("\"link\":[]", ".link", "expected a string"),
            .files("{\"path\":7}", "[0].path", "expected a string"),
        ]) func keys(_ row: Rejection)
    { row.check() }

    @Test(
        "A size is an integer from 0 to 2^63 - 1 [V47, V49, F109]",
        arguments: [
            ("-1", "negative"), ("-0", "negative"), ("1.0", "fraction"), ("1.5", "fraction"), ("1e3", "exponent"),
            ("1E3", "exponent"), ("01", "starts with 0"), ("9223372036854775808", "above 9223372036854775807"),
            ("18446744073709551615", "above"), ("18446744073709551616", "above"),
            ("99999999999999999999999999", "above"), ("1e400", "exponent"), ("NaN", "expected an integer"),
            ("0x10", "“,” or “}”"),
        ])
    func size(_ number: String, _ reason: String) {
        Rejection.file("\"size\":\(number),\(digest)", ".size", reason).check()
    }

    @Test("The largest size is taken [V47]")
    func largestSize() throws {
        let text = ManifestFixture.document(
            files: "{\"path\":\"a\",\"size\":9223372036854775807,\(digest),\"urls\":[\"a\"]}")
        #expect(try ManifestFixture.load(text).files.size(0) == UInt64(Int64.max))
    }

    @Test("Sizes that add up past 2^63 are refused [V47]")
    func sumOfSizes() {
        let files = ["a", "b", "c"].map {
            "{\"path\":\"\($0)\",\"size\":9223372036854775807,\(digest),\"urls\":[\"a\"]}"
        }
        Rejection.files(files.joined(separator: ","), "", "add up to more than 2^63").check()
    }

    @Test(
        "A SHA-256 is 64 hexadecimal digits [F108]",
        arguments: [
            ("", "has 0 bytes"), ("ab", "has 2 bytes"), (String(repeating: "a", count: 63), "has 63 bytes"),
            (String(repeating: "a", count: 65), "has 65 bytes"),
            (String(repeating: "g", count: 64), "not a hexadecimal"),
            (String(repeating: "a", count: 63) + " ", "not a hexadecimal"),
            ("sha256:" + String(repeating: "a", count: 57), "not a hexadecimal"),
            (String(repeating: "é", count: 32), "not a hexadecimal"),
        ])
    func badDigest(_ text: String, _ reason: String) {
        Rejection.file("\"size\":1,\"sha256\":\"\(text)\"", ".sha256", reason).check()
    }

    @Test("Upper, lower and mixed case of a SHA-256 are one value [F108]")
    func digestCase() throws {
        for hex in ["abcdef", "ABCDEF", "aBcDeF"] {
            let text =
                "{\"path\":\"a\",\"size\":1,\"sha256\":\"\(hex)\(String(repeating: "0", count: 58))\",\"urls\":[\"a\"]}"
            let files = try ManifestFixture.load(ManifestFixture.document(files: text)).files
            #expect(files.digest(0).hex == "abcdef" + String(repeating: "0", count: 58))
        }
    }

    @Test(
        "Blobs lie in packs that exist, and give the file exactly [V46, V47, V54]",
        arguments: [
            Rejection.file("\"size\":1,\(digest)", "", "neither blobs nor URLs"),
            .file("\"size\":1,\(digest),\"blobs\":[],\"urls\":[]", "", "neither blobs nor URLs"),
            .file("\"size\":0,\(digest)", ".sha256", "not the SHA-256 of nothing"),
            .file("\"size\":0,\(nothing),\"blobs\":[[0,0,1]]", ".blobs", "an empty file has blobs"),
            .file("\"size\":1,\(digest),\"blobs\":[1]", ".blobs[0]", "expected an array"),
            .file("\"size\":1,\(digest),\"blobs\":[[]]", ".blobs[0]", "fewer than 3 members"),
            .file("\"size\":1,\(digest),\"blobs\":[[0,0]]", ".blobs[0]", "fewer than 3 members"),
            .file("\"size\":1,\(digest),\"blobs\":[[0,0,1,1,\"none\",\(own),1]]", ".blobs[0][6]", "more than 6"),
            .file("\"size\":1,\(digest),\"blobs\":[[-1,0,1]]", ".blobs[0][0]", "negative"),
            .file("\"size\":1,\(digest),\"blobs\":[[2,0,1]]", ".blobs[0][0]", "pack 2 does not exist"),
            .file("\"size\":1,\(digest),\"blobs\":[[4294967295,0,1]]", ".blobs[0][0]", "does not exist"),
            .file("\"size\":1,\(digest),\"blobs\":[[4294967296,0,1]]", ".blobs[0][0]", "above 4294967295"),
            .file("\"size\":1,\(digest),\"blobs\":[[\"0\",0,1]]", ".blobs[0][0]", "expected an integer"),
            .file("\"size\":1,\(digest),\"blobs\":[[0,-1,1]]", ".blobs[0][1]", "negative"),
            .file("\"size\":1,\(digest),\"blobs\":[[0,0,0]]", ".blobs[0][2]", "the blob is empty"),
            .file("\"size\":1,\(digest),\"blobs\":[[0,0,1,0]]", ".blobs[0][3]", "the blob is empty"),
            .file("\"size\":1,\(digest),\"blobs\":[[0,0,1,2]]", ".blobs[0][3]", "is not the stored length"),
            .file("\"size\":2,\(digest),\"blobs\":[[0,0,1,2,\"none\"]]", ".blobs[0][3]", "is not the stored length"),
            .file("\"size\":1,\(digest),\"blobs\":[[0,0,1,1,\"gzip\"]]", ".blobs[0][4]", "unknown codec “gzip”"),
            .file("\"size\":1,\(digest),\"blobs\":[[0,0,1,1,null]]", ".blobs[0][4]", "expected a string, found null"),
            .file("\"size\":1,\(digest),\"blobs\":[[0,0,1,1,\"none\",\"ab\"]]", ".blobs[0][5]", "has 2 bytes"),
            .file(
                "\"size\":1,\(digest),\"blobs\":[[0,0,1,1,\"none\",\"\(ManifestFixture.digestOfNothing)\"]]",
                ".blobs[0][5]", "not that of the file"),
            .file("\"size\":5,\(digest),\"blobs\":[[0,999,2,5,\"zstd\"]]", ".blobs[0]", "ends at byte 1001"),
            .file("\"size\":1001,\(digest),\"blobs\":[[0,0,1001]]", ".blobs[0]", "and pack 0 has 1000"),
            .file("\"size\":1,\(digest),\"blobs\":[[0,9223372036854775807,1]]", ".blobs[0][2]", "ends above 2^63"),
            .file("\"size\":2,\(digest),\"blobs\":[[0,0,1]]", ".blobs", "give 1 bytes, and the file has 2"),
            .file("\"size\":1,\(digest),\"blobs\":[[0,0,2]]", ".blobs", "give 2 bytes, and the file has 1"),
            .file("\"size\":2,\(digest),\"blobs\":[[0,0,1],[0,1,1]]", ".blobs[0]", "no SHA-256 of its own"),
            .file("\"size\":2,\(digest),\"blobs\":[[0,0,1,1,\"none\",\(own)],[0,1,1]]", ".blobs[1]", "no SHA-256"),
            .file(
                "\"size\":40000000,\(digest),\"blobs\":[[0,0,1000,40000000,\"zstd\"]]", ".blobs[0][3]",
                "1000 bytes of zstd cannot hold 40000000"),
        ]) func blobs(_ row: Rejection)
    { row.check() }

    @Test("Raw lengths that overflow are refused [V47]")
    func overflowOfRawLengths() {
        let big = "9223372036854775807"
        let packs = "\"packs\":[{\"url\":\"p\",\"size\":\(big),\"sha256\":\(own)}]"
        let blob = "[0,0,\(big),\(big),\"none\",\(own)]"
        let text = """
            {"format":"syncagent-manifest/1","project":"p",\(packs),
            "files":[{"path":"a","size":1,\(digest),"blobs":[\(blob),\(blob),\(blob)]}]}
            """
        Rejection(text, "$.files[0].blobs", "overflow 64 bits").check()
    }

    @Test("Packs may stand behind the files that use them")
    func packsLast() throws {
        let packs = "\"packs\":[{\"url\":\"p\",\"size\":10,\"sha256\":\(own)}]"
        func text(_ offset: Int) -> String {
            """
            {"files":[{"blobs":[[0,\(offset),1]],\(digest),"size":1,"path":"a"}],\(packs),
            "project":"p","format":"syncagent-manifest/1"}
            """
        }
        #expect(try ManifestFixture.load(text(9)).files.blobs(0).first?.offset == 9)
        Rejection(text(10), "$.files[0].blobs[0]", "ends at byte 11").check()
    }

    @Test("The only blob may repeat the file's SHA-256; it costs nothing")
    func repeatedDigest() throws {
        let text = ManifestFixture.document(
            files: """
                {"path":"a","blobs":[[0,0,1,1,"none",\(own)]],"size":1,\(digest)},
                {"path":"b","size":2,\(digest),"blobs":[[0,0,1,1,"none",\(own)],[0,9,1,1,"none","\(String(repeating: "7", count: 64))"]]}
                """)
        let files = try ManifestFixture.load(text).files
        #expect(files.blobs(0).first?.digestIndex == nil)
        #expect(files.blobs(1).map { files.digest(of: $0, in: 1).hex.prefix(2) } == ["ab", "77"])
    }
}

import SyncManifest
import SyncModel
import Testing

@Suite(.timeLimit(.minutes(10)))
struct PathTests {
    /// Kept for good: paths that got out of some program's directory, or would have (V1, V2, V8, V12, V27, V56).
    static let escapes = [
        "..", "../x", "../../etc/passwd", "a/../../x", "a/..", "a/../b", ".", "./x", "a/.", "a/./b", "/x", "//x",
        "/etc/passwd", "", "a//x", "a/", "/", "//", "a/b/", "../dst-evil/x", "a/b/../../../x", "\u{0}", "a\u{0}b",
        "a\nb", "a\rb", "a\tb", "a\u{1B}[2Jb", "a\u{7F}b", "a\u{85}b", "a\u{9B}b", "a\u{202E}fdp.exe", "\u{200F}a",
        "a\u{2066}b", "a/b\u{61C}c", ".syncagent", ".syncagent/id", ".SyncAgent/index", "a/.syncagent/x",
        ".ſyncagent/x", ".sync\u{200C}agent/x", "\u{FEFF}.syncagent", "a/.SYNCAGENT",
    ]

    @Test(
        "No path leaves the destination, names the agent's own, or hides what it is [V1 V2 V12 V14 V62 F105 S160]",
        arguments: escapes)
    func escape(_ path: String) { Rejection.path(path, "").check() }

    @Test("Nor with something harmless at its end [V8]", arguments: escapes, ["/", "//", "/.", "/..", "/x"])
    func escapeWithEnding(_ path: String, _ ending: String) { Rejection.path(path + ending, "").check() }

    @Test(
        "An ordinary path with such an ending is refused too [V8]", arguments: ["//", "/.", "/..", "//x", "/./x", "/"])
    func ordinaryWithEnding(_ ending: String) {
        Rejection.path("sheets/A-101" + ending, ending == "/" ? "ends in" : "component").check()
        Rejection.path("sheets/" + String(repeating: "x", count: 255) + ending, "").check()
    }

    @Test(
        "Reasons are exact, and say how long is too long [V9]",
        arguments: [
            Rejection.path("", "the path is empty"), .path("/x", "is absolute"),
            .path("a//b", "has an empty component"), .path("a/", "ends in “/”"),
            .path("a/../b", "has the component “..”"), .path("./b", "has the component “.”"),
            .path("a\u{202E}b", "control or bidirectional"), .path("a\nb", "“a\\u{a}b” has a control"),
            .path(".syncAGENT/b", "is under “.syncagent”"),
            .path(String(repeating: "a", count: 256), "256 bytes, above the limit of 255"),
            .path("b/" + String(repeating: "é", count: 128), "256 bytes, above the limit of 255"),
            .path(String(repeating: "abcdefg/", count: 511) + "12345678", "4096 bytes, above the limit of 4095"),
            .path(String(repeating: "abcdefg/", count: 1_250), "10000 bytes, above the limit of 4095"),
            .path(String(repeating: "a/", count: 10_000) + "a", "20001 bytes, above the limit of 4095"),
        ])
    func reason(_ row: Rejection) { row.check() }

    @Test(
        "Odd names that Linux has are taken as they are [V13, V14, V56]",
        arguments: [
            "a", "...", "..a", "a..", "a b", " a", "a ", "-rf", "~", "~/x", "$(touch x)", "a;b", "a\\b", "CON",
            "aux.txt", "a:b", "a.", "é", "e\u{301}", "日本語/図面.pdf", "😀", "\u{200B}", "ﬁ", "Ａ", "syncagent",
            ".syncagents", ".syncagent2/x", ".git/config", "a\u{2028}b", "*", "?", "[a]", "\"", "'", "a\u{FFFD}b",
            "\u{A0}",
        ])
    func oddNames(_ path: String) throws {
        let files = try ManifestFixture.load(ManifestFixture.document(files: ManifestFixture.entry(path))).files
        #expect(Array(files.path(0).utf8) == Array(path.utf8))
    }

    @Test("A component of 255 bytes and a path of 4,095 are taken [V9]")
    func longest() throws {
        let component = String(repeating: "c", count: 255)
        let path = String(repeating: component + "/", count: 15) + component
        #expect(path.utf8.count == 4_095)
        let files = try ManifestFixture.load(ManifestFixture.document(files: ManifestFixture.entry(path))).files
        #expect(files.path(0) == path)
        #expect(files.withPath(0) { $0.count } == 4_095)
    }

    @Test(
        "Two entries cannot be one path, nor one the directory of the other [V13, F106, F107]",
        arguments: [
            (["a", "a"], 1, "“a” is the same as $.files[0].path"),
            (["b", "a", "c", "b"], 3, "“b” is the same as $.files[0].path"),
            (["a", "a/b"], 0, "“a” is a file, and $.files[1].path needs a directory there"),
            (["a/b", "a"], 1, "“a” is a file, and $.files[0].path needs a directory there"),
            (["a/b/c/d", "a-", "a!", "a/b"], 3, "$.files[0].path needs a directory"),
            (["é", "e\u{301}"], 1, "after Unicode normalisation, the same as $.files[0].path"),
            (["x", "e\u{301}", "a", "é"], 3, "after Unicode normalisation, the same as $.files[1].path"),
            (["Å", "\u{212B}"], 1, "after Unicode normalisation"),
            (["K", "\u{212A}"], 1, "after Unicode normalisation"),
            ([";", "\u{37E}"], 1, "after Unicode normalisation"),
            (["`", "\u{1FEF}"], 1, "after Unicode normalisation"),
            (["가/x", "\u{1100}\u{1161}/x"], 1, "after Unicode normalisation"),
            (["é", "e\u{301}/x"], 0, "is a file, and $.files[1].path needs a directory"),
            (["e\u{301}/x/y", "é/x"], 1, "is a file, and $.files[0].path needs a directory"),
            (["\u{212A}/x", "K"], 1, "is a file, and $.files[0].path needs a directory"),
        ])
    func collisions(_ paths: [String], _ entry: Int, _ reason: String) {
        Rejection.files(paths.map(ManifestFixture.entry).joined(separator: ","), "[\(entry)].path", reason).check()
    }

    @Test(
        "Paths that only look alike are kept apart [V12, V13]",
        arguments: [
            ["a", "A"], ["a", "a-b", "a.b", "a b"], ["dst", "dst-evil/x"], ["ß", "ss"], ["ﬁ", "fi"],
            ["é/a", "e\u{301}/b"], ["a/b", "ab"], ["a/b/c", "a/b-c", "a/bc"], ["K", "k"], ["\u{3A9}", "\u{3C9}"],
        ])
    func apart(_ paths: [String]) throws {
        let text = ManifestFixture.document(files: paths.map(ManifestFixture.entry).joined(separator: ","))
        #expect(try ManifestFixture.load(text).files.count == paths.count)
    }

    @Test("Rows stand in path order, whatever the document's order, and keep their columns")
    func order() throws {
        let paths = ["b", "a!", "a/z", "a/b/c", "a-", "aa", "é", "a0"]
        let entries = paths.enumerated().map { index, path in
            "{\"path\":\"\(path)\",\"size\":\(index + 1),\"sha256\":\"\(ManifestFixture.digest)\","
                + "\"group\":\"g\(index)\",\"urls\":[\"u\(index)\",\"v\(index)\"]}"
        }
        let files = try ManifestFixture.load(ManifestFixture.document(files: entries.joined(separator: ","))).files
        let sorted = ["a/b/c", "a/z", "a!", "a-", "a0", "aa", "b", "é"]
        #expect(files.indices.map(files.path) == sorted)
        for row in files.indices {
            let index = try #require(paths.firstIndex(of: files.path(row)))
            #expect(files.size(row) == UInt64(index + 1))
            #expect(files.urls(row) == ["u\(index)", "v\(index)"])
            #expect(files.groupName(row) == "g\(index)")
            #expect(Array(files.path(row).utf8).withUnsafeBufferPointer(files.row(of:)) == row)
        }
    }
}

import SyncManifest
import SyncModel
import Testing

@Suite(.timeLimit(.minutes(10)))
struct SelectionTests {
    private static let paths = [
        "README.md", "sheets/A-101.pdf", "sheets/A-102.pdf", "sheets/old/A-001.pdf", "sheets/old/deep/er/A.dwg",
        "sheetsmore/x.pdf", "video/a.mp4", "é/ü.pdf",
    ]

    @Test(
        "A pattern selects the paths it says",
        arguments: [
            ("sheets/**", [1, 2, 3, 4]), ("sheets/*", [1, 2]), ("sheets/*.pdf", [1, 2]),
            ("sheets/**/*.pdf", [1, 2, 3]), ("**/*.pdf", [1, 2, 3, 5, 7]), ("**", [0, 1, 2, 3, 4, 5, 6, 7]), ("*", [0]),
            ("*.md", [0]), ("*/*", [1, 2, 5, 6, 7]), ("sheets/A-10?.pdf", [1, 2]), ("sheets/A-1??.pdf", [1, 2]),
            ("sheets/?-101.pdf", [1]), ("?/?.pdf", [7]), ("é/**", [7]), ("sheets", []), ("sheets*", []),
            ("sheets*/*", [1, 2, 5]), ("sheets/old/**/A.dwg", [4]), ("sheets/**/old/**/A.dwg", [4]),
            ("**/**/A-001.pdf", [3]), ("**/old/**", [3, 4]), ("README.md", [0]), ("readme.md", []),
            ("README.md/**", []), ("sheets/a**1.pdf", []), ("sheets/A**1.pdf", [1]), ("nothing/**", []),
        ])
    func pattern(_ pattern: String, _ rows: [Int]) throws {
        let manifest = try manifest(groups: "{\"name\":\"g\",\"include\":[\"\(pattern)\"]}")
        #expect(try manifest.selection(groups: ["g"])?.rows == rows)
        let glob = Glob(pattern)
        #expect(manifest.files.indices.filter { manifest.files.withPath($0, glob.matches) } == rows)
    }

    @Test("A group is its patterns and the files that name it; several groups add up")
    func groups() throws {
        let manifest = try manifest(
            groups: "{\"name\":\"sheets\",\"include\":[\"sheets/*\",\"sheets/old/*\"]},{\"name\":\"none\"}",
            own: [6: "video", 0: "sheets"])
        #expect(manifest.groups.map(\.name) == ["sheets", "none", "video"])
        #expect(try manifest.selection(groups: ["sheets"])?.rows == [0, 1, 2, 3])
        #expect(try manifest.selection(groups: ["video"])?.rows == [6])
        #expect(try manifest.selection(groups: ["video", "sheets", "video"])?.rows == [0, 1, 2, 3, 6])
        #expect(try manifest.selection(groups: ["none"])?.count == 0)
        #expect(try manifest.selection(groups: ["none", "all"])?.count == 8)
        #expect(try manifest.selection(groups: [])?.rows == Array(0..<8))
        #expect(manifest.files.rows(of: manifest.groups[0]).rows == [0, 1, 2, 3])
    }

    @Test("An unknown group is refused, and the known ones are named")
    func unknown() throws {
        let manifest = try manifest(groups: "{\"name\":\"sheets\"}", own: [6: "video"])
        let error = #expect(throws: UnknownGroup.self) { try manifest.selection(groups: ["sheets", "vide\u{1B}o"]) }
        #expect(error?.description == "the manifest has no group “vide\\u{1b}o”; it has: all, sheets, video")
    }

    @Test("A hostile pattern costs at most its length times the path's [V49]")
    func hostilePattern() throws {
        let path = String(repeating: "a", count: 255) + "/" + Array(repeating: "a", count: 1_900).joined(separator: "/")
        let manifest = try ManifestFixture.load(ManifestFixture.document(files: ManifestFixture.entry(path)))
        let stars = String(repeating: "*a", count: 120) + "b"
        let depths = Array(repeating: "**/a", count: 800).joined(separator: "/") + "/b"
        for pattern in [stars, stars + "/**", "*/" + depths, depths] {
            #expect(!manifest.files.withPath(0, Glob(pattern).matches))
        }
        #expect(manifest.files.withPath(0, Glob(String(depths.dropLast(2))).matches))
    }

    @Test("A selection of any size counts and lists alike", arguments: [0, 1, 63, 64, 65, 128, 1_000])
    func sizes(_ count: Int) throws {
        let files = (0..<count).map { ManifestFixture.entry("f\($0)") }.joined(separator: ",")
        let manifest = try ManifestFixture.load(ManifestFixture.document(files: files))
        let all = try #require(try manifest.selection(groups: []))
        #expect(all.count == count)
        #expect(all.rows == Array(0..<count))
        #expect(!all.contains(count))
        #expect(!all.contains(-1))
        #expect(!all.contains(.max))
        #expect(manifest.files.rows(of: Manifest.Group(name: "x", include: ["**"], hooks: [])) == all)
    }

    private func manifest(groups: String, own: [Int: String] = [:]) throws -> Manifest {
        let files = Self.paths.enumerated().map { row, path in
            let group = own[row].map { ",\"group\":\"\($0)\"" } ?? ""
            return String(ManifestFixture.entry(path).dropLast()) + group + "}"
        }
        return try ManifestFixture.load(
            ManifestFixture.document(files: files.joined(separator: ","), extra: ",\"groups\":[\(groups)]"))
    }
}

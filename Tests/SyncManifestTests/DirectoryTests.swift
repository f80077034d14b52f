import SyncManifest
import SyncModel
import Testing

/// Directories that a manifest names, modes and times.
@Suite("Directories, modes and times in manifests", .timeLimit(.minutes(10)))
struct DirectoryTests {
    private static func directories(_ entries: String, files: String = "") -> String {
        ManifestFixture.document(files: files, extra: ",\"x-directories\":[\(entries)]")
    }

    @Test("Empty directories are read, in path order, and groups select them")
    func read() throws {
        let text = Self.directories(
            "{\"path\":\"logs\"},{\"path\":\"a/b\",\"group\":\"g\",\"x-mine\":1}",
            files: ManifestFixture.entry("a/c") + "," + ManifestFixture.entry("z"))
        let manifest = try ManifestFixture.load(text)
        let directories = manifest.directories
        #expect(directories.indices.map(directories.path) == ["a/b", "logs"])
        #expect(manifest.files.count == 2 && manifest.groups.map(\.name) == ["g"])
        #expect(manifest.directories(with: [], groups: ["g"], filter: nil) == [0])
        #expect(manifest.directories(with: [], groups: [], filter: nil) == [0, 1])
        let filter = PathFilter(include: ["a/"], exclude: [])
        #expect(manifest.directories(with: [], groups: [], filter: filter) == [0])
    }

    @Test("A directory that is not empty goes with what is below it, whatever patterns say of itself")
    func withFiles() throws {
        let manifest = try ManifestFixture.load(
            Self.directories(
                "{\"path\":\"a\"},{\"path\":\"a/e\"},{\"path\":\"b\"}",
                files: [ManifestFixture.entry("a/c"), ManifestFixture.entry("b/d")].joined(separator: ",")))
        #expect(manifest.directories(with: [0], groups: [], filter: nil) == [0, 1])
        let none = PathFilter(include: ["b/d"], exclude: [])
        #expect(manifest.directories(with: [1], groups: [], filter: none) == [2])
        let nested = PathFilter(include: ["a/e"], exclude: [])
        #expect(manifest.directories(with: [], groups: [], filter: nested) == [0, 1])
    }

    @Test(
        "What cannot be a directory of the set is refused",
        arguments: [
            ("{\"path\":\"../out\"}", "", "$.x-directories[0].path", "“..”"),
            ("{\"path\":\"/out\"}", "", "$.x-directories[0].path", "absolute"),
            ("{\"path\":\".syncagent\"}", "", "$.x-directories[0].path", ".syncagent"),
            ("{}", "", "$.x-directories[0].path", "missing"),
            ("{\"path\":\"a\",\"size\":0}", "", "$.x-directories[0][\"size\"]", "unknown key"),
            ("{\"path\":\"a\",\"path\":\"b\"}", "", "$.x-directories[0].path", "twice"),
            ("{\"path\":\"a\"},{\"path\":\"a\"}", "", "$.x-directories", "twice"),
            ("{\"path\":\"f\"}", ManifestFixture.entry("f"), "$.x-directories", "a file or a link"),
            ("{\"path\":\"f/g/h\"}", ManifestFixture.entry("f"), "$.x-directories", "a file or a link"),
            ("{\"path\":\"l/g\"}", ManifestFixture.link("l", to: "elsewhere"), "$.x-directories", "a file or a link"),
            ("{\"path\":\"\u{E9}\"}", ManifestFixture.entry("e\u{301}"), "$.x-directories", "Unicode"),
            ("{\"path\":\"\u{E9}/x\"}", ManifestFixture.entry("e\u{301}"), "$.x-directories", "Unicode"),
            ("{\"path\":\"a\",\"mode\":\"4755\"}", "", "$.x-directories[0].mode", "4755"),
        ])
    func refused(_ entries: String, _ files: String, _ path: String, _ reason: String) throws {
        let error = try #require(ManifestFixture.refusal(Self.directories(entries, files: files)))
        #expect(error.path == path && error.reason.contains(reason), "\(error)")
    }

    @Test("Names that meet where case is folded are found among directories and files; two directories meet in peace")
    func folded() throws {
        func collisions(_ entries: String, _ files: String) throws -> Int {
            try ManifestFixture.load(Self.directories(entries, files: files)).caseCollisions().count
        }
        #expect(try collisions("{\"path\":\"Logs\"}", ManifestFixture.entry("logs")) == 1)
        #expect(try collisions("{\"path\":\"Logs/x\"}", ManifestFixture.entry("logs")) == 1)
        #expect(try collisions("{\"path\":\"Logs\"},{\"path\":\"logs\"}", "") == 0)
        #expect(try collisions("{\"path\":\"Logs\"}", ManifestFixture.entry("logs/x")) == 0)
    }

    @Test("Modes and times are read")
    func traits() throws {
        let members = "\"mode\":\"640\",\"mtime\":\"2026-11-20T02:00:00.000000001Z\""
        let file = ManifestFixture.entry("f").dropLast() + ",\(members)}"
        let link = ManifestFixture.link("l", to: "f").dropLast() + ",\"mtime\":\"1999-12-31T23:59:59Z\"}"
        let extra = ",\"x-directories\":[{\"path\":\"d\",\"mode\":\"700\"}]"
        let manifest = try ManifestFixture.load(ManifestFixture.document(files: "\(file),\(link)", extra: extra))
        #expect(manifest.files.traits(0) == FileTraits(mode: 0o640, modified: 1_795_140_000_000_000_001))
        #expect(manifest.files.traits(1) == FileTraits(modified: 946_684_799_000_000_000))
        #expect(manifest.directories.traits(0) == FileTraits(mode: 0o700))
    }

    @Test("The owner's execute bit makes a program; “executable” says nothing beside a mode")
    func executable() throws {
        func file(_ members: String) -> String { ManifestFixture.entry("f").dropLast() + "," + members + "}" }
        #expect(
            try ManifestFixture.load(ManifestFixture.document(files: file("\"mode\":\"711\""))).files.kind(0)
                == .executable)
        #expect(
            try ManifestFixture.load(ManifestFixture.document(files: file("\"mode\":\"655\""))).files.kind(0) == .file)
        let error = ManifestFixture.refusal(
            ManifestFixture.document(files: file("\"mode\":\"755\",\"executable\":true")))
        #expect(error?.path == "$.files[0].executable")
        let link = ManifestFixture.link("l", to: "f").dropLast() + ",\"mode\":\"777\"}"
        #expect(ManifestFixture.refusal(ManifestFixture.document(files: String(link)))?.path == "$.files[0].mode")
    }

    @Test(
        "Modes with set-id bits, and what is no mode, are refused",
        arguments: ["4755", "2755", "1777", "0755", "75", "758", "rwx", "", "-755", "+755"])
    func modes(_ mode: String) {
        let file = ManifestFixture.entry("f").dropLast() + ",\"mode\":\"\(mode)\"}"
        #expect(ManifestFixture.refusal(ManifestFixture.document(files: String(file)))?.path == "$.files[0].mode")
    }

    @Test(
        "Times are written as they were read",
        arguments: [
            ("1970-01-01T00:00:00Z", 0), ("1969-12-31T23:59:59.999999999Z", -1),
            ("2026-11-20T02:00:00.500000000Z", 1_795_140_000_500_000_000),
            ("1678-01-01T00:00:00Z", -9_214_560_000_000_000_000),
            ("2261-12-31T23:59:59.999999999Z", 9_214_646_399_999_999_999),
            ("2024-02-29T00:00:00Z", 1_709_164_800_000_000_000),
        ] as [(String, Int64)])
    func times(_ text: String, _ time: Int64) {
        #expect(Array(text.utf8).withUnsafeBufferPointer(FileTraits.time) == time)
        #expect(FileTraits.text(time: time) == text)
        #expect(FileTraits.times.contains(time))
    }

    @Test("A fraction may have fewer digits")
    func fractions() {
        let text = "1970-01-01T00:00:01.25Z"
        #expect(Array(text.utf8).withUnsafeBufferPointer(FileTraits.time) == 1_250_000_000)
    }

    @Test(
        "Other times are refused",
        arguments: [
            "1677-12-31T23:59:59Z", "2262-01-01T00:00:00Z", "2026-02-29T00:00:00Z", "2026-11-20T24:00:00Z",
            "2026-11-20T02:00:60Z", "2026-11-20T02:00:00", "2026-11-20T02:00:00+01:00", "2026-11-20 02:00:00Z",
            "2026-11-20T02:00:00.Z", "2026-11-20T02:00:00.0000000001Z", "2026-13-01T00:00:00Z", "", "now",
            "2026-11-20T02:00:00.12a4Z", "-026-11-20T02:00:00Z",
        ])
    func strangeTimes(_ time: String) {
        let file = ManifestFixture.entry("f").dropLast() + ",\"mtime\":\"\(time)\"}"
        #expect(ManifestFixture.refusal(ManifestFixture.document(files: String(file)))?.path == "$.files[0].mtime")
    }

    @Test("Directories, modes and times are written as they are read, and nothing is written where there are none")
    func writing() throws {
        var writer = ManifestWriter(project: "p", revision: 1, created: nil)
        func write(_ path: String, _ body: (UnsafeBufferPointer<UInt8>) -> Void) {
            Array(path.utf8).withUnsafeBufferPointer(body)
        }
        let traits = FileTraits(mode: 0o7, modified: -1)
        write("d") { writer.directory(path: $0, traits: traits, group: "g") }
        write("e") { writer.directory(path: $0) }
        write("f") {
            writer.file(
                path: $0, size: 0, digest: SHA256Digest(hex: ManifestFixture.digestOfNothing) ?? .zero,
                executable: true, blobs: [], traits: FileTraits(mode: 0o755))
        }
        write("l") { path in write("f") { writer.link(path: path, target: $0, traits: FileTraits(modified: 1)) } }
        writer.finish()
        var text: [UInt8] = []
        writer.drain { text += $0 }
        let manifest = try ManifestAssembly(text, digest: .zero).finish()
        #expect(manifest.directories.traits(0) == traits && manifest.directories.groupName(0) == "g")
        #expect(manifest.directories.traits(1) == .none)
        #expect(manifest.files.kind(0) == .executable && manifest.files.traits(1) == FileTraits(modified: 1))
        #expect(!String(decoding: text, as: UTF8.self).contains("executable"))
    }
}

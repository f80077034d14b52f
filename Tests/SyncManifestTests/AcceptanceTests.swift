import SyncManifest
import SyncModel
import Testing

@Suite(.timeLimit(.minutes(10)))
struct AcceptanceTests {
    @Test("The example of the format text is read value for value [F105]")
    func example() throws {
        let hex = String(repeating: "AB", count: 32)
        let files = """
            {"path":"sheets/A-101.pdf","size":700,"sha256":"\(hex)","blobs":[[0,0,700]]},
            {"path":"sheets/notes.txt","size":1310,"sha256":"\(hex)","blobs":[[0,700,211,1310,"zstd"]]},
            {"path":"models/site.ifc","size":171,"sha256":"\(hex)","executable":true,
             "blobs":[[1,0,65,131,"zstd","\(ManifestFixture.digest)"],[1,65,40,40,"none","\(hex)"]]},
            {"path":"video/fly.mp4","size":81,"sha256":"\(hex)",
             "urls":["video/fly.mp4","https://mirror.example.net/fly.mp4"],"group":"video"},
            {"path":"sheets/latest.pdf","link":"A-101.pdf"}
            """
        let manifest = try ManifestFixture.load(
            ManifestFixture.document(
                files: files,
                extra: """
                    ,"revision":42,"created":"2026-11-20T02:00:00Z","x-note":[1,{"a":null}],
                    "groups":[{"name":"sheets","include":["sheets/**"],"hooks":["reindex"]}]
                    """))
        let table = manifest.files
        #expect(
            table.indices.map(table.path) == [
                "models/site.ifc", "sheets/A-101.pdf", "sheets/latest.pdf", "sheets/notes.txt", "video/fly.mp4",
            ])
        #expect(table.indices.map(table.kind) == [.executable, .file, .link, .file, .file])
        #expect(table.indices.map(table.size) == [171, 700, 0, 1310, 81])
        #expect(table.indices.map { table.blobs($0).count } == [2, 1, 0, 1, 0])
        #expect(table.digest(1).hex == hex.lowercased())
        #expect(table.digest(2) == .zero)
        #expect(table.linkTarget(2) == "A-101.pdf")
        #expect(table.urls(4) == ["video/fly.mp4", "https://mirror.example.net/fly.mp4"])
        #expect(table.urls(2).isEmpty)
        #expect(table.groupName(4) == "video")
        let notes = try #require(table.blobs(3).first)
        #expect((notes.pack, notes.offset, notes.storedLength, notes.rawLength) == (0, 700, 211, 1310))
        #expect(notes.codec == .zstd)
        #expect(manifest.revision == 42)
        #expect(manifest.created == "2026-11-20T02:00:00Z")
        #expect(manifest.groups.map(\.name) == ["sheets", "video"])
        #expect(manifest.groups[0].hooks == ["reindex"])
        #expect(manifest.packs[1].urls == ["packs/b.pack"])
    }

    @Test("A manifest of no files is one [F110]")
    func empty() throws {
        #expect(try ManifestFixture.load(ManifestFixture.document(files: "")).files.count == 0)
    }
}

import Foundation
import SyncManifest
import SyncModel
import SyncPublisher
import SyncTestKit
import Testing

@Suite(.timeLimit(.minutes(10)))
struct PreviewTests {
    @Test("A dry run says what would be new, changed, unchanged and removed, and what would be compressed")
    func counts() throws {
        var set = try BaseTests.published()
        var tree = BaseTests.after
        tree.nodes["a link"] = .link("sheets/new")
        try set.replace(tree)
        let preview = try set.options.preview()
        #expect(preview.baseRevision == 1 && preview.revision == 2 && !preview.unchanged)
        #expect(preview.counts[.new] == 2 && preview.counts[.changed] == 3 && preview.counts[.removed] == 1)
        #expect(preview.counts[.unchanged] == BaseTests.before.paths.count - 4)
        #expect(preview.changes.contains { $0.kind == .removed && $0.path == BaseTests.before.paths[100] })
        #expect(preview.changes.contains { $0.kind == .new && $0.path == "sheets/new" && $0.size == 3_000 })
        // Three changed files of one content, and one new one.
        #expect(preview.encodedBytes == 5_000)
        #expect(try set.publish().newBytes == 5_000)
        #expect(try set.options.preview().unchanged)
        set.options.repack = true
        #expect(try set.options.preview().warnings.contains { $0.contains("--repack") })
    }

    @Test("Of a large file only the chunks that are new are counted")
    func chunks() throws {
        let set = try PublishedSet()
        var bytes = (0..<1_000_000).map { UInt8(truncatingIfNeeded: ($0 &* 2_654_435_761) >> 13) }
        try set.root.write(bytes, to: "in/large")
        try set.publish()
        bytes[500_000] ^= 1
        try set.root.write(bytes, to: "in/large")
        let preview = try set.options.preview()
        #expect(preview.counts[.changed] == 1)
        #expect(preview.encodedBytes > 0 && preview.encodedBytes <= 3 * UInt64(set.options.chunks.maximum))
    }

    @Test("A dry run writes nothing at all: no directory, no lock, no pack, no stamps")
    func writesNothing() throws {
        let set = try PublishedSet(AssetTree.manySmall(20))
        #expect(try set.options.preview().counts[.new] == 20)
        #expect(!FileManager.default.fileExists(atPath: set.root.path("out")))
        try set.publish()
        try set.root.write("new", to: "in/new")
        func state() throws -> [String] {
            try FileManager.default.subpathsOfDirectory(atPath: set.root.path("")).sorted().map { path in
                let attributes = try FileManager.default.attributesOfItem(atPath: set.root.path(path))
                return
                    "\(path) \(String(describing: attributes[.modificationDate])) \(String(describing: attributes[.size]))"
            }
        }
        let before = try state()
        var options = set.options
        options.stampCache = set.root.path("stamps")
        options.now = .max / 2
        _ = try options.preview()
        // Packs beside a base elsewhere are not brought.
        options.output = set.root.path("other")
        options.base = .manifest(set.root.path("out/manifest.json"))
        #expect(try options.preview().counts[.new] == 1)
        #expect(try state() == before)
    }

    @Test("A dry run says what publish does where the files are the same and the manifest is another one")
    func sameFiles() throws {
        var set = try PublishedSet(AssetTree.manySmall(5))
        try set.publish()
        #expect(try set.options.preview().unchanged)
        func check(_ sign: String, _ change: (inout PublishOptions) -> Void) throws {
            var options = set.options
            change(&options)
            let preview = try options.preview()
            let report = try set.publish(change)
            #expect(!preview.unchanged && preview.revision == report.revision && !report.unchanged, "\(sign)")
            #expect(preview.channel == report.channel, "\(sign)")
        }
        try check("in parts") { $0.isInParts = true }
        set.options.isInParts = true
        #expect(try set.options.preview().unchanged)
        try check("in one piece") { $0.isInParts = false }
        set.options.isInParts = nil
        #expect(try set.options.preview().unchanged)

        let pack = try #require(try set.manifest().packs.first)
        let path = set.root.path("out/\(pack.urls[0])")
        try FileManager.default.removeItem(atPath: path)
        try check("a missing pack") { _ in }
        try set.root.write([UInt8](repeating: 1, count: Int(pack.size)), to: "out/\(pack.urls[0])")
        try check("a damaged pack") { $0.trustsStamps = false }
        try check("another name") { ($0.project, $0.permits) = ("com.example.spire", .otherProject) }
        set.options.project = nil
        // The release is the same, and new to the channel.
        try check("a new channel") { ($0.channel, $0.keepsReleases) = ("beta", true) }
        #expect(try set.options.preview().unchanged)
    }

    @Test("A dry run lists what is as in the base, too, where that is asked for, and says no less that nothing changes")
    func listsUnchanged() throws {
        var set = try PublishedSet(AssetTree.manySmall(3))
        try set.publish()
        set.options.listsUnchanged = true
        let preview = try set.options.preview()
        #expect(preview.unchanged && preview.changes.map(\.kind) == [.unchanged, .unchanged, .unchanged])
        #expect(Set(preview.changes.map(\.path)) == Set(AssetTree.manySmall(3).paths))
        try set.root.write("new", to: "in/zzz")
        #expect(try set.options.preview().counts == [.unchanged: 3, .new: 1])
        #expect(try set.options.preview().changes.count == 4)
    }

    @Test("A file that says how to publish is not published, at any depth")
    func ownNames() throws {
        var set = try PublishedSet(AssetTree.manySmall(3))
        for path in ["settings.json", "more/settings.json", "more/other.json"] {
            try set.root.write("{}", to: "in/\(path)")
        }
        set.options.ownNames = ["more/settings.json"]
        let paths = Set(try set.options.preview().changes.map(\.path))
        #expect(!paths.contains("more/settings.json"))
        #expect(paths.isSuperset(of: ["settings.json", "more/other.json"]))
    }

    @Test("Directories that come and go are told by their bytes, in path order")
    func directories() throws {
        let set = try PublishedSet(AssetTree.manySmall(2))
        for name in ["b", "e\u{301}"] { #expect(mkdir(set.root.path("in/\(name)"), 0o755) == 0) }
        try set.publish()
        #expect(try set.options.preview().unchanged)
        for name in ["b", "e\u{301}"] { #expect(rmdir(set.root.path("in/\(name)")) == 0) }
        for name in ["a", "c", "\u{E9}"] { #expect(mkdir(set.root.path("in/\(name)"), 0o755) == 0) }
        let preview = try set.options.preview()
        #expect(!preview.unchanged)
        #expect(preview.changes.map(\.kind) == [.new, .removed, .new, .removed, .new])
        let paths = ["a/", "b/", "c/", "e\u{301}/", "\u{E9}/"]
        #expect(preview.changes.map { Array($0.path.utf8) } == paths.map { Array($0.utf8) })
    }

    @Test("A dry run is refused as the publish would be")
    func refused() throws {
        let set = try PublishedSet(AssetTree.manySmall(2))
        try set.root.link("in/out", to: "/etc/passwd")
        #expect(throws: PublishError.self) { try set.options.preview() }
    }
}

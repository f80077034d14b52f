import Foundation
import SyncModel
import SyncTestKit
import Testing

@testable import SyncPublisher

/// Files that nobody touched are not read again, and everything else is.
@Suite(.timeLimit(.minutes(10)))
struct StampCacheTests {
    static let tree = AssetTree.mixed().merged(with: .large(2, size: 200_000))

    /// A set published once, its files old enough for their times to prove something.
    static func published() throws -> PublishedSet {
        var set = try PublishedSet(tree)
        set.options.stampCache = set.root.path("stamps")
        set.options.now = Int64(Date().timeIntervalSince1970 * 1e9) + 10_000_000_000
        try set.publish()
        return set
    }

    static var fileCount: Int { tree.nodes.values.count { if case .file = $0 { true } else { false } } }

    @Test("Nothing touched: no file is read, and the manifest is the same byte for byte")
    func untouched() throws {
        let set = try Self.published()
        let before = try set.bytes(below: "out")
        let report = try set.publish()
        #expect(report.unreadFiles == Self.fileCount)
        #expect(report.unchanged)
        #expect(report.rawBytes == UInt64(Self.tree.byteCount))
        #expect(try set.bytes(below: "out") == before)
    }

    @Test("Everything is read without a cache, with one that is damaged, and when asked for", arguments: 0..<5)
    func readsAll(how: Int) throws {
        let set = try Self.published()
        var bytes = try #require(set.root.read("stamps"))
        switch how {
        case 0: try FileManager.default.removeItem(atPath: set.root.path("stamps"))
        case 1: bytes[bytes.count / 2] ^= 1
        case 2: bytes.removeLast(40)
        case 3: bytes = []
        default: break
        }
        if (1...3).contains(how) { try set.root.write(bytes, to: "stamps") }
        let report = try set.publish { $0.trustsStamps = how != 4 }
        #expect(report.unreadFiles == 0)
        #expect(report.unchanged)
        #expect(try set.publish().unreadFiles == Self.fileCount, "the cache is good again")
    }

    @Test(
        "A touched file is read, whatever was done to it",
        arguments: ["rewrite", "same size", "touch", "mode", "replace"])
    func touched(how: String) throws {
        let set = try Self.published()
        let path = "models/m0.ifc"
        let full = set.root.path("in/\(path)")
        var tree = Self.tree
        var content = try #require(tree.bytes(path))
        content[1_000] ^= 1
        switch how {
        case "rewrite": content = [1, 2, 3]
        case "touch", "mode": content[1_000] ^= 1
        default: break
        }
        if how == "replace" { unlink(full) }
        if how == "mode" { chmod(full, 0o755) } else { try set.root.write(content, to: "in/\(path)") }
        tree.nodes[path] = .file(content, executable: how == "mode")
        let report = try set.publish()
        #expect(report.unreadFiles == Self.fileCount - 1)
        #expect(try set.unpacked().nodes == tree.nodes)
    }

    @Test("Files that changed just before the walk are not remembered [racy]")
    func racy() throws {
        var set = try PublishedSet(Self.tree)
        set.options.stampCache = set.root.path("stamps")
        set.options.now = Int64(Date().timeIntervalSince1970 * 1e9)
        try set.publish()
        #expect(try set.publish().unreadFiles == 0)
    }

    @Test("What the base does not have is read, though it looks untouched")
    func otherBase() throws {
        let set = try Self.published()
        var less = Self.tree
        let gone = less.paths.filter { $0.hasPrefix("models/") }
        for path in gone { less.nodes[path] = nil }
        var other = set
        other.options.stampCache = nil
        try less.write(to: set.root, under: "less")
        try other.publish {
            $0.directory = set.root.path("less")
            $0.output = set.root.path("other")
        }
        let report = try set.publish {
            $0.base = .manifest(set.root.path("other/manifest.json"))
            $0.output = set.root.path("next")
        }
        #expect(report.unreadFiles == Self.fileCount - gone.count)
        #expect(try set.unpacked("next").nodes == Self.tree.nodes)
    }

    @Test("A cache that cannot be written is worth a warning, no more")
    func cannotWrite() throws {
        let set = try PublishedSet(Self.tree)
        let report = try set.publish {
            $0.stampCache = set.root.path("none/stamps")
            $0.now = Int64.max
        }
        #expect(report.warnings.contains { $0.contains("none/stamps") })
        #expect(try set.unpacked().nodes == Self.tree.nodes)
    }

    @Test("Repacking moves what was not read, too")
    func repack() throws {
        let set = try Self.published()
        try FileManager.default.removeItem(atPath: set.root.path("in/models"))
        var tree = Self.tree
        for path in tree.paths where path.hasPrefix("models/") { tree.nodes[path] = nil }
        let report = try set.publish { $0.repack = true }
        #expect(report.unreadFiles == Self.fileCount - 2)
        #expect(try set.unpacked().nodes == tree.nodes)
    }
}

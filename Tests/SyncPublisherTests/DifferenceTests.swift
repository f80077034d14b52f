import SyncPublisher
import SyncTestKit
import Testing

@testable import SyncManifest

@Suite("What is different between two manifests", .timeLimit(.minutes(10)))
struct DifferenceTests {
    typealias Change = ManifestDifference.Change

    @Test("Added, changed, renamed and removed, with the bytes that an update stores anew")
    func kinds() throws {
        let set = try PublishedSet()
        for (path, text) in [("a", "one"), ("b/c", "two"), ("b/d", "three"), ("gone", "four"), ("z", "five")] {
            try set.root.write(text, to: "in/\(path)")
        }
        try set.root.link("in/link", to: "a")
        try set.publish { $0.deltas = false }
        let before = try set.manifest()
        #expect(ManifestDifference(from: before, to: before).isEmpty)
        var tree = AssetTree()
        tree.nodes["a"] = .file(Array("one".utf8), executable: true)
        tree.nodes["b/c"] = .file(Array("changed".utf8), executable: false)
        tree.nodes["b/moved"] = .file(Array("three".utf8), executable: false)
        tree.nodes["copy"] = .file(Array("five".utf8), executable: false)
        tree.nodes["link"] = .link("b/c")
        tree.nodes["new"] = .file(Array("quite new".utf8), executable: false)
        tree.nodes["new too"] = .file(Array("quite new".utf8), executable: false)
        tree.nodes["z"] = .file(Array("five".utf8), executable: false)
        try set.replace(tree)
        try set.publish { $0.deltas = false }
        let difference = ManifestDifference(from: before, to: try set.manifest())
        #expect(
            difference.changes == [
                Change(kind: .changed, path: "a", size: 3, aspects: [.mode]),
                Change(kind: .changed, path: "b/c", size: 7, fetch: 7, aspects: [.content]),
                Change(kind: .renamed, path: "b/moved", from: "b/d", size: 5),
                Change(kind: .added, path: "copy", size: 4), Change(kind: .removed, path: "gone", size: 4),
                Change(kind: .changed, path: "link", size: 0, aspects: [.target]),
                Change(kind: .added, path: "new", size: 9, fetch: 9), Change(kind: .added, path: "new too", size: 9),
            ])
        #expect(difference.unchanged == 1 && difference.fetchBytes == 16)
    }

    @Test("Of a large file only new chunks count, and a delta where there is one")
    func chunks() throws {
        let set = try PublishedSet()
        var bytes = (0..<1_000_000).map { UInt8(truncatingIfNeeded: ($0 &* 2_654_435_761) >> 13) }
        try set.root.write(bytes, to: "in/large")
        try set.publish()
        let before = try set.manifest()
        bytes[500_000] ^= 1
        try set.root.write(bytes, to: "in/large")
        let whole = try set.publish { $0.deltas = false }
        let plain = ManifestDifference(from: before, to: try set.manifest())
        #expect(plain.fetchBytes == whole.newBytes && whole.newBytes > 0)
        try set.publish { $0.base = .none }
        let first = try set.manifest()
        bytes[500_000] ^= 3
        try set.root.write(bytes, to: "in/large")
        let report = try set.publish()
        try #require(report.deltas > 0)
        let fetched = ManifestDifference(from: first, to: try set.manifest()).fetchBytes
        #expect(fetched > 0 && fetched < report.newBytes)
    }
}

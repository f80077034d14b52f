import Foundation
import SyncEngine
import SyncModel
import SyncPlugins
import SyncStore
import SyncTestKit
import Testing

@Suite("What a process did for a run", .timeLimit(.minutes(10)))
struct SummaryTests {
    private let scene: Scene

    init() throws { scene = try Scene() }

    private static func number(_ event: [String: Any], _ key: String) -> UInt64? {
        (event[key] as? NSNumber)?.uint64Value
    }

    private static func summary(_ outcome: Scene.Outcome) throws -> [String: Any] {
        let events = outcome.events.filter { $0["event"] as? String == "run.summary" }
        #expect(events.count == 1)
        return try #require(events.first)
    }

    @Test("Bytes and requests by server are all there were; files by directory are all that were placed")
    func whole() throws {
        var tree = AssetTree()
        for name in ["maps/a", "maps/deep/b", "textures/c", "top"] {
            tree.addFile(name, size: 4_000, seed: UInt64(name.count))
        }
        tree.nodes["maps/latest"] = .link("a")
        try scene.publish(tree)
        let outcome = try scene.pull()
        let report = try #require(outcome.report)
        let summary = try Self.summary(outcome)
        #expect(Self.number(summary, "received") == report.bytes.received)
        #expect(Self.number(summary, "requests") == report.requests)
        let origins = try #require(summary["origins"] as? [[String: Any]])
        #expect(origins.map { $0["origin"] as? String } == ["http://assets.test"])
        #expect(Self.number(try #require(origins.first), "bytes") == report.bytes.received)
        #expect(summary["other_bytes"] == nil && summary["stopped"] == nil)
        let directories = try #require(summary["directories"] as? [[String: Any]])
        let files = Dictionary(
            directories.compactMap { entry in (entry["path"] as? String).map { ($0, entry["files"] as? Int ?? 0) } }
        ) { $0 + $1 }
        #expect(files == ["maps": 3, "textures": 1, ".": 1])
        #expect(directories.reduce(UInt64(0)) { $0 + (Self.number($1, "bytes") ?? 0) } == 16_000)

        let again = try Self.summary(try scene.pull())
        #expect((again["directories"] as? [Any])?.isEmpty == true)
    }

    @Test(
        "Work that is stopped is told, too; both pieces together are everything, and so are the session's totals [S135]"
    )
    func pieces() throws {
        var tree = AssetTree()
        tree.addFile("big", size: 3_000_000, seed: 21)
        let set = try scene.publish(tree) { $0.looseAbove = 0 }
        let stop = StopRequest()
        for object in set.packs + set.loose {
            scene.transport.script(Scene.base + object.name, .stall(after: 1_500_000))
        }
        scene.transport.onBytes { if $0 >= UInt64(set.manifest.count) + 1_500_000 { stop.stop(.policy) } }
        let first = try scene.pull(stop: stop)
        scene.transport.onBytes { _ in }
        let stopped = try Self.summary(first)
        #expect(stopped["stopped"] as? String == "policy")
        let origin = try #require((stopped["origins"] as? [[String: Any]])?.first)
        // Of a transfer that was cut off only the sum is known; with one server it is that server's.
        #expect(Self.number(origin, "bytes") == Self.number(stopped, "received"))
        #expect(Self.number(origin, "failed") == 0)

        let second = try Self.summary(try scene.pull())
        let pieces = [stopped, second]
        let totals = try #require(try scene.store.session("com.example.tower")).totals
        #expect(totals.ok == 1 && totals.files == 1)
        #expect(pieces.reduce(UInt64(0)) { $0 + (Self.number($1, "received") ?? 0) } == totals.received)
        #expect(pieces.reduce(UInt64(0)) { $0 + (Self.number($1, "requests") ?? 0) } == totals.requests)
    }

    @Test("Files that were in place before the disk turned out too small are in the summary and in the totals")
    func tooLarge() throws {
        var tree = AssetTree()
        tree.addFile("a", size: 40_000, seed: 3)
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        tree.nodes["copy"] = tree.nodes["a"]
        let set = try scene.publish(tree, revision: 2)
        var document = try #require(try JSONSerialization.jsonObject(with: Data(set.manifest)) as? [String: Any])
        let huge: [String: Any] = [
            "path": "huge", "size": 1 << 60, "sha256": String(repeating: "ab", count: 32), "urls": ["huge"],
        ]
        document["files"] = (document["files"] as? [[String: Any]] ?? []) + [huge]
        let manifest = try JSONSerialization.data(withJSONObject: document, options: [.sortedKeys])
        scene.transport.serve(Array(manifest), at: Scene.base + "manifest.json")
        let outcome = try scene.pull()
        #expect(outcome.status == .ioError && outcome.count("task.installed") == 1)
        let summary = try Self.summary(outcome)
        #expect((summary["files"] as? [String: Int])?["reused"] == 1)
        #expect(try scene.store.session("com.example.tower")?.totals.files == 2)
    }

    @Test("A server that failed is told beside the one that delivered; bytes nobody can be given are told as such")
    func servers() throws {
        var tree = AssetTree()
        tree.addFile("a", size: 40_000, seed: 3)
        let set = try scene.publish(tree) { $0.looseAbove = 0 }
        let object = try #require((set.packs + set.loose).first)
        scene.transport.script(Scene.base + object.name, .cut(after: 10_000, .badAnswer))
        let outcome = try scene.pull()
        let summary = try Self.summary(outcome)
        let origins = try #require(summary["origins"] as? [[String: Any]])
        let told = origins.reduce(UInt64(0)) { $0 + (Self.number($1, "bytes") ?? 0) }
        #expect(told + (Self.number(summary, "other_bytes") ?? 0) == Self.number(summary, "received"))
    }
}

import Foundation
import SyncEngine
import SyncManifest
import SyncModel
import SyncTestKit
import Testing

@Suite("A plan says what the pull then does", .timeLimit(.minutes(10)))
struct PlanIsWhatHappensTests {
    private let scene: Scene

    init() throws { scene = try Scene() }

    private static func tree(_ names: [String]) -> AssetTree {
        var tree = AssetTree()
        for (seed, name) in names.enumerated() { tree.addFile(name, size: 900, seed: UInt64(seed + 1)) }
        return tree
    }

    /// The lines of `plan -v`.
    private func lines(prune: Bool = false) throws -> [String] {
        var options = scene.options()
        options.prune = prune
        var lines: [String] = []
        _ = try scene.engine().plan(options) { file in
            guard file.action != .unchanged else { return }
            let here = file.from.map { " from \($0)" } ?? (file.here > 0 ? " partly here" : "")
            lines.append("\(file.action.rawValue) \(file.path)\(here)\(file.reason == nil ? "" : " !")")
        }
        return lines
    }

    /// The value of a key in the last event of a pull.
    private func last(_ outcome: Scene.Outcome, _ key: String) -> Int? { outcome.events.last?[key] as? Int }

    @Test("What was deleted or edited here is planned as fetched, and is fetched")
    func damaged() throws {
        let tree = Self.tree(["deleted", "edited", "kept", "shortened", "touched"])
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        unlink(scene.root.path("dest/deleted"))
        var bytes = try #require(tree.bytes("edited"))
        bytes[0] ^= 1
        try scene.root.write(bytes, to: "dest/edited")
        try scene.root.write("x", to: "dest/shortened")
        try FileManager.default.setAttributes(
            [.modificationDate: Date(timeIntervalSince1970: 1_000_000_000)],
            ofItemAtPath: scene.root.path("dest/touched"))
        #expect(try lines() == ["new deleted", "changed edited", "changed shortened"])
        let plan = try scene.engine().plan(scene.options())
        #expect(plan.reusedBytes == 0 && plan.wanted == 3 && plan.fetch.fetchBytes > 0)
        let outcome = try scene.pull()
        #expect(outcome.requests.count == plan.requests.count && !plan.requests.isEmpty)
        #expect(outcome.report?.files.installed == 3 && outcome.report?.bytes.reused == 0)
        #expect(scene.problems(tree) == [])
    }

    @Test("Of two local copies the one that is still right is used, and planned")
    func secondCopy() throws {
        var tree = AssetTree()
        for name in ["first", "second"] { tree.addFile(name, size: 5_000, seed: 1) }
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        try scene.root.write("x", to: "dest/first")
        tree.addFile("third", size: 5_000, seed: 1)
        try scene.publish(tree, revision: 2)
        #expect(try lines() == ["changed first from second", "new third from second"])
        let plan = try scene.engine().plan(scene.options())
        #expect(plan.reusedBytes == 10_000 && plan.requests.isEmpty)
        let outcome = try scene.pull()
        #expect(outcome.requests.isEmpty && outcome.report?.files.reused == 2)
        #expect(scene.problems(tree) == [])
    }

    @Test("A directory of earlier files gives way to a file, with or without --prune, and the plan says so")
    func directoryGivesWay() throws {
        try scene.publish(Self.tree(["a", "c/in/side", "c/x", "d"]))
        #expect(try scene.pull().status == .done)
        let next = Self.tree(["a", "c", "d"])
        try scene.publish(next, revision: 2)
        #expect(try lines() == ["changed c", "removed c/in/side", "removed c/x", "changed d"])
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(outcome.values("path", of: "task.removed") == ["c/in/side", "c/x"])
        #expect(scene.problems(next) == [])
    }

    @Test("One with something of somebody else's in it stays, and the plan says that, too")
    func directoryStays() throws {
        try scene.publish(Self.tree(["a", "c/x"]))
        #expect(try scene.pull().status == .done)
        try scene.root.write("mine", to: "dest/c/mine")
        try scene.publish(Self.tree(["a", "c"]), revision: 2)
        #expect(try lines() == ["blocked c !", "removed c/x"])
        let outcome = try scene.pull()
        #expect(outcome.status == .incomplete && outcome.values("path", of: "task.failed") == ["c"])
        #expect(scene.root.read("dest/c/mine") == Array("mine".utf8))
    }

    @Test("What somebody has edited or removed is not planned to go, and does not go")
    func editedObsolete() throws {
        try scene.publish(Self.tree(["a", "edited", "gone", "o1", "o2", "p1", "p2", "p3"]))
        #expect(try scene.pull().status == .done)
        try scene.root.write("mine", to: "dest/edited")
        unlink(scene.root.path("dest/gone"))
        try FileManager.default.setAttributes(
            [.modificationDate: Date(timeIntervalSince1970: 1_000_000_000)], ofItemAtPath: scene.root.path("dest/o2"))
        var next = Self.tree(["a", "edited", "gone", "o1", "o2", "p1", "p2", "p3"])
        for name in ["edited", "gone", "o1", "o2"] { next.nodes[name] = nil }
        try scene.publish(next, revision: 2)
        #expect(try lines() == ["obsolete o1", "obsolete o2"])
        #expect(try lines(prune: true) == ["removed o1", "removed o2"])
        let kept = try scene.pull()
        #expect(last(kept, "obsolete") == 2)
        // The same again, when there is nothing else to do.
        #expect(try last(scene.pull(), "obsolete") == 2)
        let outcome = try scene.pull { $0.prune = true }
        #expect(outcome.status == .done && outcome.values("path", of: "task.removed") == ["o1", "o2"])
        #expect(last(outcome, "obsolete") == nil)
        #expect(scene.root.read("dest/edited") == Array("mine".utf8))
    }

    @Test("Files that no pull had put there as they were are counted before and after they are replaced")
    func foreign() throws {
        try scene.root.write("mine", to: "dest/a")
        try scene.root.link("dest/b", to: "elsewhere")
        let tree = Self.tree(["a", "b", "c", "d"])
        try scene.publish(tree)
        #expect(try scene.engine().plan(scene.options()).replaced == 2)
        let first = try scene.pull()
        #expect(first.status == .done && last(first, "replaced") == 2)
        // An update replaces what is ours; an edit is somebody's.
        var next = tree
        next.addFile("c", size: 77, seed: 44)
        next.addFile("d", size: 78, seed: 45)
        try scene.publish(next, revision: 2)
        try scene.root.write("edited", to: "dest/d")
        #expect(try scene.engine().plan(scene.options()).replaced == 1)
        let second = try scene.pull()
        #expect(second.report?.files.installed == 2 && last(second, "replaced") == 1)
        #expect(try last(scene.pull(), "replaced") == nil)
    }

    @Test("Verifying counts files that the manifest does not name, and they are no fault")
    func extra() throws {
        let tree = Self.tree(["a", "b/c"])
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        #expect(try scene.engine().verify(scene.options()).extra == 0)
        try scene.root.write("x", to: "dest/b/mine")
        try scene.root.write("x", to: "dest/other/deep/mine")
        try scene.root.link("dest/link", to: "b")
        let report = try scene.engine().verify(scene.options())
        #expect(report.isWhole && report.extra == 3)
        #expect(report.extraPaths == ["b/mine", "link", "other/deep/mine"])
    }
}

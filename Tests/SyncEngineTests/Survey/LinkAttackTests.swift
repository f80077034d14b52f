import Foundation
import SyncEngine
import SyncFiles
import SyncModel
import SyncTestKit
import Testing

@Suite("Links planted in the destination", .timeLimit(.minutes(10)))
struct LinkAttackTests {
    private let scene: Scene
    private let victim: AssetTree

    init() throws {
        scene = try Scene()
        // Looks like the destination inside, so that a writer or remover who follows does harm.
        victim = Self.tree(tail: "old")
        try victim.write(to: scene.root, under: "outside")
    }

    private static func tree(tail: String) -> AssetTree {
        var tree = AssetTree()
        for name in ["", "d1/", "d1/d2/", "d1/d2/d3/", "d1/d2/d3/d4/", "d1/d2/d3/d4/d5/"] {
            tree.addText(name + "file", name + tail)
            tree.addText(name + "second", name + tail + "2")
        }
        return tree
    }

    private func expectVictimUntouched(_ location: SourceLocation = #_sourceLocation) {
        #expect(victim.problems(in: scene.root.path("outside")) == [], sourceLocation: location)
        #expect(
            FileManager.default.subpaths(atPath: scene.root.path("outside"))?.count == 12 + 5, sourceLocation: location)
    }

    /// Puts a link where the directory of a depth is, to the same directory of the victim.
    private func plant(depth: Int) throws {
        let path = (1...depth).map { "d\($0)" }.joined(separator: "/")
        try? FileManager.default.removeItem(atPath: scene.root.path("dest/\(path)"))
        try scene.root.link("dest/\(path)", to: scene.root.path("outside/\(path)"))
    }

    @Test("A directory that is a link is not written through, at any depth [V5]", arguments: 1...5)
    func directory(depth: Int) throws {
        try scene.root.write("", to: "dest/.keep")
        try plant(depth: depth)
        try scene.publish(Self.tree(tail: "new"))
        let outcome = try scene.pull()
        #expect(outcome.report?.result == .partial)
        #expect(outcome.count("task.failed") == 2 * (6 - depth))
        expectVictimUntouched()
    }

    @Test("A link that is named like a staged directory is not filled, and not moved into the tree [V5]")
    func staging() throws {
        let tree = Self.tree(tail: "new")
        try scene.publish(tree)
        for path in ["d1", "d1/d2/d3/d4/d5"] {
            let key = Array(path.utf8).withUnsafeBufferPointer { Staging.Directory(path: $0).key }
            let digits = String(key, radix: 16)
            let name = "dir-" + String(repeating: "0", count: 16 - digits.utf8.count) + digits
            try scene.root.link("dest/.syncagent/staging/\(name)", to: scene.root.path("outside/\(path)"))
        }
        #expect(chmod(scene.root.path("dest/.syncagent"), 0o700) == 0)
        #expect(try scene.pull().status == .done)
        #expect(scene.problems(tree) == [])
        expectVictimUntouched()
    }

    @Test("A state directory that others may write to is refused before anything is fetched")
    func writableState() throws {
        try scene.publish(Self.tree(tail: "new"))
        #expect(try scene.pull().status == .done)
        #expect(chmod(scene.root.path("dest/.syncagent"), 0o777) == 0)
        let outcome = try scene.pull()
        #expect(outcome.error?.status == .cannotCreate && outcome.requests.isEmpty)
        #expect(outcome.error?.message.contains("chmod go-w") == true)
    }

    @Test("A link in a file's place is replaced, what it pointed to is untouched [V5]", arguments: 0...5)
    func final(depth: Int) throws {
        let path = (0..<depth).map { "d\($0 + 1)/" }.joined() + "file"
        try scene.root.write("", to: "dest/.keep")
        try scene.root.link("dest/\(path)", to: scene.root.path("outside/\(path)"))
        let tree = Self.tree(tail: "new")
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        #expect(scene.problems(tree) == [".keep: foreign"])
        expectVictimUntouched()
    }

    @Test(
        "A link that comes between two pulls is not followed by update, prune or repair [V5 V10 V60]", arguments: 1...5)
    func between(depth: Int) throws {
        let tree = Self.tree(tail: "old")
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        try plant(depth: depth)
        try scene.publish(AssetTree(tree.nodes.filter { !$0.key.hasSuffix("second") }), revision: 2)
        _ = try scene.pull { ($0.prune, $0.force) = (true, true) }
        expectVictimUntouched()
        try scene.publish(Self.tree(tail: "new"), revision: 3)
        _ = try scene.pull()
        expectVictimUntouched()
    }

    @Test("When bytes are wrong as well, the error path does not follow links either [V60]", arguments: 1...5)
    func errorPath(depth: Int) throws {
        try scene.root.write("", to: "dest/.keep")
        try plant(depth: depth)
        let set = try scene.publish(Self.tree(tail: "new"))
        for pack in set.packs { scene.transport.serve(pack.bytes.map { $0 ^ 1 }, at: Scene.base + pack.name) }
        let outcome = try scene.pull()
        #expect(outcome.report?.files.installed == 0)
        expectVictimUntouched()
    }

    @Test(
        "Links inside the state directory are not followed [V5]",
        arguments: ["staging", "staging/0", "index", "index.log", "lock"])
    func state(name: String) throws {
        let tree = Self.tree(tail: "new")
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        try? FileManager.default.removeItem(atPath: scene.root.path("dest/.syncagent/\(name)"))
        try scene.root.link(
            "dest/.syncagent/\(name)", to: scene.root.path(name.hasPrefix("staging") ? "outside/d1" : "outside/file"))
        unlink(scene.root.path("dest/file"))
        _ = try scene.pull()
        expectVictimUntouched()
    }
}

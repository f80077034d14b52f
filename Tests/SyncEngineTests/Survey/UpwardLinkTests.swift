import Foundation
import SyncEngine
import SyncModel
import SyncTestKit
import Testing

@Suite("Links are judged against the tree that results", .timeLimit(.minutes(10)))
struct UpwardLinkTests {
    private let scene: Scene

    init() throws {
        scene = try Scene()
        try scene.root.write("secret", to: "out")
    }

    /// `x` leads to `out` beside `a` by its text, and out of the tree where `a`, `b` and `c` are links to `.`.
    private static func harmless() -> AssetTree {
        var tree = AssetTree()
        tree.addText("a/b/c/file", "file")
        tree.addText("kept", "kept")
        tree.nodes["x"] = .link("a/b/c/../../../out")
        tree.nodes["d/safe"] = .link("e/../kept")
        tree.addText("d/e/file", "file")
        return tree
    }

    private static func composed() -> AssetTree {
        var tree = AssetTree()
        for name in ["a", "b", "c"] { tree.nodes[name] = .link(".") }
        tree.addText("kept", "kept")
        return tree
    }

    private func reaches(_ path: String) -> Bool {
        (try? String(contentsOfFile: scene.root.path("dest/" + path), encoding: .utf8)) == "secret"
    }

    @Test("A link of an earlier revision that would leave the tree through new links is removed [V4]")
    func composition() throws {
        try scene.publish(Self.harmless())
        #expect(try scene.pull().status == .done)
        try scene.publish(Self.composed(), revision: 2)
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(outcome.values("path", of: "task.removed").contains("x"))
        #expect(!reaches("x"))
        // The others still lead where their text says.
        #expect(
            try FileManager.default.destinationOfSymbolicLink(atPath: scene.root.path("dest/d/safe")) == "e/../kept")
        #expect(try scene.pull().report?.files.unchanged == 4)
    }

    @Test("One that the manifest names and the run leaves as it was is judged, too")
    func unselected() throws {
        try scene.publish(Self.harmless())
        #expect(try scene.pull().status == .done)
        var tree = Self.composed()
        tree.nodes["x"] = .link("kept")
        try scene.publish(tree, revision: 2) { $0.groups = [("links", ["a", "b", "c"])] }
        let outcome = try scene.pull { $0.groups = ["links"] }
        #expect(outcome.status == .done)
        #expect(outcome.values("path", of: "task.removed").contains("x") && !reaches("x"))
    }

    @Test("One that is not ours to remove stops the run before anything is placed")
    func notOurs() throws {
        try scene.root.link("dest/x", to: "a/b/c/../../../out")
        try scene.publish(Self.harmless())
        #expect(try scene.pull().status == .done)
        try scene.publish(Self.composed(), revision: 2)
        let outcome = try scene.pull()
        #expect(outcome.error?.status == .refused)
        #expect(outcome.error?.message.contains("the link x") == true)
        #expect(!reaches("x"))
        #expect(unlink(scene.root.path("dest/x")) == 0)
        #expect(try scene.pull().status == .done)
    }

    @Test("A new one that goes up behind somebody's link is not placed, and everything else is")
    func behindForeignLink() throws {
        try scene.root.write("", to: "elsewhere/deep/keep")
        try scene.root.link("dest/a", to: scene.root.path("elsewhere/deep"))
        var tree = AssetTree()
        tree.addText("a/file", "file")
        tree.addText("kept", "kept")
        tree.nodes["x"] = .link("a/../out")
        try scene.publish(tree)
        let outcome = try scene.pull()
        #expect(outcome.report?.result == .partial)
        #expect(Set(outcome.values("path", of: "task.failed")) == ["a/file", "x"])
        #expect(!FileManager.default.fileExists(atPath: scene.root.path("dest/x")))
        #expect(scene.root.read("dest/kept") == Array("kept".utf8))
    }
}

import Foundation
import SyncEngine
import SyncFiles
import SyncManifest
import SyncModel
import SyncTestKit
import Testing

@Suite("What stands in the destination already", .timeLimit(.minutes(10)))
struct DestinationStateTests {
    private let scene: Scene

    init() throws { scene = try Scene() }

    private static func tree(_ names: [String]) -> AssetTree {
        var tree = AssetTree()
        for (number, name) in names.enumerated() { tree.addFile(name, size: 600, seed: UInt64(number + 1)) }
        return tree
    }

    private func publishAndPull(_ tree: AssetTree, revision: Int = 1) throws {
        try scene.publish(tree, revision: revision)
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
    }

    private func replace(_ path: String, _ text: String) throws { try scene.root.write(text, to: "dest/\(path)") }

    // MARK: Mending

    @Test(
        "A file that somebody edited is restored, also one of the same size and time [F111]", arguments: [false, true])
    func edited(keepsTime: Bool) throws {
        let tree = Self.tree(["a/x", "b"])
        try publishAndPull(tree)
        let path = scene.root.path("dest/a/x")
        let date = try FileManager.default.attributesOfItem(atPath: path)[.modificationDate]
        try replace("a/x", String(repeating: "e", count: 600))
        if keepsTime, let date { try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: path) }
        let outcome = try scene.pull()
        #expect(outcome.status == .done && outcome.report?.files.installed == 1)
        #expect(scene.problems(tree) == [])
    }

    @Test("A file that somebody deleted is restored, and nothing else is fetched [F111]")
    func deleted() throws {
        let tree = Self.tree(["a/x", "b"])
        try publishAndPull(tree)
        try FileManager.default.removeItem(atPath: scene.root.path("dest/a"))
        let outcome = try scene.pull()
        #expect(outcome.report?.files.installed == 1 && outcome.received == 600)
        #expect(scene.problems(tree) == [])
    }

    @Test("A lost execute bit is mended without a request, and one too many is taken away")
    func mode() throws {
        var tree = Self.tree(["plain"])
        tree.addFile("run", size: 50, seed: 77, executable: true)
        try publishAndPull(tree)
        chmod(scene.root.path("dest/run"), 0o644)
        chmod(scene.root.path("dest/plain"), 0o755)
        let outcome = try scene.pull()
        #expect(outcome.status == .done && outcome.requests.isEmpty)
        #expect(scene.problems(tree) == [])
    }

    @Test("Links come, change, and trade places with files")
    func links() throws {
        var tree = Self.tree(["d/a", "d/b"])
        tree.nodes["link"] = .link("d/a")
        tree.nodes["turns"] = .link("d/b")
        try publishAndPull(tree)
        #expect(scene.problems(tree) == [])
        tree.nodes["link"] = .link("d/b")
        tree.addFile("turns", size: 20, seed: 9)
        tree.nodes["d/b"] = .link("a")
        try publishAndPull(tree, revision: 2)
        #expect(scene.problems(tree) == [])
        unlink(scene.root.path("dest/link"))
        try scene.root.link("dest/link", to: "nowhere")
        #expect(try scene.pull().requests.isEmpty)
        #expect(scene.problems(tree) == [])
    }

    @Test("What a killed run placed goes, too, when the manifest that is installed is pulled with --prune")
    func killedRun() throws {
        let tree = Self.tree(["a", "b"])
        try publishAndPull(tree)
        let destination = try Destination.open(path: scene.destination, create: false)
        try scene.root.write("new", to: "dest/c")
        let log = try IndexLog(destination)
        let digest = try Scene.digest(Array("new".utf8))
        try log.append([IndexLog.Entry(path: Array("c".utf8), digest: digest, kind: .file)])
        let outcome = try scene.pull { $0.prune = true }
        #expect(outcome.status == .done && outcome.values("path", of: "task.removed") == ["c"])
        #expect(scene.problems(tree) == [])
    }

    @Test("Files that were here before the first pull count as here, and are never pruned")
    func foundHere() throws {
        let tree = Self.tree(["a", "b", "c"])
        try replace("other", "mine")
        try tree.write(to: scene.root, under: "dest")
        try scene.publish(tree)
        let first = try scene.pull()
        #expect(first.requests.isEmpty && first.report?.files.unchanged == 3)
        let smaller = AssetTree(tree.nodes.filter { $0.key != "a" })
        try scene.publish(smaller, revision: 2)
        #expect(try scene.pull { ($0.prune, $0.force) = (true, true) }.report?.files.removed == 0)
        #expect(scene.root.read("dest/a") != nil && scene.root.read("dest/other") != nil)
    }

    // MARK: Deletion

    @Test("What the manifest no longer names stays, unless --prune says otherwise [F112]")
    func prune() throws {
        let tree = Self.tree(["keep/a", "keep/b", "keep/c", "gone/deep/x", "keep/d"])
        try publishAndPull(tree)
        let next = AssetTree(tree.nodes.filter { $0.key != "gone/deep/x" && $0.key != "keep/d" })
        try publishAndPull(next, revision: 2)
        #expect(scene.problems(tree) == [])
        try replace("keep/mine", "mine")
        let outcome = try scene.pull { $0.prune = true }
        #expect(outcome.status == .done && outcome.report?.files.removed == 2)
        #expect(Set(outcome.values("path", of: "task.removed")) == ["gone/deep/x", "keep/d"])
        #expect(scene.problems(next) == ["keep/mine: foreign"])
        #expect(!FileManager.default.fileExists(atPath: scene.root.path("dest/gone")))
        #expect(try scene.pull { $0.prune = true }.report?.files.removed == 0)
    }

    @Test("An obsolete file that somebody edited is theirs now")
    func pruneEdited() throws {
        let tree = Self.tree(["a", "b", "c"])
        try publishAndPull(tree)
        try replace("a", "mine")
        try scene.publish(AssetTree(tree.nodes.filter { $0.key != "a" }), revision: 2)
        let outcome = try scene.pull { $0.prune = true }
        #expect(outcome.status == .done && outcome.report?.files.removed == 0)
        #expect(scene.root.read("dest/a") == Array("mine".utf8))
    }

    @Test("Removing more than half is refused with 77, and nothing is changed; --force does it [F112]")
    func moreThanHalf() throws {
        let tree = Self.tree(["a", "b", "c", "d"])
        try publishAndPull(tree)
        var next = AssetTree(tree.nodes.filter { $0.key == "a" })
        next.addFile("new", size: 30, seed: 40)
        try scene.publish(next, revision: 2)
        let refused = try scene.pull { $0.prune = true }
        #expect(refused.status == .refused && refused.error?.message.contains("3 of 4") == true)
        #expect(scene.problems(tree) == [] && refused.requests.isEmpty)
        let forced = try scene.pull { ($0.prune, $0.force) = (true, true) }
        #expect(forced.status == .done && forced.report?.files.removed == 3)
        #expect(scene.problems(next) == [])
    }

    @Test("When a file does not come, --prune still removes only what the manifest does not name")
    func pruneWithFailure() throws {
        let tree = Self.tree(["a", "b", "c", "d"])
        try publishAndPull(tree)
        var next = AssetTree(tree.nodes.filter { $0.key != "a" })
        next.addFile("new", size: 700, seed: 41)
        let set = try scene.publish(next, revision: 2)
        for pack in set.packs { scene.transport.remove(Scene.base + pack.name) }
        let outcome = try scene.pull { $0.prune = true }
        #expect(outcome.report?.files.failed == 1)
        #expect(scene.problems(next, partial: true) == [])
    }

    // MARK: Files and directories that trade places

    @Test("A file becomes a directory, and a directory a file, in one pull each")
    func trading() throws {
        let first = Self.tree(["a", "b/x/1", "b/x/2", "c"])
        try publishAndPull(first)
        var second = Self.tree(["a/sub/file", "b"])
        second.nodes["c"] = first.nodes["c"]
        try publishAndPull(second, revision: 2)
        #expect(scene.problems(second) == [])
        try publishAndPull(first, revision: 3)
        #expect(scene.problems(first) == [])
    }

    @Test("A directory with somebody's file in it is not removed for a file of ours")
    func tradingBlocked() throws {
        try publishAndPull(Self.tree(["b/x", "c"]))
        try replace("b/mine", "mine")
        try scene.publish(Self.tree(["b", "c"]), revision: 2)
        let outcome = try scene.pull()
        #expect(outcome.status == .incomplete)
        #expect(outcome.values("path", of: "task.failed") == ["b"])
        #expect(scene.root.read("dest/b/mine") == Array("mine".utf8))
    }

    @Test("A directory or a pipe in the way fails that file by name and no other [F070]", arguments: [false, true])
    func inTheWay(isPipe: Bool) throws {
        let tree = Self.tree(["a", "d/b", "d/c"])
        try scene.root.write("x", to: "dest/d/keep")
        if isPipe {
            #expect(mkfifo(scene.root.path("dest/d/b"), 0o600) == 0)
        } else {
            try scene.root.write("x", to: "dest/d/b/mine")
        }
        try scene.publish(tree)
        let outcome = try scene.pull()
        #expect(outcome.status == .incomplete && outcome.report?.files.installed == 2)
        #expect(outcome.values("path", of: "task.failed") == ["d/b"])
        #expect(outcome.values("reason", of: "task.failed").first?.contains("move it away") == true)
        #expect(scene.root.read("dest/a") == tree.bytes("a"))
    }

    @Test("A .syncagent that is no directory is refused by name, and a plan says so", arguments: ["file", "link"])
    func noState(what: String) throws {
        try scene.publish(Self.tree(["a"]))
        if what == "file" {
            try scene.root.write("mine", to: "dest/.syncagent")
        } else {
            try scene.root.write("x", to: "elsewhere/x")
            try scene.root.link("dest/.syncagent", to: "../elsewhere")
        }
        let words = "dest/.syncagent: it is not a directory, and syncagent needs one of that name there; move it away"
        let outcome = try scene.pull()
        #expect(outcome.status == .cannotCreate && outcome.error?.message.hasSuffix(words) == true)
        let engine = scene.engine()
        let error = #expect(throws: EngineError.self) { try engine.plan(scene.options()) }
        #expect(error?.status == .cannotCreate && error?.message.hasSuffix(words) == true)
    }

    @Test(
        "What is somebody's where a directory must be is planned as blocked, fails what is below it, and stays",
        arguments: ["a file", "a symbolic link", "pipe"])
    func noDirectory(what: String) throws {
        let tree = Self.tree(["a", "d/e/b", "d/e/c"])
        try scene.root.write("mine", to: "dest/mine")
        let place = scene.root.path("dest/d")
        switch what {
        case "a file": try scene.root.write("mine", to: "dest/d")
        case "a symbolic link": try scene.root.link("dest/d", to: "..")
        default: #expect(mkfifo(place, 0o600) == 0)
        }
        try scene.publish(tree)
        let plan = try scene.engine().plan(scene.options())
        #expect(plan.status == .incomplete && plan.wanted == 1 && plan.obstructed.count == 2)
        #expect(plan.obstructed.allSatisfy { $0.contains("a directory must be at d, ") && $0.contains(what) })
        for wanted in [1, 0] {
            let outcome = try scene.pull()
            #expect(outcome.status == .incomplete && outcome.report?.files.installed == wanted)
            // With the manifest, the first time; each of the two files has 600 bytes.
            #expect(outcome.received < UInt64(wanted * 600 + 1_200), "nothing is fetched that cannot be placed")
            #expect(Set(outcome.values("path", of: "task.failed")) == ["d/e/b", "d/e/c"])
        }
        #expect(!FileManager.default.fileExists(atPath: scene.root.path("e")))
        #expect(scene.staged == [])
        try FileManager.default.removeItem(atPath: place)
        #expect(try scene.pull().status == .done)
    }

    @Test("A file of an earlier pull gives way to a directory, and the plan knows it")
    func formerFile() throws {
        try publishAndPull(Self.tree(["a", "d"]))
        let tree = Self.tree(["a", "d/e/b"])
        try scene.publish(tree, revision: 2)
        let plan = try scene.engine().plan(scene.options())
        #expect(plan.status == .done && plan.obstructed == [] && plan.wanted == 1)
        #expect(try scene.pull().status == .done)
        #expect(scene.problems(tree) == [])
    }
}

import Foundation
import SyncEngine
import SyncFiles
import SyncModel
import SyncSystem
import SyncTestKit
import Synchronization
import Testing

@Suite("What a pull removes or replaces, and what is kept of it", .timeLimit(.minutes(10)))
struct BackupTests {
    private let scene: Scene

    init() throws { scene = try Scene() }

    private static func tree(_ names: [String], seed: UInt64 = 1) -> AssetTree {
        var tree = AssetTree()
        for (number, name) in names.enumerated() { tree.addFile(name, size: 600, seed: seed + UInt64(number)) }
        return tree
    }

    private func publishAndPull(_ tree: AssetTree, revision: Int = 1) throws {
        try scene.publish(tree, revision: revision)
        #expect(try scene.pull().status == .done)
    }

    private var kept: [String] { AssetTree.read(scene.root.path("kept"), ignoring: []).paths.sorted() }

    private func keeping(_ options: inout RunRecipe) {
        (options.prune, options.force) = (true, true)
        options.backupDir = scene.root.path("kept")
    }

    // MARK: A limit

    @Test(
        "More than --max-delete is refused with 77, forced or not, and nothing is changed [F112]",
        arguments: [(0, false), (1, false), (1, true)])
    func tooMany(most: Int, isForced: Bool) throws {
        let tree = Self.tree(["a", "b", "c", "d", "e", "f"])
        try publishAndPull(tree)
        var next = AssetTree(tree.nodes.filter { $0.key > "b" })
        next.addFile("new", size: 30, seed: 40)
        try scene.publish(next, revision: 2)
        let refused = try scene.pull { ($0.prune, $0.force, $0.maxDelete) = (true, isForced, most) }
        #expect(refused.status == .refused)
        #expect(refused.error?.message.contains("2 of 6") == true)
        #expect(refused.error?.message.contains("--max-delete \(most)") == true)
        #expect(scene.problems(tree) == [] && refused.requests.isEmpty)
        var options = scene.options()
        (options.prune, options.maxDelete) = (true, most)
        #expect(try scene.engine().plan(options).pruneRefusal?.contains("--max-delete \(most)") == true)
        let allowed = try scene.pull { ($0.prune, $0.maxDelete) = (true, 2) }
        #expect(allowed.status == .done && allowed.report?.files.removed == 2)
        #expect(scene.problems(next) == [])
    }

    // MARK: Kept

    @Test("What is pruned and what is replaced stands below --backup-dir under the same path")
    func both() throws {
        var tree = Self.tree(["a/gone", "a/old", "b", "c"])
        tree.nodes["link"] = .link("b")
        try publishAndPull(tree)
        try scene.root.write("mine", to: "dest/c")
        var next = AssetTree(tree.nodes.filter { $0.key != "a/gone" })
        next.addFile("a/old", size: 700, seed: 50)
        next.nodes["link"] = .link("c")
        try scene.publish(next, revision: 2)
        let outcome = try scene.pull(keeping)
        #expect(outcome.status == .done && outcome.report?.files.removed == 1)
        #expect(scene.problems(next) == [])
        #expect(kept == ["a/gone", "a/old", "c", "link"])
        let backup = AssetTree.read(scene.root.path("kept"), ignoring: [])
        #expect(backup.bytes("a/gone") == tree.bytes("a/gone"))
        #expect(backup.bytes("a/old") == tree.bytes("a/old"))
        #expect(backup.bytes("c") == Array("mine".utf8))
        let link = try FileManager.default.destinationOfSymbolicLink(atPath: scene.root.path("kept/link"))
        #expect(link == "b")
    }

    @Test("What is kept is kept before a sync, and replaced or removed after it: no power cut takes both [F088]")
    func durable() throws {
        let tree = Self.tree(["a/gone", "a/old", "b"])
        try publishAndPull(tree)
        var next = AssetTree(tree.nodes.filter { $0.key != "a/gone" })
        next.addFile("a/old", size: 700, seed: 50)
        for name in ["new/1", "new/2"] { next.addFile(name, size: 30, seed: 51) }
        try scene.publish(next, revision: 2)
        // What stood where at each sync: a cut right after it leaves at least that.
        let looks = Synchronization.Mutex<[(dest: AssetTree, kept: AssetTree)]>([])
        let disk = Scene.Disk { [scene] destination throws(FileError) in
            try destination.synchronize()
            let kept = AssetTree.read(scene.root.path("kept"), ignoring: [])
            looks.withLock { $0.append((AssetTree.read(scene.destination), kept)) }
        }
        #expect(try scene.pull(disk: disk, keeping).status == .done)
        for name in ["a/gone", "a/old"] {
            let standing = looks.withLock({ $0 }).last { $0.dest.bytes(name) == tree.bytes(name) }
            #expect(standing?.kept.bytes(name) == tree.bytes(name), "\(name) was replaced before its backup was synced")
        }
        #expect(scene.problems(next) == [] && kept == ["a/gone", "a/old"])
    }

    @Test("An earlier backup is never replaced: the next one of a name has a number")
    func numbered() throws {
        try scene.root.write("of somebody", to: "kept/a")
        for revision in 1...3 {
            try scene.publish(Self.tree(["a"], seed: UInt64(revision)), revision: revision)
            #expect(try scene.pull(keeping).status == .done)
        }
        #expect(kept == ["a", "a.~1~", "a.~2~"])
        let backup = AssetTree.read(scene.root.path("kept"), ignoring: [])
        #expect(backup.bytes("a") == Array("of somebody".utf8))
        #expect(backup.bytes("a.~1~") == Self.tree(["a"], seed: 1).bytes("a"))
        #expect(backup.bytes("a.~2~") == Self.tree(["a"], seed: 2).bytes("a"))
    }

    @Test("A directory that was a file before is kept beside it, and the other way round")
    func fileAndDirectory() throws {
        for (number, name) in ["x", "x/y", "x/y", "x", "x/y", "b"].enumerated() {
            try scene.publish(Self.tree([name], seed: UInt64(number)), revision: number + 1)
            #expect(try scene.pull(keeping).status == .done)
        }
        #expect(kept == ["x", "x.~1~/y", "x.~1~/y.~1~", "x.~1~/y.~2~", "x.~2~"])
        let backup = AssetTree.read(scene.root.path("kept"), ignoring: [])
        #expect(backup.bytes("x.~1~/y.~1~") == Self.tree(["x/y"], seed: 2).bytes("x/y"))
        #expect(backup.bytes("x.~2~") == Self.tree(["x"], seed: 3).bytes("x"))
    }

    @Test("What cannot be backed up is neither removed nor replaced, and the pull says so with 74")
    func blocked() throws {
        // No number has room behind these.
        let (gone, old) = ("a/" + String(repeating: "g", count: 255), "a/" + String(repeating: "o", count: 255))
        let tree = Self.tree([gone, old, "b"])
        try publishAndPull(tree)
        for name in [gone, old] { try scene.root.write("in the way", to: "kept/\(name)") }
        var next = AssetTree(tree.nodes.filter { $0.key != gone })
        next.addFile(old, size: 700, seed: 50)
        try scene.publish(next, revision: 2)
        let outcome = try scene.pull(keeping)
        #expect(outcome.status == .ioError)
        #expect(outcome.report?.files.removed == 0)
        #expect(scene.problems(tree) == [])
        #expect(outcome.values("path", of: "task.failed") == [old])
        #expect(outcome.values("path", of: "prune.failed") == [gone])
    }

    @Test("A link below the backup directory is not followed [V5]")
    func linked() throws {
        let tree = Self.tree(["a/gone", "b"])
        try publishAndPull(tree)
        try scene.root.write("x", to: "outside/y")
        try scene.root.write("x", to: "kept/z")
        try scene.root.link("kept/a", to: "../outside")
        let next = AssetTree(tree.nodes.filter { $0.key == "b" })
        try scene.publish(next, revision: 2)
        #expect(try scene.pull(keeping).status == .done)
        #expect(AssetTree.read(scene.root.path("outside"), ignoring: []).paths == ["y"])
        #expect(kept == ["a", "a.~1~/gone", "z"])
        #expect(scene.problems(next) == [])
    }

    @Test(
        "A backup directory inside the destination, around it, or it itself is refused before anything changes",
        arguments: ["dest/kept", "dest", ".", "dest/.syncagent"])
    func overlapping(place: String) throws {
        let tree = Self.tree(["a", "b", "c"])
        try publishAndPull(tree)
        try scene.publish(AssetTree(tree.nodes.filter { $0.key != "a" }), revision: 2)
        let outcome = try scene.pull { ($0.prune, $0.backupDir) = (true, scene.root.path(place)) }
        #expect(outcome.status == .usage)
        #expect(outcome.error?.message.contains("inside the other") == true)
        #expect(outcome.error?.cause == .configuration, "and not the disk's fault")
        #expect(scene.root.read("dest/a") != nil && outcome.requests.isEmpty)
        // Nothing is left of it.
        #expect(!FileManager.default.fileExists(atPath: scene.root.path("dest/kept")))
    }

    @Test("A backup directory in a former revision of another set, with which it would be removed, is refused")
    func inRevision() throws {
        try publishAndPull(Self.tree(["a", "b"]))
        try scene.root.write("{}", to: ".syncagent-other/ledger")
        let outcome = try scene.pull { $0.backupDir = scene.root.path(".syncagent-other/rev/1/kept") }
        #expect(outcome.status == .usage && outcome.error?.cause == .configuration)
        #expect(outcome.error?.message.contains("it is in a former revision of") == true)
        #expect(!FileManager.default.fileExists(atPath: scene.root.path(".syncagent-other/rev")))
    }

    @Test("A backup directory that cannot be used is refused though nothing is new, planned so, and not made")
    func refusedAnyway() throws {
        try publishAndPull(Self.tree(["a", "b"]))
        var options = scene.options()
        options.backupDir = scene.root.path("dest/deep/kept")
        let outcome = try scene.pull { $0.backupDir = options.backupDir }
        #expect(outcome.status == .usage && outcome.error?.cause == .configuration)
        #expect(try scene.engine().plan(options).status == .usage)
        #expect(!FileManager.default.fileExists(atPath: scene.root.path("dest/deep")))
        #expect(try scene.pull { $0.backupDir = scene.root.path("deep/kept") }.status == .done)
    }

    private static func device(_ path: String) -> Int? {
        (try? FileManager.default.attributesOfItem(atPath: path))?[.systemNumber] as? Int
    }

    /// Where other directories than the tests' own can be made, on another file system.
    private static let elsewhere = ["/dev/shm", "/var/tmp", "/run"].first {
        access($0, W_OK) == 0 && device($0) != device(FileManager.default.temporaryDirectory.path)
    }

    @Test("Another file system is refused", .enabled(if: elsewhere != nil, "SKIPPED: only one file system"))
    func otherFileSystem() throws {
        let tree = Self.tree(["a", "b", "c"])
        try publishAndPull(tree)
        try scene.publish(AssetTree(tree.nodes.filter { $0.key != "a" }), revision: 2)
        let place = try #require(Self.elsewhere) + "/syncagent-\(UUID().uuidString)"
        defer { rmdir(place) }
        let outcome = try scene.pull { ($0.prune, $0.backupDir) = (true, place) }
        #expect(outcome.status == .usage && scene.root.read("dest/a") != nil)
        #expect(outcome.error?.message.contains("another file system") == true)
        #expect(outcome.error?.cause == .configuration && !FileManager.default.fileExists(atPath: place))
    }
}

import Foundation
import SyncContent
import SyncEngine
import SyncFiles
import SyncModel
import SyncPlugins
import SyncTestKit
import Synchronization
import Testing

@Suite("Directories that come as a whole", .timeLimit(.minutes(10)))
struct WholeDirectoryTests {
    private let scene: Scene

    init() throws { scene = try Scene() }

    /// Three leaf directories, one with a directory beside its files, and files at the top.
    private static func tree() -> AssetTree {
        var tree = AssetTree()
        for number in 0..<8 {
            for directory in ["a", "b/deep", "c", "c/below"] {
                tree.addFile("\(directory)/f\(number)", size: 700 + number, seed: UInt64(number + 1))
            }
            tree.addFile("top\(number)", size: 300, seed: UInt64(number + 50))
        }
        tree.addFile("a/empty", size: 0, seed: 1)
        tree.addFile("a/tool", size: 900, seed: 77, executable: true)
        tree.nodes["a/link"] = .link("f1")
        return tree
    }

    private func inode(_ path: String) -> UInt64? {
        var found = stat()
        return lstat(scene.root.path("dest/" + path), &found) == 0 ? UInt64(found.st_ino) : nil
    }

    /// A file as an interrupted run leaves it in a directory it was putting together.
    private func leave(_ bytes: [UInt8], as leaf: String, in directory: String) throws {
        let text = Array(directory.utf8)
        let name = text.withUnsafeBufferPointer { String(Staging.Directory(path: $0).key, radix: 16) }
        let padded = String(repeating: "0", count: 16 - name.utf8.count) + name
        try scene.root.write(bytes, to: "dest/.syncagent/staging/dir-\(padded)/\(leaf)")
    }

    @Test("A new set is complete, told of file by file, and the next pull touches nothing")
    func fresh() throws {
        let tree = Self.tree()
        try scene.publish(tree)
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(scene.problems(tree) == [] && scene.staged == [])
        #expect(outcome.count("task.installed") == tree.paths.count)
        let before = tree.paths.map(inode)
        let again = try scene.pull()
        #expect(again.report?.files.unchanged == tree.paths.count && again.requests.isEmpty)
        // The index has what the file system says: nothing was hashed again or replaced.
        #expect(tree.paths.map(inode) == before)
    }

    @Test("A directory that is there already gets its files one by one, and keeps its own")
    func present() throws {
        let tree = Self.tree()
        try scene.publish(tree)
        try scene.root.write("mine", to: "dest/a/other")
        let own = inode("a")
        #expect(try scene.pull().status == .done)
        #expect(scene.problems(tree) == ["a/other: foreign"])
        #expect(scene.root.read("dest/a/other") == Array("mine".utf8) && inode("a") == own)
    }

    @Test("Below a directory that hands down its group, directories are made in place and have the bit")
    func handsDown() throws {
        let tree = Self.tree()
        try scene.publish(tree)
        try scene.root.write("x", to: "dest/b/x")
        #expect(chmod(scene.root.path("dest/b"), 0o2755) == 0)
        #expect(try scene.pull().status == .done)
        #expect(scene.problems(tree) == ["b/x: foreign"])
        var made = stat()
        #expect(lstat(scene.root.path("dest/b/deep"), &made) == 0)
        #expect(made.st_mode & 0o2000 != 0)
    }

    @Test("One file with wrong bytes fails by name, and its neighbours are in place [S128]")
    func oneIsWrong() throws {
        var tree = Self.tree()
        let set = try scene.publish(tree) { $0.packSize = 64 << 20 }
        let pack = try #require(set.packs.first)
        var wrong = pack.bytes
        wrong[wrong.count / 3] ^= 1
        scene.transport.serve(wrong, at: Scene.base + pack.name)
        let outcome = try scene.pull()
        #expect(outcome.status == .incomplete)
        let failed = outcome.values("path", of: "task.failed")
        #expect(!failed.isEmpty && failed.count < 5)
        for path in failed { tree.nodes[path] = nil }
        // A blob behind the wrong one may have begun to arrive: the next pull goes on with it.
        #expect(scene.problems(tree) == [] && scene.staged.allSatisfy { $0.hasSuffix(".begun") })
        let installed = Set(outcome.values("path", of: "task.installed"))
        #expect(installed == Set(tree.paths))
        scene.transport.serve(pack.bytes, at: Scene.base + pack.name)
        #expect(try scene.pull().status == .done)
        #expect(scene.problems(Self.tree()) == [] && scene.staged == [])
    }

    @Test("Files that a killed run left in its directories are used when they are right [V12]")
    func leftBehind() throws {
        let tree = Self.tree()
        let set = try scene.publish(tree)
        let right = ["f0", "f1", "f2", "f3"]
        try scene.root.write("", to: "dest/.syncagent/staging/0/none")
        for leaf in right { try leave(#require(tree.bytes("b/deep/\(leaf)")), as: leaf, in: "b/deep") }
        try leave([1, 2, 3], as: "f4", in: "b/deep")
        try leave(#require(tree.bytes("b/deep/f5")).reversed(), as: "f5", in: "b/deep")
        try leave([9], as: "stranger", in: "b/deep")
        try leave([9], as: "f1", in: "no/such/place")
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(scene.problems(tree) == [] && scene.staged == [])
        #expect(outcome.report?.files.reused == right.count)
        let all = UInt64(set.packs.map(\.bytes.count).reduce(0, +))
        let asked = outcome.requests.compactMap { $0.range?.count }.reduce(0, +)
        #expect(asked <= all)
    }

    @Test("A file that somebody takes out of a directory in staging fails by name, and the next pull brings it [F082]")
    func emptied() throws {
        let tree = Self.tree()
        try scene.publish(tree)
        let staging = scene.root.path("dest/.syncagent/staging")
        let outcome = try scene.pull(
            disk: Scene.Disk { _ in
                let names = (try? FileManager.default.contentsOfDirectory(atPath: staging)) ?? []
                for name in names where name.hasPrefix("dir-") { _ = unlink("\(staging)/\(name)/f3") }
            })
        let lost = Set(outcome.values("path", of: "task.failed"))
        #expect(outcome.status == .ioError && !lost.isEmpty && lost.isSubset(of: ["a/f3", "b/deep/f3", "c/below/f3"]))
        #expect(lost.isDisjoint(with: outcome.values("path", of: "task.installed")))
        #expect(try scene.pull().status == .done)
        #expect(scene.problems(tree) == [] && scene.staged == [])
    }

    @Test("A stopped run places what it has, and the next one asks for the rest only")
    func stopped() throws {
        let tree = Self.tree()
        let set = try scene.publish(tree) { $0.packSize = 64 << 20 }
        let pack = try #require(set.packs.first)
        let stop = StopRequest()
        let half = UInt64(pack.bytes.count / 2)
        scene.transport.script(Scene.base + pack.name, .stall(after: Int(half)))
        let manifestBytes = UInt64(set.manifest.count)
        scene.transport.onBytes { if $0 >= manifestBytes + half { stop.stop() } }
        let first = try scene.pull(stop: stop)
        scene.transport.onBytes { _ in }
        let placed = first.count("task.installed")
        #expect(placed > 0 && placed < tree.paths.count)
        let second = try scene.pull()
        #expect(second.status == .done && second.report?.files.unchanged == placed)
        #expect(scene.problems(tree) == [] && scene.staged == [])
    }

    @Test("With a verifier every file is looked at, so none comes with its directory [S135]")
    func verified() throws {
        let tree = Self.tree()
        try scene.publish(tree)
        let verifier = Counting()
        let outcome = try scene.pull(verifications: [FileVerification(name: "count", verifier: verifier)])
        #expect(outcome.status == .done)
        #expect(scene.problems(tree) == [])
        #expect(verifier.paths == Set(tree.paths.filter { $0 != "a/link" }))
    }

    private final class Counting: FileVerifier {
        private let seen = Mutex<Set<String>>([])
        var paths: Set<String> { seen.withLock { $0 } }

        func verify(_ files: [StagedFile]) throws(PluginError) -> [FileVerdict] {
            seen.withLock { seen in for file in files { seen.insert(file.path) } }
            return files.map { _ in .accepted }
        }
    }
}

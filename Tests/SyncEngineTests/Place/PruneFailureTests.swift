import Foundation
import SyncFiles
import SyncModel
import SyncTestKit
import Testing

@testable import SyncEngine

/// Files and directories that are mount points, which the kernel does not remove: EBUSY of unlink(2) and rmdir(2).
@Suite(
    "What cannot be removed", .timeLimit(.minutes(10)), .enabled(if: BindMount.isPossible, "needs root and bind mounts")
)
struct PruneFailureTests {
    private let scene: Scene
    private let tree: AssetTree

    init() throws {
        scene = try Scene()
        var tree = AssetTree()
        for name in ["a/kept", "a/stuck", "b", "c", "d"] { tree.addFile(name, size: 300, seed: 3) }
        self.tree = tree
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
    }

    @Test("A file that stays is named, the pull ends with 74, and the next one removes it")
    func file() throws {
        let next = AssetTree(tree.nodes.filter { $0.key != "a/stuck" && $0.key != "b" })
        try scene.publish(next, revision: 2)
        let mount = try #require(BindMount(scene.root.path("dest/a/stuck")))
        let outcome = try scene.pull { $0.prune = true }
        mount.end()
        #expect(outcome.status == .ioError)
        #expect(outcome.values("path", of: "prune.failed") == ["a/stuck"])
        let reason = "cannot remove a/stuck: Device or resource busy: something is mounted there, or it is in use"
        #expect(outcome.values("reason", of: "prune.failed") == [reason])
        #expect(outcome.values("path", of: "task.removed") == ["b"])
        #expect(outcome.report?.shortfall == "1 file or directory could not be removed")
        let again = try scene.pull { $0.prune = true }
        #expect(again.status == .done && again.values("path", of: "task.removed") == ["a/stuck"])
        #expect(scene.problems(next) == [])
    }

    @Test("A directory that stays is named, too, and is still ours the next time")
    func directory() throws {
        let set = try scene.publish(tree, revision: 2)
        let named =
            String(decoding: set.manifest.dropLast(), as: UTF8.self) + ",\"x-directories\":[{\"path\":\"empty\"}]}"
        scene.transport.serve(Array(named.utf8), at: Scene.base + "manifest.json")
        #expect(try scene.pull().status == .done)
        #expect(access(scene.root.path("dest/empty"), F_OK) == 0)
        try scene.publish(tree, revision: 3)
        let mount = try #require(BindMount(scene.root.path("dest/empty")))
        let outcome = try scene.pull { $0.prune = true }
        mount.end()
        #expect(outcome.status == .ioError)
        #expect(outcome.values("path", of: "prune.failed") == ["empty"])
        #expect(try scene.pull { $0.prune = true }.status == .done)
        #expect(access(scene.root.path("dest/empty"), F_OK) != 0)
    }

    @Test("Clearing a session that leaves a file says so, and what is ours is still known")
    func clear() throws {
        let mount = try #require(BindMount(scene.root.path("dest/a/stuck")))
        let error = #expect(throws: EngineError.self) { try scene.engine().clear(scene.destination, files: true) }
        mount.end()
        #expect(error?.status == .ioError && error?.message.contains("a/stuck") == true)
        #expect(AssetTree.read(scene.destination).paths == ["a/stuck"])
        #expect(try scene.engine().clear(scene.destination, files: true) == 1)
    }

    @Test("A destination whose directories cannot be moved stays one that is pulled file by file")
    func cannotMove() throws {
        let state = scene.destination + "/.syncagent"
        let mount = try #require(BindMount(state))
        let staging = try #require(BindMount(state + "/staging"))
        let refused = try scene.pull { $0.atomic = AtomicSwitch() }
        staging.end()
        mount.end()
        #expect(refused.status == .cannotCreate)
        #expect(access(state + "/ledger", F_OK) != 0)
        #expect(access(scene.root.path(".syncagent-dest"), F_OK) != 0)
        try scene.publish(tree, revision: 2)
        #expect(try scene.pull().status == .done)
        #expect(scene.problems(tree) == [])
    }
}

/// A file or directory that is mounted on itself.
private struct BindMount {
    private let path: String

    static let isPossible: Bool = {
        guard geteuid() == 0, let root = try? TemporaryRoot(), (try? root.write("", to: "file")) != nil,
            let mount = BindMount(root.path("file"))
        else { return false }
        mount.end()
        return true
    }()

    init?(_ path: String) {
        self.path = path
        guard Self.run(["mount", "--bind", path, path]) else { return nil }
    }

    func end() { _ = Self.run(["umount", path]) }

    private static func run(_ arguments: [String]) -> Bool {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = arguments
        process.environment = ["PATH": "/usr/sbin:/sbin:/usr/bin:/bin"]
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }
}

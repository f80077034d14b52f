import Foundation
import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncPlugins
import SyncSystem
import SyncTestKit
import Testing

@testable import SyncEngine

@Suite("A disk that fails", .timeLimit(.minutes(10)))
struct DiskFailureTests {
    private let scene: Scene
    private let tree: AssetTree

    init() throws {
        scene = try Scene()
        var tree = AssetTree()
        for name in ["a", "b", "c", "d/e", "d/f"] { tree.addFile(name, size: 900, seed: UInt64(name.count)) }
        tree.addFile("large", size: 400_000, seed: 7)
        tree.nodes["link"] = .link("a")
        self.tree = tree
        try scene.publish(tree)
    }

    private func indexedPaths() throws -> [String] {
        let index = StatIndex.read(from: try Destination.open(path: scene.destination, create: false))
        return (0..<index.count).map { index.withPath($0) { String(decoding: $0, as: UTF8.self) } }
    }

    // MARK: Space

    @Test("What an interrupted run has of one file makes no room for another [F060]")
    func roomOfLeftovers() throws {
        let bytes = try #require(tree.bytes("large"))
        let digest = try Scene.digest(bytes)
        let other = String(repeating: "00", count: 32)
        let text = """
            {"format":"syncagent-manifest/1","project":"com.example.p","files":[\
            {"path":"f","size":\(bytes.count),"sha256":"\(digest.hex)","urls":["x"]},\
            {"path":"g","size":500000,"sha256":"\(other)","urls":["y"]}]}
            """
        let manifest = try ManifestAssembly(Array(text.utf8), digest: .zero).finish()
        let destination = try Destination.open(path: scene.destination, create: true)
        try scene.root.write(bytes, to: "dest/.syncagent/staging/0/\(digest.hex).part")
        let environment = scene.engine().environment
        let context = try RunContext(manifest, wanted: [0, 1], destination, .empty, environment, backup: nil) { _, _ in
        }
        let adopted = try Leftovers(adopting: [0, 1], in: context)
        #expect(adopted.complete == [0] && adopted.bytes == UInt64(bytes.count))
        #expect(spaceNeeded(for: [1], of: manifest, present: adopted.present(of: [1])) == 500_512)
        #expect(context.committer.finish().records.count == 1)
    }

    // MARK: syncfs

    @Test("Nothing counts as installed before a syncfs has covered it", arguments: [1, 2])
    func sync(call: Int) throws {
        let hook = RecordingHook()
        let outcome = try scene.pull(hooks: hook, disk: .failing(at: call)) {
            $0.hooks = [RunHook(group: "all", arguments: ["/bin/after"])]
        }
        #expect(outcome.status == .ioError && outcome.report?.result == .failed)
        #expect(outcome.count("task.installed") == 0 && outcome.report?.files.installed == 0)
        #expect(outcome.count("task.failed") == tree.paths.count)
        let reasons = Set(outcome.values("reason", of: "task.failed"))
        #expect(reasons == ["cannot sync \(scene.destination): Input/output error"])
        #expect(outcome.report?.shortfall.contains("Input/output error") == true)
        #expect(hook.calls.first?.environment["SYNCAGENT_RESULT"] == "failed")
        #expect(try indexedPaths() == [])
        #expect(scene.staged == [], "what may be lost must not look right to the next run")

        let next = try scene.pull(disk: .failing(at: 0))
        #expect(next.status == .done && scene.problems(tree) == [])
        #expect(try indexedPaths() == tree.paths.sorted())
        // Also what the failed run has placed is ours to remove.
        try scene.publish(AssetTree(tree.nodes.filter { $0.key == "a" }), revision: 2)
        #expect(try scene.pull { ($0.prune, $0.force) = (true, true) }.status == .done)
        #expect(AssetTree.read(scene.destination).paths == ["a"])
    }

    @Test("After a failed syncfs no old file is removed, whether new ones are in place or not", arguments: [1, 2])
    func prune(failing number: Int) throws {
        #expect(try scene.pull().status == .done)
        var nodes = tree.nodes
        nodes["g"] = nodes.removeValue(forKey: "a")
        try scene.publish(AssetTree(nodes), revision: 2)
        let outcome = try scene.pull(disk: .failing(at: number)) { $0.prune = true }
        #expect(outcome.status == .ioError && outcome.count("task.removed") == 0)
        #expect(scene.root.read("dest/a") != nil)
    }

    @Test("What is pruned is on the disk as gone before it is told and before the index forgets it [F088]")
    func pruneIsSynced() throws {
        #expect(try scene.pull().status == .done)
        var nodes = tree.nodes
        nodes["a"] = nil
        try scene.publish(AssetTree(nodes), revision: 2)
        let seen = Seen()
        let path = scene.root.path("dest/a")
        let disk = Scene.Disk { _ in seen.isGone.withLock { $0.append(access(path, F_OK) != 0) } }
        let outcome = try scene.pull(disk: disk) { $0.prune = true }
        #expect(outcome.status == .done && outcome.values("path", of: "task.removed") == ["a"])
        #expect(seen.isGone.withLock { $0.last } == true)
    }

    @Test("Where that cannot be synced it is not told, stays in the index, and the next pull looks again")
    func pruneIsNotSynced() throws {
        #expect(try scene.pull().status == .done)
        var nodes = tree.nodes
        nodes["a"] = nil
        try scene.publish(AssetTree(nodes), revision: 2)
        let outcome = try scene.pull(disk: .failing(at: 1)) { $0.prune = true }
        #expect(outcome.status == .ioError && outcome.count("task.removed") == 0)
        #expect(
            outcome.values("reason", of: "prune.failed") == ["cannot sync \(scene.destination): Input/output error"])
        // As a power cut may bring it back.
        try scene.root.write(try #require(tree.bytes("a")), to: "dest/a")
        #expect(try indexedPaths().contains("a"))
        #expect(try scene.pull { ($0.prune, $0.force) = (true, true) }.status == .done)
    }

    @Test("Another directory in the place of the destination is noticed before anything is said to be complete [F071]")
    func replacedDestination() throws {
        let hook = RecordingHook()
        let (path, other) = (scene.destination, scene.root.path("moved"))
        let disk = Scene.Disk { _ in
            guard access(other, F_OK) != 0 else { return }
            #expect(rename(path, other) == 0 && mkdir(path, 0o755) == 0)
        }
        let outcome = try scene.pull(hooks: hook, disk: disk) {
            $0.hooks = [RunHook(group: "all", arguments: ["/bin/after"])]
        }
        #expect(outcome.status == .cannotCreate && outcome.error?.message.contains("was moved away") == true)
        #expect(hook.calls.allSatisfy { $0.environment["SYNCAGENT_RESULT"] != "ok" })
        #expect(outcome.values("result", of: "group.completed").allSatisfy { $0 != "ok" })
        #expect(AssetTree.read(scene.destination).paths == [], "what stands there is somebody else's")
        #expect(rmdir(path) == 0 && rename(other, path) == 0)
        #expect(try scene.pull().status == .done && scene.problems(tree) == [])
    }

    @Test("A batch after a failed syncfs is not placed, though the next one would succeed")
    func laterBatch() throws {
        let manifest = try Manifest.ofRows(5_000)
        let destination = try Destination.open(path: scene.destination, create: true)
        let staging = try Staging(destination, lanes: 1)
        let committer = try Committer(
            manifest: manifest, destination: destination, staging: staging, isDurable: true,
            synchronize: Scene.Disk.failing(at: 1).synchronize
        ) { Issue.record("\($0.count) files count as installed") }
        for row in manifest.files.indices {
            let file = staging.newFile(lane: 0, digest: manifest.files.digest(row))
            let status = try [1].withUnsafeBytes { try staging.write($0, to: file, executable: false) }
            committer.add(Committer.Staged(row: row, file: file, status))
        }
        let outcome = committer.finish()
        #expect(outcome.records.count == 0 && outcome.failures.count == manifest.files.count)
        #expect(outcome.failures.allSatisfy { $0.error.code == .ioError } && !outcome.leftUnsynced)
        #expect(AssetTree.read(scene.destination).paths == [] && scene.staged == [])
    }

    // MARK: stat

    /// A name that no file system can look up.
    private static let unseen = [UInt8](repeating: 0x61, count: 300)

    @Test("Of a link or directory that cannot be looked at nobody says whose it is", arguments: [false, true])
    func unseenPlace(isLink: Bool) throws {
        let destination = try Destination.open(path: scene.destination, create: true)
        var reader = try PlaceReader(destination, isStopped: { false })
        let entry = IndexLog.Entry(path: Self.unseen, digest: .zero, kind: isLink ? .link : .directory)
        var code: Errno?
        do throws(FileError) { _ = try reader.read(entry) } catch { code = error.code }
        #expect(code == .fileNameTooLong)
    }

    @Test("What a killed run has logged is not forgotten where it cannot be looked at")
    func unseenLog() throws {
        let destination = try Destination.open(path: scene.destination, create: true)
        let entry = IndexLog.Entry(path: Self.unseen, digest: .zero, kind: .link)
        let environment = scene.engine().environment
        #expect(throws: FileError.self) {
            try environment.fold([entry], into: .empty, in: destination, isStopped: { false })
        }
    }

    @Test(
        "What a killed run has logged is gone where a link or a file has taken the place of its directory",
        arguments: [false, true])
    func replacedDirectory(isLink: Bool) throws {
        let destination = try Destination.open(path: scene.destination, create: true)
        if isLink {
            try scene.root.link("dest/data", to: "/nowhere")
        } else {
            try scene.root.write([], to: "dest/data")
        }
        let entry = IndexLog.Entry(path: Array("data/file".utf8), digest: .zero, kind: .file)
        let environment = scene.engine().environment
        let index = try environment.fold([entry], into: .empty, in: destination, isStopped: { false })
        #expect(index?.count == 0)
    }

    @Test("Where nobody can tell whether a file that a run leaves out is there, no other tree is made without it")
    func unseenFile() throws {
        let source = try Destination.open(path: scene.root.path("source"), create: true)
        let target = try Destination.open(path: scene.destination, create: true)
        let record = IndexRecord(status: .unknown, digest: .zero, kind: .file, installed: true)
        let index = StatIndex.empty.replacingRecords { append in
            Self.unseen.withUnsafeBufferPointer { append(record, $0) }
        }
        let environment = scene.engine().environment
        let progress = ProgressCount(environment)
        defer { progress.end() }
        let mirror = TreeMirror(
            source: source, known: try #require(index), target: target, targetPath: "/tree/1", sharing: .copy,
            manifest: try Manifest.ofRows(1), rows: [], isExact: true, environment: environment, progress: progress)
        let error = #expect(throws: EngineError.self) { try mirror.run() }
        #expect(error?.status == .ioError && error?.message.contains("make /tree/1 like it") == true)
    }

    @Test("A join is not made while what a shard has left cannot be read")
    func unreadShard() throws {
        for number in 0..<2 { #expect(try scene.pull { $0.shard = "\(number)/2" }.status == .done) }
        let shards = scene.root.path("dest/.syncagent/shards")
        let name = try #require(FileManager.default.contentsOfDirectory(atPath: shards).first)
        #expect(truncate("\(shards)/\(name)/index", 1 << 40) == 0)
        let outcome = try scene.pull { $0.join = 2 }
        #expect(outcome.status == .cannotCreate, "\(outcome.error?.message ?? "")")
        #expect(access("\(shards)/\(name)/index", F_OK) == 0)
    }

    // MARK: rename

    @Test("A file that cannot be placed since its staged directory was swapped leaves the old one alone")
    func staleDirectory() throws {
        var tree = AssetTree()
        for number in 0..<80 {
            for leaf in ["f", "g"] { tree.addFile("d\(100 + number)/\(leaf)", size: 30, seed: UInt64(number)) }
        }
        let set = try scene.publish(tree)
        let manifest = try ManifestAssembly(set.manifest, digest: .zero).finish()
        let destination = try Destination.open(path: scene.destination, create: true)
        let staging = try Staging(destination, lanes: 1)
        let wholes = WholeDirectories()
        let rows = Array(manifest.files.indices)
        wholes.choose(rows, open: rows, of: manifest.files, in: destination)
        let committer = try Committer(
            manifest: manifest, destination: destination, staging: staging, isDurable: false, wholes: wholes
        ) { _ in }
        var members: [Committer.Staged] = []
        for row in rows {
            let bytes = try #require(tree.bytes(manifest.files.path(row)))
            let member = try wholes.stage(row, of: manifest.files, manifest.files.digest(row)) {
                leaf, directory throws(FileError) in
                let written: Result<FileStatus, FileError> = bytes.withUnsafeBytes { bytes in
                    do throws(FileError) {
                        return .success(try staging.write(bytes, as: leaf, in: directory, executable: false))
                    } catch { return .failure(error) }
                }
                return try written.get()
            }
            members.append(try #require(member))
        }
        // Its descriptor is closed by now, and somebody has put another directory in its place.
        let name = scene.root.path("dest/.syncagent/staging/dir-")
        let key = String(wholes[0].staged.key, radix: 16)
        let path = name + String(repeating: "0", count: 16 - key.utf8.count) + key
        #expect(rename(path, scene.root.path("moved")) == 0 && mkdir(path, 0o755) == 0)
        try scene.root.write("mine", to: "dest/d100/f")
        for member in members { committer.add(member) }
        let outcome = committer.finish()
        #expect(outcome.failures.map(\.row) == [0, 1])
        #expect(outcome.failures.allSatisfy { $0.error.code == .staleNFSFileHandle })
        #expect(scene.root.read("dest/d100/f") == Array("mine".utf8))
        #expect(outcome.records.count == rows.count - 2)
    }

    // MARK: write

    @Test("A file that the disk does not take is one trouble, however many pieces come, and nobody is blamed")
    func pieces() throws {
        let size = 40 << 20
        let text = """
            {"format":"syncagent-manifest/1","project":"com.example.p","files":[{"path":"f","size":\(size),\
            "sha256":"\(String(repeating: "00", count: 32))","urls":["x"]}]}
            """
        let manifest = try ManifestAssembly(Array(text.utf8), digest: .zero).finish()
        let destination = try Destination.open(path: scene.destination, create: true)
        let environment = scene.engine().environment
        let context = try RunContext(manifest, wanted: [0], destination, .empty, environment, backup: nil) { _, _ in }
        // The directory is open, and nothing can be made in it.
        try FileManager.default.removeItem(atPath: scene.root.path("dest/.syncagent/staging/\(environment.workers)"))
        let plan = makePlan(manifest, wanted: [0], rule: CoalescingRule())
        let installer = Installer(context, plan, windows: WindowBudget(capacity: 1 << 20)) { _ in }
        var worker = try DecodeWorker(number: 0)
        installer.begin(slot: 0, worker: &worker)
        let piece = [UInt8](repeating: 7, count: 1 << 20)
        for _ in 0..<40 { piece.withUnsafeBytes { installer.append($0, to: 0, from: nil, worker: &worker) } }
        installer.end(slot: 0, worker: &worker)
        #expect(installer.troubles.count == 1)
        #expect(installer.troubles.first?.error?.code == .noSuchFileOrDirectory)
        _ = context.committer.finish()
    }
}

/// Whether a file was gone at each syncfs.
private final class Seen: Sendable {
    let isGone = Mutex<[Bool]>([])
}

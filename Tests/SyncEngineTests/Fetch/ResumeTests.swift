import Foundation
import SyncContent
import SyncEngine
import SyncFiles
import SyncManifest
import SyncModel
import SyncPlugins
import SyncSystem
import SyncTestKit
import Testing

@Suite("Going on after an interruption", .timeLimit(.minutes(10)))
struct ResumeTests {
    private let scene: Scene
    private static let size = 3_000_000

    init() throws { scene = try Scene() }

    /// How a large file is stored.
    enum Kind: Sendable, CaseIterable { case loose, chunks, compressedChunks }

    private static func tree() -> AssetTree {
        var tree = AssetTree()
        tree.addFile("big", size: size, seed: 21)
        return tree
    }

    /// Publishes one large file, and stops its first pull when so many **bytes** have come.
    private func interrupted(_ kind: Kind, after bytes: UInt64) throws -> AssetTree {
        let tree = Self.tree()
        let set = try scene.publish(tree) { builder in
            builder.packSize = 64 << 20
            switch kind {
            case .loose: builder.looseAbove = 0
            case .chunks: builder.chunkSize = 200_000
            case .compressedChunks: (builder.chunkSize, builder.codec) = (200_000, .zstd)
            }
        }
        let stop = StopRequest()
        let manifestBytes = UInt64(set.manifest.count)
        // No more comes than that, however late the stop is heard.
        for object in set.packs + set.loose {
            scene.transport.script(Scene.base + object.name, .stall(after: Int(bytes)))
        }
        scene.transport.onBytes { if $0 >= manifestBytes + bytes { stop.stop() } }
        let outcome = try scene.pull(stop: stop)
        scene.transport.onBytes { _ in }
        #expect(outcome.report?.result == .failed || outcome.report?.result == .partial)
        #expect(outcome.count("task.failed") == 0, "what was stopped has not failed")
        #expect(AssetTree.read(scene.destination).paths == [])
        return tree
    }

    @Test("A stop while a staged file is checked keeps it for the next run")
    func stoppedCheck() throws {
        let size = 1 << 30
        let digest = try SHA256Digest.ofZeros(size)
        let text = """
            {"format":"syncagent-manifest/1","project":"com.example.p","files":[{"path":"f","size":\(size),\
            "sha256":"\(digest)","urls":["x"]}]}
            """
        scene.transport.serve(Array(text.utf8), at: Scene.base + "manifest.json")
        let name = "dest/.syncagent/staging/0/\(digest)"
        try scene.root.write("", to: name)
        let path = scene.root.path(name)
        #expect(chmod(scene.root.path("dest/.syncagent"), 0o700) == 0 && truncate(path, off_t(size)) == 0)
        let stop = StopRequest()
        Thread.detachNewThread {
            let end = ContinuousClock.now + .seconds(60)
            while !Self.isOpen(path), .now < end { usleep(1_000) }
            stop.stop()
        }
        let outcome = try scene.pull(stop: stop)
        #expect(outcome.report?.result == .failed && outcome.count("task.failed") == 0)
        #expect(scene.staged == ["0/\(digest)"])
        let next = try scene.pull()
        #expect(next.status == .done && next.requests.isEmpty)
    }

    /// Whether this process has a file open.
    private static func isOpen(_ path: String) -> Bool {
        let numbers = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        return numbers.contains {
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")) == path
        }
    }

    private func partPath() throws -> String {
        try #require(scene.staged.first { $0.hasSuffix(".part") }, "the part is kept")
    }

    @Test("A stopped run keeps what came, and the next one asks for the rest only", arguments: Kind.allCases)
    func rest(kind: Kind) throws {
        let tree = try interrupted(kind, after: 1_500_000)
        // As after a kill: no index was written.
        unlink(scene.root.path("dest/.syncagent/index"))
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(scene.problems(tree) == [] && scene.staged == [])
        let asked = outcome.requests.compactMap { $0.range?.count }.reduce(0, +)
        #expect(asked > 0 && asked <= 1_500_000 + 400_000)
    }

    @Test(
        "A part that somebody changed between runs still ends right [S97 F076]", arguments: Kind.allCases,
        ["truncated", "flipped", "extended", "emptied", "removed", "replaced", "unreadable link"])
    func damaged(
        kind: Kind, how: String
    ) throws {
        let tree = try interrupted(kind, after: 1_500_000)
        let name = "dest/.syncagent/staging/\(try partPath())"
        var bytes = try #require(scene.root.read(name))
        unlink(scene.root.path(name))
        switch how {
        case "truncated": bytes = Array(bytes.prefix(777_777))
        case "flipped": for position in stride(from: 100, to: bytes.count, by: 900_000) { bytes[position] ^= 4 }
        case "extended": bytes += [UInt8](repeating: 7, count: Self.size)
        case "emptied": bytes = []
        case "replaced": bytes = patternedBytes(size: Self.size, seed: 1)
        default: break
        }
        if how == "unreadable link" {
            try scene.root.write("victim", to: "outside")
            try scene.root.link(name, to: scene.root.path("outside"))
        } else if how != "removed" {
            try scene.root.write(bytes, to: name)
        }
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(scene.problems(tree) == [] && scene.staged == [])
        #expect(how != "unreadable link" || scene.root.read("outside") == Array("victim".utf8))
        #expect(scene.transport.faulty == [], "the server was right")
    }

    @Test("A part that was whole and longer is cut, and needs no request", arguments: Kind.allCases, [0, 5])
    func whole(kind: Kind, extra: Int) throws {
        let tree = try interrupted(kind, after: 1_500_000)
        let name = "dest/.syncagent/staging/\(try partPath())"
        let bytes = try #require(tree.bytes("big"))
        try scene.root.write(bytes + [UInt8](repeating: 1, count: extra), to: name)
        let outcome = try scene.pull()
        #expect(outcome.status == .done && outcome.requests.isEmpty)
        #expect(scene.problems(tree) == [])
        #expect(outcome.report?.files.reused == 1)
    }

    @Test("A part is used although the file has become executable")
    func becameExecutable() throws {
        _ = try interrupted(.chunks, after: 1_500_000)
        var tree = Self.tree()
        tree.addFile("big", size: Self.size, seed: 21, executable: true)
        try scene.publish(tree, revision: 2) { ($0.packSize, $0.chunkSize) = (64 << 20, 200_000) }
        #expect(try scene.pull().status == .done)
        #expect(scene.problems(tree) == [])
        #expect(try scene.pull().report?.files.unchanged == 1)
    }

    @Test("A part of what is no longer wanted is removed [R11]")
    func unwanted() throws {
        _ = try interrupted(.chunks, after: 1_500_000)
        var tree = AssetTree()
        tree.addFile("small", size: 10, seed: 1)
        try scene.publish(tree, revision: 2)
        #expect(try scene.pull().status == .done)
        #expect(scene.staged == [] && scene.problems(tree) == [])
    }

    @Test("Two files with the content of one part both come out right")
    func twins() throws {
        _ = try interrupted(.chunks, after: 1_500_000)
        var tree = Self.tree()
        tree.addFile("another", size: Self.size, seed: 21)
        tree.addFile("zebra", size: Self.size, seed: 21)
        try scene.publish(tree, revision: 2) { ($0.packSize, $0.chunkSize) = (64 << 20, 200_000) }
        #expect(try scene.pull().status == .done)
        #expect(scene.problems(tree) == [] && scene.staged == [])
    }

    @Test("Whole files left in staging are used when they are right, and removed when not", arguments: [false, true])
    func staged(isRight: Bool) throws {
        var tree = AssetTree()
        tree.addFile("a", size: 5_000, seed: 1, executable: true)
        tree.addFile("b", size: 5_000, seed: 2)
        try scene.publish(tree)
        var bytes = try #require(tree.bytes("a"))
        let digest = try Scene.digest(bytes)
        if !isRight { bytes[4_999] ^= 1 }
        try scene.root.write(bytes, to: "dest/.syncagent/staging/1/\(digest.hex).7")
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(scene.problems(tree) == [] && scene.staged == [])
        #expect(outcome.report?.files.reused == (isRight ? 1 : 0))
    }

    @Test("Left-overs of a run with more workers are used or removed")
    func moreWorkers() throws {
        let tree = Self.tree()
        try scene.publish(tree)
        let bytes = try #require(tree.bytes("big"))
        let digest = try Scene.digest(bytes)
        try scene.root.write(bytes, to: "dest/.syncagent/staging/30/\(digest.hex)")
        try scene.root.write([1, 2], to: "dest/.syncagent/staging/31/\(try Scene.digest([1]).hex).part")
        let outcome = try scene.pull()
        #expect(outcome.status == .done && outcome.requests.isEmpty)
        #expect(scene.problems(tree) == [] && scene.staged == [])
    }

    @Test("Small files that came before a stop stay, and the next run fetches the others [S127]")
    func smallFiles() throws {
        let tree = AssetTree.manySmall(300, largest: 8_000)
        let set = try scene.publish(tree) { $0.packSize = 200_000 }
        let stop = StopRequest()
        try #require(set.packs.count > 3)
        scene.transport.script(Scene.base + set.packs[2].name, .stall(after: 60_000))
        let before = set.manifest.count + set.packs[..<2].reduce(60_000) { $0 + $1.bytes.count }
        scene.transport.onBytes { if $0 >= UInt64(before) { stop.stop() } }
        let first = try scene.pull(stop: stop)
        scene.transport.onBytes { _ in }
        let kept = AssetTree.read(scene.destination).nodes.count
        #expect(kept > 0 && kept < 300)
        #expect(first.report?.files.installed == kept && first.report?.result == .partial)
        #expect(scene.problems(tree, partial: true) == [])
        let second = try scene.pull()
        #expect(second.status == .done && scene.problems(tree) == [])
        #expect(second.report?.files.installed == 300 - kept)
        #expect(second.received + first.received < UInt64(tree.byteCount) * 3 / 2)
    }

    @Test("A stop during a transfer that does not move ends the run, and no hook is called")
    func stalled() throws {
        let tree = Self.tree()
        let set = try scene.publish(tree) { $0.looseAbove = 0 }
        scene.transport.script(Scene.base + "files/big", .stall(after: 100_000))
        let stop = StopRequest()
        scene.transport.onBytes { if $0 >= UInt64(set.manifest.count) + 100_000 { stop.stop() } }
        let hook = RecordingHook()
        let outcome = try scene.pull(hooks: hook, stop: stop) {
            $0.hooks = [RunHook(group: "all", arguments: ["/bin/after"])]
        }
        #expect(outcome.report?.result == .failed && hook.calls.isEmpty)
        #expect(outcome.count("group.completed") == 0)
    }

    @Test("Files that a killed run placed count as installed and can be pruned")
    func logged() throws {
        let tree = AssetTree.manySmall(6)
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        // As after a kill between placing and writing the index: only the log is there.
        let log = try IndexLog(try Destination.open(path: scene.destination, create: false))
        try log.append(
            try tree.paths.map { path in
                IndexLog.Entry(path: Array(path.utf8), digest: try Scene.digest(tree.bytes(path) ?? []), kind: .file)
            })
        unlink(scene.root.path("dest/.syncagent/index"))
        let again = try scene.pull()
        #expect(again.requests.isEmpty && again.report?.files.unchanged == 6)
        let gone = tree.paths[0]
        try scene.publish(AssetTree(tree.nodes.filter { $0.key != gone }), revision: 2)
        #expect(try scene.pull { $0.prune = true }.values("path", of: "task.removed") == [gone])
    }

    @Test("What a killed run placed is ours for a run of any other manifest: pruned, unless somebody changed it")
    func loggedByAnother() throws {
        var old = AssetTree()
        for name in ["same", "updated", "touched"] { old.addFile(name, size: 500, seed: UInt64(name.count)) }
        try scene.publish(old)
        #expect(try scene.pull().status == .done)
        // As after a kill of a run of a second revision: files in place and in the log, the index of the first.
        var second = AssetTree()
        for name in ["deep/new", "deep/edited", "updated", "touched", "gone"] {
            second.addFile(name, size: 600, seed: UInt64(name.count) + 50)
        }
        second.nodes["deep/link"] = .link("new")
        let log = try IndexLog(try Destination.open(path: scene.destination, create: false))
        try log.append(
            try second.nodes.map { path, node in
                guard case .link(let target) = node else {
                    let digest = try Scene.digest(second.bytes(path) ?? [])
                    return IndexLog.Entry(path: Array(path.utf8), digest: digest, kind: .file)
                }
                return IndexLog.Entry(path: Array(path.utf8), digest: try sha256(target), kind: .link)
            })
        for path in ["deep/new", "updated", "touched"] {
            try scene.root.write(second.bytes(path) ?? [], to: "dest/" + path)
        }
        try scene.root.link("dest/deep/link", to: "new")
        // Somebody's own work on files that were ours.
        try scene.root.write("mine", to: "dest/deep/edited")
        try scene.root.write("mine as well", to: "dest/touched")

        try scene.publish(AssetTree(old.nodes.filter { $0.key == "same" }), revision: 3)
        let third = try scene.pull {
            $0.prune = true
            $0.force = true
        }
        #expect(third.status == .done)
        #expect(Set(third.values("path", of: "task.removed")).isSuperset(of: ["deep/link", "deep/new", "updated"]))
        #expect(AssetTree.read(scene.destination).paths == ["deep/edited", "same", "touched"])
    }

    @Test("After a kill only what the log has no status of is read again", arguments: [true, false])
    func confirmedBeforeKill(isConfirmed: Bool) throws {
        var tree = AssetTree()
        tree.addFile("file", size: 500, seed: 1)
        try scene.publish(tree)
        // Other bytes of the same length: only reading them tells.
        try scene.root.write([UInt8](repeating: 7, count: 500), to: "dest/file")
        let destination = try Destination.open(path: scene.destination, create: true)
        let found = try #require(try status(destination.root, "file").get())
        let digest = try Scene.digest(tree.bytes("file") ?? [])
        let path = Array("file".utf8)
        let log = try IndexLog(destination)
        try log.append([IndexLog.Entry(path: path, digest: digest, kind: .file)])
        if isConfirmed {
            let known = IndexRecord.Status(found)
            try log.append([IndexLog.Entry(path: path, digest: digest, kind: .file, status: known)])
        }
        let outcome = try scene.pull()
        #expect(outcome.status == .done && outcome.requests.isEmpty == isConfirmed)
    }

    @Test("An index too long to be read is told, and nothing is changed", arguments: ["index", "index.log"])
    func excess(name: String) throws {
        var tree = AssetTree()
        tree.addFile("file", size: 500, seed: 1)
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        let file = scene.root.path("dest/.syncagent/\(name)")
        if name == "index.log" { _ = try IndexLog(Destination.open(path: scene.destination, create: false)) }
        try #require(truncate(file, 2 << 30 + 1) == 0)
        let outcome = try scene.pull()
        #expect(outcome.error?.status == .cannotCreate)
        #expect(outcome.error?.message.contains("/\(name): it has") == true, "\(outcome.error?.message ?? "")")
        #expect(throws: EngineError.self) { try scene.engine().plan(scene.options()) }
        #expect(truncate(file, 0) == 0)
        #expect(try scene.pull().status == .done)
    }

    @Test("What a killed run placed stays ours when the next run, which wants something else there, is stopped")
    func loggedThenStopped() throws {
        var old = AssetTree()
        old.addFile("changes", size: 500, seed: 1)
        old.addFile("same", size: 500, seed: 2)
        try scene.publish(old)
        #expect(try scene.pull().status == .done)
        // As after a kill of a run of a second revision.
        var second = AssetTree()
        second.addFile("changes", size: 600, seed: 3)
        let log = try IndexLog(try Destination.open(path: scene.destination, create: false))
        let bytes = second.bytes("changes") ?? []
        try log.append([IndexLog.Entry(path: Array("changes".utf8), digest: try Scene.digest(bytes), kind: .file)])
        try scene.root.write(bytes, to: "dest/changes")
        // A third wants other bytes there, and is stopped before they come.
        var third = old
        third.addFile("changes", size: 700, seed: 4)
        let set = try scene.publish(third, revision: 3)
        for object in set.packs + set.loose { scene.transport.script(Scene.base + object.name, .stall(after: 10)) }
        let stop = StopRequest()
        let before = scene.transport.totals.bytesReceived
        scene.transport.onBytes { if $0 >= before + UInt64(set.manifest.count) + 10 { stop.stop() } }
        #expect(try scene.pull(stop: stop).report?.result != .ok)
        scene.transport.onBytes { _ in }

        try scene.publish(AssetTree(old.nodes.filter { $0.key == "same" }), revision: 4)
        let last = try scene.pull { ($0.prune, $0.force) = (true, true) }
        #expect(last.values("path", of: "task.removed") == ["changes"])
        #expect(AssetTree.read(scene.destination).paths == ["same"])
    }

    @Test("A stop that comes with the last byte ends the run as it would have ended, pruned")
    func stoppedAtTheEnd() throws {
        var old = AssetTree()
        old.addFile("gone", size: 500, seed: 1)
        old.addFile("same", size: 500, seed: 2)
        try scene.publish(old)
        #expect(try scene.pull().status == .done)
        var next = AssetTree(old.nodes.filter { $0.key == "same" })
        next.addFile("new", size: 700, seed: 3)
        let set = try scene.publish(next, revision: 2) { $0.looseAbove = 600 }
        let stop = StopRequest()
        let before = scene.transport.totals.bytesReceived
        let whole = before + UInt64(set.manifest.count + 700)
        scene.transport.onBytes { if $0 >= whole { stop.stop() } }
        let outcome = try scene.pull(stop: stop) { $0.prune = true }
        scene.transport.onBytes { _ in }
        if outcome.report?.result == .ok {
            #expect(scene.problems(next) == [] && outcome.report?.files.removed == 1)
        } else {
            // The stop was heard before the file was in place: the run goes on later, and prunes then.
            #expect(try scene.pull { $0.prune = true }.report?.files.removed == 1)
        }
        #expect(AssetTree.read(scene.destination).paths == ["new", "same"])
    }
}

extension SHA256Digest {
    /// The digest of so many **bytes** of zeros.
    fileprivate static func ofZeros(_ count: Int) throws -> SHA256Digest {
        var hasher = try SHA256Hasher()
        let zeros = [UInt8](repeating: 0, count: 1 << 20)
        for _ in 0..<(count >> 20) { try zeros.withUnsafeBytes { try hasher.update($0) } }
        return try hasher.finish()
    }
}

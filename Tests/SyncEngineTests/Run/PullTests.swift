import Foundation
import SyncEngine
import SyncManifest
import SyncModel
import SyncStore
import SyncSystem
import SyncTestKit
import Testing

@Suite("Pulling a set", .timeLimit(.minutes(10)))
struct PullTests {
    private let scene: Scene

    init() throws { scene = try Scene() }

    @Test("A first pull brings files, links and modes, however they are stored [S117 S124]", arguments: 0..<5)
    func fresh(variant: Int) throws {
        let tree = AssetTree.mixed()
        try scene.publish(tree) { builder in
            switch variant {
            case 0: break
            case 1: builder.codec = .zstd
            case 2: builder.chunkSize = 50_000
            case 3: (builder.codec, builder.chunkSize, builder.packSize) = (.zstd, 100_000, 60_000)
            default: builder.looseAbove = -1
            }
        }
        let outcome = try scene.pull()
        #expect(outcome.error == nil && outcome.status == .done)
        #expect(scene.problems(tree) == [])
        #expect(outcome.report?.files.installed == tree.nodes.count)
        #expect(outcome.report?.bytes.total == UInt64(tree.byteCount))
        #expect(outcome.progress.last?.filesDone == tree.nodes.count)
        #expect(outcome.progress.last?.bytesDone == UInt64(tree.byteCount))
        #expect(scene.staged == [])
        #expect(scene.root.read("dest/.syncagent/index.log") == nil)
    }

    @Test("A pull with nothing to do asks once, decodes no manifest and writes nothing [S154 S162]")
    func noOp() throws {
        let tree = AssetTree.mixed()
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        var before = stat()
        #expect(lstat(scene.root.path("dest/.syncagent/index"), &before) == 0)
        // A manifest that cannot be decoded shows that nobody tries.
        for name in try FileManager.default.contentsOfDirectory(atPath: scene.root.path("state/manifests"))
        where name.hasSuffix(".json") { try scene.root.write("not a manifest", to: "state/manifests/\(name)") }
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(outcome.manifestRequests == 1 && outcome.requests.isEmpty && outcome.received == 0)
        #expect(outcome.report?.files.unchanged == tree.nodes.count)
        #expect(outcome.report?.requests != nil)
        #expect(outcome.count("task.installed") == 0)
        var after = stat()
        #expect(lstat(scene.root.path("dest/.syncagent/index"), &after) == 0)
        #expect(after.st_ino == before.st_ino && after.st_mtim.tv_nsec == before.st_mtim.tv_nsec)
        #expect(after.st_mtim.tv_sec == before.st_mtim.tv_sec)
    }

    @Test("Files that are here already are counted while they are hashed [S116]")
    func hashing() throws {
        let tree = AssetTree.manySmall(40)
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        try FileManager.default.removeItem(atPath: scene.root.path("dest/.syncagent"))
        let outcome = try scene.pull()
        #expect(outcome.status == .done && outcome.received == 0)
        let counted = outcome.progress.filter { $0.phase == .looking && $0.filesTotal > 0 }
        #expect(counted.allSatisfy { $0.filesTotal == tree.nodes.count && $0.bytesTotal == tree.byteCount })
        #expect(counted.last?.filesDone == tree.nodes.count && counted.last?.bytesDone == UInt64(tree.byteCount))
    }

    @Test(
        "A disk that is full is another failure than a place where nothing may be written, or where a file is",
        arguments: [
            (.noSpace, .diskFull), (.permissionDenied, .noPermission), (.noSuchFileOrDirectory, .noPermission),
            (.notDirectory, .inTheWay),
        ] as [(Errno, FailureCause)])
    func cannotUse(code: Errno, cause: FailureCause) {
        let error = EngineError(cannotUse: FileError(step: "open", path: "/a", code: code), "the state directory: ")
        #expect(error.status == (code == .noSpace ? .ioError : .cannotCreate))
        #expect(error.cause == cause)
        #expect(error.message.hasPrefix("the state directory: ") && error.message.contains("/a"))
    }

    @Test("An update fetches what changed and nothing else [S126]")
    func update() throws {
        var tree = AssetTree.manySmall(200, largest: 3_000)
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        let path = try #require(tree.paths.first { (tree.bytes($0)?.count ?? 0) > 100 })
        tree.addFile(path, size: 1_234, seed: 99)
        tree.addFile("sheets/new.bin", size: 55, seed: 100)
        try scene.publish(tree, revision: 2)
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(scene.problems(tree) == [])
        #expect(outcome.report?.files.installed == 2)
        #expect(outcome.report?.files.unchanged == tree.nodes.count - 2)
        let fetched = outcome.requests.compactMap(\.range).reduce(UInt64(0)) { $0 + $1.upperBound - $1.lowerBound }
        #expect(fetched == 1_234 + 55)
    }

    @Test("Content that several files share is fetched once")
    func duplicates() throws {
        var tree = AssetTree()
        for name in ["a", "b/c", "d/e/f"] { tree.addFile(name, size: 40_000, seed: 1) }
        tree.addFile("b/run", size: 40_000, seed: 1, executable: true)
        try scene.publish(tree, sharing: true)
        let outcome = try scene.pull()
        #expect(outcome.requests.count == 1 && outcome.requests.first?.range == 0..<40_000)
        #expect(outcome.status == .done)
        #expect(scene.problems(tree) == [])
    }

    @Test("Large files with the same content each get their own bytes", arguments: [false, true], [false, true])
    func largeDuplicates(chunked: Bool, sharing: Bool) throws {
        var tree = AssetTree()
        for name in ["a", "b", "c"] { tree.addFile(name, size: 2_500_000, seed: 5, executable: name == "b") }
        try scene.publish(tree, sharing: sharing) { builder in
            builder.packSize = 8_000_000
            builder.chunkSize = chunked ? 400_000 : nil
        }
        #expect(try scene.pull().status == .done)
        #expect(scene.problems(tree) == [])
        #expect(scene.staged == [])
    }

    @Test(
        "A file that moved is taken from its old place, not fetched, with --prune and without [S126]",
        arguments: [false, true])
    func moved(prune: Bool) throws {
        var tree = AssetTree()
        for number in 0..<5 { tree.addFile("old/f\(number)", size: 9_000, seed: UInt64(number)) }
        tree.addFile("stays", size: 10, seed: 50)
        tree.addFile("stays2", size: 10, seed: 51)
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        var next = tree
        for number in 0..<3 { next.nodes["new/f\(number)"] = next.nodes.removeValue(forKey: "old/f\(number)") }
        try scene.publish(next, revision: 2)
        let outcome = try scene.pull { $0.prune = prune }
        #expect(outcome.status == .done)
        #expect(outcome.requests == [])
        #expect(outcome.report?.files.reused == 3)
        #expect(outcome.report?.bytes.reused == 27_000)
        #expect(outcome.report?.files.removed == (prune ? 3 : 0))
        #expect(scene.problems(prune ? next : next.merged(with: tree)) == [])
    }

    @Test("Only the groups that were asked for come, and the rest later")
    func groups() throws {
        var tree = AssetTree()
        for name in ["sheets/a", "sheets/b", "models/c", "d"] {
            tree.addFile(name, size: 500, seed: UInt64(name.count))
        }
        try scene.publish(tree) { $0.groups = [("sheets", ["sheets/**"]), ("models", ["models/**"])] }
        let first = try scene.pull { $0.groups = ["sheets"] }
        #expect(first.status == .done)
        #expect(AssetTree.read(scene.destination).paths == ["sheets/a", "sheets/b"])
        #expect(first.values("group", of: "group.completed") == ["all", "sheets"])
        let again = try scene.pull { $0.groups = ["sheets"] }
        #expect(again.requests.isEmpty && again.report?.files.unchanged == 2)
        #expect(again.values("group", of: "group.completed") == ["all", "sheets"])
        let rest = try scene.pull()
        #expect(rest.status == .done && rest.report?.files.unchanged == 2)
        #expect(rest.values("group", of: "group.completed") == ["all", "sheets", "models"])
        #expect(scene.problems(tree) == [])
        let unknown = try scene.pull { $0.groups = ["nowhere"] }
        #expect(unknown.status == .usage)
    }

    @Test("An empty set and a set of empty files and links need no request")
    func nothingToFetch() throws {
        try scene.publish(AssetTree())
        #expect(try scene.pull().status == .done)
        var tree = AssetTree()
        for number in 0..<5 { tree.addFile("e\(number)", size: 0, seed: 0, executable: number == 2) }
        tree.nodes["d/link"] = .link("../e1")
        try scene.publish(tree, revision: 2)
        let outcome = try scene.pull()
        #expect(outcome.status == .done && outcome.requests.isEmpty)
        #expect(scene.problems(tree) == [])
    }

    @Test("What is wanted first is asked for first, in a request of its own [S89 S162]")
    func firstPaths() throws {
        let scene = try Scene()
        var tree = AssetTree()
        for number in 0..<200 { tree.addFile("f/\(1_000 + number)", size: 20_000, seed: UInt64(number)) }
        try scene.publish(tree) { $0.packSize = 1 << 20 }
        let engine = scene.engine()
        let run = try engine.enqueue(preparing: scene.options()).run.identifier
        try scene.store.prioritize(run: run, paths: ["f/1199", "nowhere"])
        scene.transport.forget()
        #expect(try engine.work(on: scene.store.run(run)).status == .done && scene.problems(tree) == [])
        let first = try #require(scene.transport.asked.first)
        #expect(first.range.map { $0.upperBound - $0.lowerBound } == 20_000)
    }

    @Test("Files with the same content are one request, wherever one of them can be had", arguments: [900, 400_000])
    func twins(size: Int) throws {
        let scene = try Scene()
        var tree = AssetTree()
        tree.addFile("a", size: size, seed: 1)
        tree.nodes["b/copy"] = tree.nodes["a"]
        tree.nodes["z"] = tree.nodes["a"]
        tree.addFile("c", size: size, seed: 2)
        try scene.publish(tree) { $0.looseAbove = -1 }
        #expect(try scene.engine().plan(scene.options()).fetch.looseBytes == UInt64(2 * size))
        // The first one's own URL is dead.
        scene.transport.remove(Scene.base + "files/a")
        let outcome = try scene.pull()
        #expect(outcome.status == .done && scene.problems(tree) == [])
        #expect(outcome.received <= UInt64(2 * size) + 10_000)
        #expect(Set(outcome.requests.map(\.url)).isDisjoint(with: [Scene.base + "files/z"]))
        #expect(outcome.count("task.installed") == 4)
    }
}

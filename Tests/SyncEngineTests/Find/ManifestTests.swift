import Foundation
import SyncEngine
import SyncModel
import SyncPlugins
import SyncTestKit
import Testing

@Suite("Finding the manifest and the destination", .timeLimit(.minutes(10)))
struct ManifestTests {
    private let scene: Scene
    private let url = Scene.base + "manifest.json"

    init() throws { scene = try Scene() }

    private static func tree() -> AssetTree {
        var tree = AssetTree()
        tree.addFile("a/b", size: 100, seed: 1)
        tree.addFile("c", size: 200, seed: 2)
        return tree
    }

    @Test("A manifest that is not there is 66, and nothing is made")
    func notFound() throws {
        let outcome = try scene.pull()
        #expect(outcome.status == .noInput)
        #expect(outcome.error?.message.contains("assets.test") == true)
        #expect(!FileManager.default.fileExists(atPath: scene.destination))
    }

    @Test("A stop while the manifest of a directory is looked for is 130, not what the first look came to")
    func stopInDirectory() throws {
        try scene.publish(Self.tree())
        let stop = StopRequest()
        scene.transport.script(url, .stall(after: 10))
        scene.transport.onBytes { _ in stop.stop() }
        let outcome = try scene.pull(stop: stop, manifest: String(Scene.base.dropLast()))
        #expect(outcome.status == .interrupted, "\(outcome.error?.message ?? "")")
    }

    @Test(
        "A manifest that breaks the format is 65, and nothing is made",
        arguments: ["", "{", "[]", "{\"format\":\"x\"}"])
    func invalid(text: String) throws {
        scene.transport.serve(Array(text.utf8), at: url)
        let outcome = try scene.pull()
        #expect(outcome.status == .dataInvalid)
        #expect(!FileManager.default.fileExists(atPath: scene.destination))
    }

    @Test("A server that cannot be reached is 69", arguments: [TransferError.Code.unreachable, .timedOut, .tls])
    func unreachable(code: TransferError.Code) throws {
        scene.transport.script(url + ".zst", .fail(code))
        scene.transport.script(url, .fail(code))
        #expect(try scene.pull().status == .unavailable)
    }

    @Test(
        "A directory that its server does not list, or lists elsewhere, stands for the manifest in it",
        arguments: [
            TransferError.Code.badStatus(403), .authentication, .badStatus(405), .refusedByPolicy, .redirectRefused,
        ])
    func unlistedDirectory(code: TransferError.Code) throws {
        try scene.publish(Self.tree())
        let directory = String(Scene.base.dropLast())
        scene.transport.script(directory, .fail(code))
        #expect(try scene.pull(manifest: directory).status == .done)
        // Where nothing is inside, what was asked for is what counts.
        let other = directory + "/other"
        scene.transport.script(other, .fail(code))
        let outcome = try scene.pull(manifest: other)
        #expect(outcome.status == (code == .badStatus(405) ? .unavailable : .refused))
        #expect(outcome.error?.message.contains(code.name) == true)
    }

    @Test("A manifest file that is not there is 66; another scheme is wrong usage")
    func paths() throws {
        #expect(try scene.pull(manifest: scene.root.path("none.json")).status == .noInput)
        #expect(try scene.pull(manifest: scene.root.path).status == .noInput)
        #expect(try scene.pull(manifest: "ftp://assets.test/manifest.json").status == .usage)
    }

    @Test("A manifest on this machine is read from its path")
    func local() throws {
        let tree = Self.tree()
        let set = try scene.publish(tree) { $0.mirrors = [Scene.base] }
        try scene.root.write(set.manifest, to: "m.json")
        #expect(try scene.pull(manifest: scene.root.path("m.json")).status == .done)
        #expect(scene.problems(tree) == [])
        let again = try scene.pull(manifest: scene.root.path("m.json"))
        #expect(again.requests.isEmpty && again.manifestRequests == 0)
    }

    @Test("A destination of another project is refused with 73, untouched")
    func foreign() throws {
        let tree = Self.tree()
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        try scene.publish(AssetTree.manySmall(3)) { $0.project = "com.example.other" }
        let outcome = try scene.pull()
        #expect(outcome.status == .cannotCreate)
        #expect(outcome.error?.message.contains("com.example.tower") == true)
        #expect(scene.problems(tree) == [])
    }

    @Test(
        "One set is in a destination: with a shard of it there, another project is refused with 73, and so is a shard where that has been pulled",
        arguments: [true, false])
    func foreignShard(isComplete: Bool) throws {
        var tree = AssetTree()
        for number in 0..<8 { tree.addFile("tower/\(number)", size: 300, seed: UInt64(number)) }
        let other = AssetTree(["other/a": .file([1, 2, 3], executable: false)])
        try scene.publish(tree) { $0.looseAbove = -1 }
        if !isComplete { scene.transport.remove(Scene.base + "files/tower/0") }
        let begun = try scene.pull { $0.shard = "0/1" }
        #expect((begun.status == .done) == isComplete)
        #expect(begun.report?.files.installed == (isComplete ? 8 : 7))
        try scene.publish(other) { $0.project = "com.example.other" }
        for (shard, join) in [(nil, nil), ("0/1", nil), ("1/2", nil), (nil, 2)] as [(String?, Int?)] {
            let outcome = try scene.pull { ($0.shard, $0.join) = (shard, join) }
            #expect(outcome.status == .cannotCreate)
            #expect(outcome.error?.message.contains("belongs to project com.example.tower") == true)
        }
        #expect(throws: EngineError.self) { try scene.engine().plan(scene.options()) }
        #expect(scene.root.read("dest/other/a") == nil)
        // As if it had come before that was looked for.
        let (shards, aside) = (scene.root.path("dest/.syncagent/shards"), scene.root.path("aside"))
        try FileManager.default.moveItem(atPath: shards, toPath: aside)
        #expect(try scene.pull().status == .done)
        try FileManager.default.moveItem(atPath: aside, toPath: shards)
        try scene.publish(tree, revision: 2) { $0.looseAbove = -1 }
        let outcome = try scene.pull { $0.shard = "0/1" }
        #expect(outcome.status == .cannotCreate)
        #expect(outcome.error?.message.contains("belongs to project com.example.other") == true)
    }

    @Test(
        "Whose a piece is counts although its index cannot be read: 73 or 74, and nothing of another project is put beside it [F066]"
    )
    func unreadablePiece() throws {
        var tree = AssetTree()
        for number in 0..<8 { tree.addFile("tower/\(number)", size: 300, seed: UInt64(number)) }
        try scene.publish(tree) { $0.looseAbove = -1 }
        #expect(try scene.pull { $0.shard = "0/1" }.status == .done)
        let shards = scene.root.path("dest/.syncagent/shards")
        let name = try #require(try FileManager.default.contentsOfDirectory(atPath: shards).first)
        let index = "\(shards)/\(name)/index"
        try FileManager.default.moveItem(atPath: index, toPath: scene.root.path("aside"))
        // Longer than any that is read; it takes no room.
        try scene.root.write([], to: "dest/.syncagent/shards/\(name)/index")
        #expect(truncate(index, 1 << 40) == 0)
        try scene.publish(AssetTree(["other/a": .file([1, 2, 3], executable: false)])) {
            $0.project = "com.example.other"
        }
        let outcome = try scene.pull()
        #expect(outcome.status == .cannotCreate)
        #expect(outcome.error?.message.contains("index: it has 1.00 TiB") == true, "\(outcome.error?.message ?? "")")
        #expect(scene.root.read("dest/other/a") == nil)
        try FileManager.default.removeItem(atPath: index)
        try FileManager.default.moveItem(atPath: scene.root.path("aside"), toPath: index)
        #expect(try scene.pull().status == .cannotCreate)
    }

    @Test("A file in the destination's place is 73", arguments: ["dest", "dest/.syncagent"])
    func fileInPlace(path: String) throws {
        try scene.publish(Self.tree())
        try scene.root.write("mine", to: path)
        #expect(try scene.pull().status == .cannotCreate)
        #expect(scene.root.read(path) == Array("mine".utf8))
    }

    @Test("A state directory that cannot be made is 73")
    func stateInTheWay() throws {
        try scene.publish(Self.tree())
        try scene.root.write("mine", to: "state")
        #expect(try scene.pull().status == .cannotCreate)
    }

    @Test("A destination that another pull has is 75 [S3 F116 F117]")
    func busy() throws {
        let tree = Self.tree()
        try scene.publish(tree)
        let status = try scene.whileLocked { try scene.pull() }
        #expect(status.status == .busy)
        #expect(status.error?.message.contains("\(getpid())") == true)
        #expect(try scene.pull().status == .done)
    }

    @Test("A cached manifest that was damaged or lost is fetched again", arguments: [0, 1, 2])
    func damagedCache(how: Int) throws {
        let tree = Self.tree()
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        let names = try FileManager.default.contentsOfDirectory(atPath: scene.root.path("state/manifests"))
        let name = try #require(names.first { $0.hasSuffix(".json") })
        let body = try #require(scene.root.read("state/manifests/\(name)"))
        switch how {
        case 0: try scene.root.write("junk", to: "state/manifests/\(name)")
        case 1: try scene.root.write(body + [0x20], to: "state/manifests/\(name)")
        default: unlink(scene.root.path("state/manifests/\(name)"))
        }
        try FileManager.default.removeItem(atPath: scene.root.path("dest/c"))
        #expect(try scene.pull().status == .done)
        #expect(scene.problems(tree) == [])
        #expect(scene.root.read("state/manifests/\(name)") == body)
    }

    @Test("A link in place of the destination's state is refused [V5]")
    func linkedState() throws {
        try scene.publish(Self.tree())
        try scene.root.write("x", to: "outside/keep")
        try scene.root.write("x", to: "dest/mine")
        try scene.root.link("dest/.syncagent", to: scene.root.path("outside"))
        #expect(try scene.pull().status == .cannotCreate)
        #expect(AssetTree.read(scene.root.path("outside")).paths == ["keep"])
    }
}

import Foundation
import SyncEngine
import SyncManifest
import SyncModel
import SyncPlugins
import SyncTestKit
import Testing

/// Deltas: blobs made of the former version that is here.
@Suite("Deltas against the former version", .timeLimit(.minutes(10)))
struct DeltaTests {
    private let scene: Scene
    private static let chunk = 100_000

    init() throws { scene = try Scene() }

    private static func tree(_ edits: [Int] = []) -> AssetTree {
        var tree = AssetTree()
        tree.addFile("big", size: 20 * chunk, seed: 4)
        tree.addFile("same", size: 40_000, seed: 5)
        tree.addFile("small", size: 30_000, seed: 6)
        for path in ["big", "small"] {
            guard var bytes = tree.bytes(path) else { continue }
            for position in edits where position < bytes.count { bytes[position] ^= 0x55 }
            tree.nodes[path] = .file(bytes, executable: false)
        }
        return tree
    }

    private static let edits = [100, 20_000, 310_000, 1_555_555]

    @discardableResult private func publish(_ tree: AssetTree, after former: AssetTree? = nil, revision: Int) throws
        -> PublishedSet
    {
        try scene.publish(tree, revision: revision) {
            ($0.packSize, $0.chunkSize, $0.former) = (64 << 20, Self.chunk, former)
        }
    }

    /// Pulls the old tree, and publishes the new one with deltas.
    private func prepare() throws -> (tree: AssetTree, manifest: UInt64) {
        try publish(Self.tree(), revision: 1)
        #expect(try scene.pull().status == .done)
        let next = Self.tree(Self.edits)
        return (next, UInt64(try publish(next, after: Self.tree(), revision: 2).manifest.count))
    }

    @Test("Whoever has the former version fetches the deltas, and nobody else does")
    func fetched() throws {
        let (next, manifest) = try prepare()
        let plan = try scene.engine().plan(scene.options())
        #expect(
            plan.fetch.deltaBytes > 0 && plan.fetch.deltaBytes == plan.fetch.packBytes && plan.fetch.packBytes < 2_000)
        let outcome = try scene.pull()
        #expect(outcome.status == .done && scene.problems(next) == [] && scene.staged == [])
        #expect(outcome.received < manifest + 2_000)
        #expect(outcome.report?.files.installed == 2)
        #expect(outcome.report?.bytes.reused == UInt64(17 * Self.chunk))
        let other = try Scene()
        let set = try other.publish(next, revision: 2) {
            ($0.packSize, $0.chunkSize, $0.former) = (64 << 20, Self.chunk, Self.tree())
        }
        #expect(try other.pull().received >= UInt64(next.byteCount))
        #expect(other.problems(next) == [] && set.packs.count == 2)
    }

    @Test(
        "A former version that is not what it was is not used [V13]",
        arguments: ["edited", "shortened", "removed", "edited and forgotten", "swapped while it is read"])
    func wrongBase(how: String) throws {
        let (next, manifest) = try prepare()
        let bytes = try #require(scene.root.read("dest/small"))
        var other = bytes
        other[7_000] ^= 1
        switch how {
        case "edited": try scene.root.write(other, to: "dest/small")
        case "edited and forgotten":
            try scene.root.write(other, to: "dest/small")
            unlink(scene.root.path("dest/.syncagent/index"))
        case "shortened": try scene.root.write(Array(bytes.prefix(100)), to: "dest/small")
        case "removed": unlink(scene.root.path("dest/small"))
        default:
            // The manifest has come, bases are checked, the first byte of a pack arrives: now both change.
            let path = scene.root.path("dest/")
            scene.transport.onBytes { total in
                guard total > 0 else { return }
                for name in ["small", "big"] {
                    let file = open(path + name, O_WRONLY)
                    guard file >= 0 else { continue }
                    var byte: UInt8 = 0xAA
                    for position in stride(from: 0, to: 30_000, by: 5_000) { pwrite(file, &byte, 1, off_t(position)) }
                    close(file)
                }
            }
        }
        let outcome = try scene.pull()
        scene.transport.onBytes { _ in }
        #expect(outcome.status == .done)
        // The writer may also have hit a new file, once it was in place: the next pull mends that.
        if how.hasPrefix("swapped"), !scene.problems(next).isEmpty { #expect(try scene.pull().status == .done) }
        #expect(scene.problems(next) == [] && scene.staged == [])
        if !how.hasPrefix("swapped") { #expect(outcome.received > manifest + 29_000) }
        #expect(scene.transport.faulty == [], "the server is not at fault")
    }

    @Test(
        "Deltas that lie give no wrong file, and the full blobs come",
        arguments: ["base digest", "range", "frame", "blob"])
    func lies(how: String) throws {
        try publish(Self.tree(), revision: 1)
        #expect(try scene.pull().status == .done)
        let next = Self.tree(Self.edits)
        let set = try publish(next, after: Self.tree(), revision: 2)
        var document = try #require(try JSONSerialization.jsonObject(with: Data(set.manifest)) as? [String: Any])
        let files = try #require(document["files"] as? [[String: Any]])
        document["files"] = try files.map { entry in
            var entry = entry
            guard var deltas = entry["x-deltas"] as? [String: Any], let list = deltas["blobs"] as? [[Any]] else {
                return entry
            }
            deltas["blobs"] = try list.map { delta in
                var delta = delta
                let offset = try #require(delta[4] as? Int)
                switch how {
                case "base digest": delta[6] = String(repeating: "ab", count: 32)
                case "range": delta[4] = offset + 1
                case "frame": delta[2] = 0
                default: delta[0] = list.count - 1 - (try #require(delta[0] as? Int))
                }
                return delta
            }
            entry["x-deltas"] = deltas
            return entry
        }
        let manifest = Array(try JSONSerialization.data(withJSONObject: document, options: [.sortedKeys]))
        scene.transport.serve(manifest, at: Scene.base + "manifest.json")
        let outcome = try scene.pull()
        #expect(outcome.status == .done && scene.problems(next) == [] && scene.staged == [])
        #expect(scene.transport.faulty == [])
    }

    @Test("A stop between deltas keeps what is done, and the next run still uses the rest [S97]")
    func stopped() throws {
        let (next, manifest) = try prepare()
        let stop = StopRequest()
        let before = scene.transport.totals.bytesReceived
        scene.transport.onBytes { if $0 > before + manifest { stop.stop() } }
        _ = try scene.pull(stop: stop)
        scene.transport.onBytes { _ in }
        unlink(scene.root.path("dest/.syncagent/index"))
        let outcome = try scene.pull()
        #expect(outcome.status == .done && scene.problems(next) == [] && scene.staged == [])
    }

    @Test("Wrong bytes of a delta from the network are replaced by the blob")
    func wrongDelta() throws {
        let (next, _) = try prepare()
        let set = try publish(next, after: Self.tree(), revision: 2)
        let pack = try #require(set.packs.last)
        scene.transport.script(Scene.base + pack.name, .bytes(pack.bytes.map { $0 ^ 1 }))
        let outcome = try scene.pull()
        #expect(outcome.status == .done && scene.problems(next) == [])
    }
}

import Foundation
import SyncEngine
import SyncModel
import SyncTestKit
import Testing

@Suite("Going on inside a blob", .timeLimit(.minutes(10)))
struct PartialBlobTests {
    private let scene: Scene
    private static let arrived = 310_000

    init() throws { scene = try Scene() }

    /// What is under way when the run is stopped.
    enum Kind: Sendable, CaseIterable { case chunks, compressedChunks, small, loose }

    /// Publishes one object and stops its first pull when ``came`` **bytes** of it have come.
    private func interrupted(_ kind: Kind) throws -> (tree: AssetTree, stored: Int) {
        var tree = AssetTree()
        let isLarge = kind == .chunks || kind == .compressedChunks
        for index in 0..<(kind == .small ? 3 : 1) {
            tree.addFile("file\(index)", size: isLarge ? 1_000_000 : 400_000, seed: UInt64(40 + index))
        }
        let set = try scene.publish(tree) { builder in
            builder.packSize = 64 << 20
            switch kind {
            case .chunks: builder.chunkSize = 200_000
            case .compressedChunks: (builder.chunkSize, builder.codec) = (200_000, .zstd)
            case .small: break
            case .loose: builder.looseAbove = 0
            }
        }
        let object = try #require((set.packs + set.loose).first)
        scene.transport.script(Scene.base + object.name, .stall(after: Self.arrived))
        let stop = StopRequest()
        scene.transport.onBytes { if $0 >= UInt64(set.manifest.count + Self.arrived) { stop.stop() } }
        let outcome = try scene.pull(stop: stop)
        scene.transport.onBytes { _ in }
        #expect(outcome.report?.result == .failed)
        return (tree, object.bytes.count)
    }

    private func asked(_ outcome: Scene.Outcome) -> Int { outcome.requests.compactMap { $0.range?.count }.reduce(0, +) }

    @Test("No byte that came is asked for again, wherever the run was stopped [R1 G4]", arguments: Kind.allCases)
    func exact(kind: Kind) throws {
        let (tree, stored) = try interrupted(kind)
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(asked(outcome) == stored - Self.arrived)
        #expect(scene.problems(tree) == [] && scene.staged == [])
    }

    @Test("Of two files with the same content each takes over a part of its own [S91 S97 G4]")
    func twins() throws {
        var tree = AssetTree()
        tree.addFile("a", size: 400_000, seed: 40)
        tree.nodes["b"] = tree.nodes["a"]
        let set = try scene.publish(tree) { $0.looseAbove = 0 }
        for object in set.loose { scene.transport.script(Scene.base + object.name, .stall(after: Self.arrived)) }
        let stop = StopRequest()
        scene.transport.onBytes { if $0 >= UInt64(set.manifest.count + Self.arrived) { stop.stop() } }
        _ = try scene.pull(stop: stop)
        scene.transport.onBytes { _ in }
        for object in set.loose { scene.transport.script(Scene.base + object.name) }
        let parts = scene.staged.filter { $0.hasSuffix(".part") }
        let sizes = parts.map { scene.root.read("dest/.syncagent/staging/\($0)")?.count ?? 0 }
        let outcome = try scene.pull()
        #expect(outcome.status == .done && scene.problems(tree) == [])
        #expect(sizes.count == 2 && asked(outcome) == 800_000 - sizes.reduce(0, +), "\(sizes)")
    }

    @Test("Stopped again before the blob is reached, nothing is lost either")
    func twice() throws {
        let (tree, stored) = try interrupted(.chunks)
        let stop = StopRequest()
        stop.stop()
        _ = try scene.pull(stop: stop)
        let outcome = try scene.pull()
        #expect(outcome.status == .done && asked(outcome) == stored - Self.arrived)
        #expect(scene.problems(tree) == [] && scene.staged == [])
    }

    @Test(
        "Partial blobs that somebody changed cost a second request, and no source is blamed [F076 S97 S94 S95]",
        arguments: ["flipped", "cut", "head", "longer", "link"])
    func damaged(how: String) throws {
        let (tree, _) = try interrupted(.chunks)
        let staged = try #require(scene.staged.first { $0.hasSuffix(".begun") })
        let name = "dest/.syncagent/staging/\(staged)"
        var bytes = try #require(scene.root.read(name))
        unlink(scene.root.path(name))
        switch how {
        case "flipped": bytes[bytes.count - 1] ^= 8
        case "cut": bytes = Array(bytes.prefix(23))
        case "head": bytes[9] ^= 8
        default: bytes += [UInt8](repeating: 1, count: 2_000_000)
        }
        if how == "link" {
            try scene.root.write("victim", to: "outside")
            try scene.root.link(name, to: scene.root.path("outside"))
        } else {
            try scene.root.write(bytes, to: name)
        }
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(scene.problems(tree) == [] && scene.staged == [])
        #expect(scene.transport.faulty == [])
        #expect(how != "link" || scene.root.read("outside") == Array("victim".utf8))
    }

    @Test("What could not be removed is removed by a pull that has nothing to fetch; parts of large files stay")
    func unremoved() throws {
        var tree = AssetTree()
        tree.addFile("small", size: 10, seed: 1)
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        let digest = String(repeating: "ab", count: 32)
        for name in [".1.begun", ".2", ".3.part"] {
            try scene.root.write("x", to: "dest/.syncagent/staging/0/\(digest)\(name)")
        }
        // While the index says that all is done, nobody looks.
        #expect(try scene.pull().status == .done)
        #expect(scene.staged.count == 3)
        unlink(scene.root.path("dest/.syncagent/index"))
        let outcome = try scene.pull()
        #expect(outcome.status == .done && asked(outcome) == 0)
        #expect(scene.staged == ["0/\(digest).3.part"])
    }

    @Test("Partial blobs of a pack that is no longer wanted are removed")
    func unwanted() throws {
        _ = try interrupted(.chunks)
        var tree = AssetTree()
        tree.addFile("small", size: 10, seed: 1)
        try scene.publish(tree, revision: 2)
        #expect(try scene.pull().status == .done)
        #expect(scene.staged == [] && scene.problems(tree) == [])
    }
}

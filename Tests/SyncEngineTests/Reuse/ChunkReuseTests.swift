import Foundation
import SyncContent
import SyncEngine
import SyncFiles
import SyncManifest
import SyncModel
import SyncPlugins
import SyncTestKit
import Testing

/// Chunks of large files that are here already are not fetched again.
@Suite("Chunks from files that are here", .timeLimit(.minutes(10)))
struct ChunkReuseTests {
    private let scene: Scene
    private static let chunk = 100_000

    init() throws { scene = try Scene() }

    /// A file of so many chunks, each made from a seed.
    private static func bytes(_ seeds: [UInt64]) -> [UInt8] { seeds.flatMap { patternedBytes(size: chunk, seed: $0) } }

    private static func tree(_ files: [String: [UInt64]], zeros: Int = 0) -> AssetTree {
        AssetTree(files.mapValues { .file(bytes($0) + [UInt8](repeating: 0, count: zeros), executable: false) })
    }

    @discardableResult private func publish(_ tree: AssetTree, revision: Int, codec: Codec = .identity) throws
        -> PublishedSet
    {
        try scene.publish(tree, revision: revision) {
            ($0.packSize, $0.chunkSize, $0.codec) = (64 << 20, Self.chunk, codec)
        }
    }

    /// Publishes and pulls `tree`, then publishes `next`.
    private func update(_ tree: AssetTree, to next: AssetTree) throws {
        try publish(tree, revision: 1)
        #expect(try scene.pull().status == .done)
        try publish(next, revision: 2)
    }

    /// **Bytes** asked for; a whole pack counts as 20 chunks.
    private func asked(_ outcome: Scene.Outcome) -> Int {
        outcome.requests.map { $0.range?.count ?? 20 * Self.chunk }.reduce(0, +)
    }

    private static let old: [UInt64] = Array(1...20)
    private static let edited: [UInt64] = [1, 2, 77] + Array(4...20)

    @Test("Only the chunks that changed are fetched")
    func changed() throws {
        let next = Self.tree(["big": Self.edited])
        try update(Self.tree(["big": Self.old]), to: next)
        let plan = try scene.engine().plan(scene.options())
        #expect(plan.reusedBytes == UInt64(19 * Self.chunk) && plan.fetch.packBytes == UInt64(Self.chunk))
        let outcome = try scene.pull()
        #expect(outcome.status == .done && scene.problems(next) == [] && scene.staged == [])
        #expect(asked(outcome) == Self.chunk)
        #expect(outcome.report?.files.installed == 1 && outcome.report?.files.reused == 0)
        #expect(outcome.report?.bytes.reused == UInt64(19 * Self.chunk))
        #expect(outcome.values("source", of: "task.installed") == ["network"])
    }

    @Test("Chunks that moved, in the file or from another, are found where they are")
    func moved() throws {
        let next = Self.tree(["a": [9, 8, 7, 1, 2, 3], "new": [4, 24, 5, 21, 99]])
        try update(Self.tree(["a": Array(1...10), "b": Array(21...30)]), to: next)
        let outcome = try scene.pull { $0.prune = true }
        #expect(outcome.status == .done && scene.problems(next) == [] && scene.staged == [])
        #expect(asked(outcome) == Self.chunk)
        #expect(outcome.report?.files.reused == 1 && outcome.report?.files.installed == 1)
        #expect(outcome.report?.bytes.reused == UInt64(10 * Self.chunk))
    }

    @Test("A file made of chunks from here alone needs no request, nor does a whole small file as a chunk")
    func noRequest() throws {
        let next = Self.tree(["a": [3, 1, 2, 2, 1, 50], "small": [50]])
        try update(Self.tree(["a": [1, 2, 3], "small": [50]]), to: next)
        let plan = try scene.engine().plan(scene.options())
        #expect(plan.requests.isEmpty && plan.reusedBytes == UInt64(6 * Self.chunk))
        let outcome = try scene.pull()
        #expect(outcome.status == .done && outcome.requests.isEmpty && scene.problems(next) == [])
        #expect(outcome.report?.files.reused == 1 && outcome.report?.files.installed == 0)
        #expect(outcome.values("source", of: "task.installed") == ["reused"])
    }

    @Test("One chunk goes to every file that has it, from here and from the network")
    func shared() throws {
        let next = Self.tree(["a": [1, 2, 90], "b": [90, 1], "c": [2, 90, 90, 1]])
        try update(Self.tree(["a": [1, 2, 3]]), to: next)
        let outcome = try scene.pull()
        #expect(outcome.status == .done && scene.problems(next) == [])
        #expect(outcome.report?.bytes.reused == UInt64(5 * Self.chunk))
    }

    @Test(
        "Wrong local bytes are fetched instead, whoever is wrong [V13]",
        arguments: ["edited", "shortened", "emptied", "removed", "a link", "map lies", "map cut", "map gone"])
    func wrong(how: String) throws {
        let next = Self.tree(["big": Self.edited])
        try update(Self.tree(["big": Self.old]), to: next)
        var bytes = try #require(scene.root.read("dest/big"))
        var map = try #require(scene.root.read("dest/.syncagent/chunks"))
        switch how {
        case "edited":
            for position in [10, 555_555, 1_999_999] { bytes[position] ^= 1 }
            try scene.root.write(bytes, to: "dest/big")
        case "shortened": try scene.root.write(Array(bytes.prefix(1_050_000)), to: "dest/big")
        case "emptied": try scene.root.write([], to: "dest/big")
        case "removed": unlink(scene.root.path("dest/big"))
        case "a link":
            unlink(scene.root.path("dest/big"))
            try scene.root.write(Self.bytes(Self.edited), to: "outside")
            try scene.root.link("dest/big", to: scene.root.path("outside"))
        case "map lies":
            // The file looks right, and its chunks are said to be others: records of 36 bytes behind 44.
            let first = Array(map[44..<76])
            for position in 0..<32 { map[44 + position] = map[80 + position] }
            for position in 0..<32 { map[80 + position] = first[position] }
            try scene.root.write(map, to: "dest/.syncagent/chunks")
        case "map cut": try scene.root.write(Array(map.prefix(44 + 36 * 5 + 7)), to: "dest/.syncagent/chunks")
        default: unlink(scene.root.path("dest/.syncagent/chunks"))
        }
        let outcome = try scene.pull()
        #expect(outcome.status == .done && scene.problems(next) == [] && scene.staged == [])
        let fetched: [String: Int] = ["edited": 4, "shortened": 11, "map lies": 3, "map cut": 16]
        #expect(asked(outcome) >= (fetched[how] ?? 20) * Self.chunk)
        if fetched[how] != nil { #expect(asked(outcome) <= 17 * Self.chunk) }
        #expect(outcome.report?.files.installed == 1)
    }

    @Test("A map of nonsense is not believed and hurts nobody", arguments: 0..<24)
    func nonsense(seed: Int) throws {
        let next = Self.tree(["big": Self.edited])
        try update(Self.tree(["big": Self.old]), to: next)
        var map = try #require(scene.root.read("dest/.syncagent/chunks"))
        let random = patternedBytes(size: 3 * (seed + 1), seed: UInt64(seed)).map(Int.init)
        for index in stride(from: 0, to: random.count, by: 3) {
            map[(random[index] << 8 | random[index + 1]) % map.count] = UInt8(random[index + 2])
        }
        if seed % 3 == 0 { map.replaceSubrange(40..<44, with: [255, 255, 255, 255]) }
        try scene.root.write(map, to: "dest/.syncagent/chunks")
        #expect(try scene.pull().status == .done && scene.problems(next) == [] && scene.staged == [])
        // The map is whole again.
        let last = Self.tree(["big": Self.old])
        try publish(last, revision: 3)
        let outcome = try scene.pull()
        #expect(scene.problems(last) == [] && asked(outcome) == Self.chunk)
    }

    @Test("A file that changes while it is read gives no wrong file", arguments: [0, 1, 2, 3])
    func changing(round: Int) throws {
        let next = Self.tree(["big": [500] + Self.old])
        try update(Self.tree(["big": Self.old]), to: next)
        let path = scene.root.path("dest/big")
        // The first new byte comes while chunks are copied; then somebody writes into the old file.
        scene.transport.onBytes { [size = 20 * Self.chunk] _ in
            let file = open(path, O_WRONLY)
            guard file >= 0 else { return }
            var byte: UInt8 = 0xAA
            for position in stride(from: round * 1_000, to: size, by: 50_000) {
                pwrite(file, &byte, 1, off_t(position))
            }
            close(file)
        }
        let outcome = try scene.pull()
        scene.transport.onBytes { _ in }
        // The writer may also have hit the new file, once it was in place: the next pull mends that.
        if !scene.problems(next).isEmpty { #expect(try scene.pull().status == .done) }
        #expect(outcome.status == .done && scene.problems(next) == [])
    }

    @Test("A stop in the middle keeps chunks from both places, and the next run asks for the rest only [S97]")
    func stopped() throws {
        let next = Self.tree(["big": [60, 61, 62, 63] + Self.old])
        try update(Self.tree(["big": Self.old]), to: next)
        let pack = try #require(try publish(next, revision: 2).packs.first)
        let manifestBytes = UInt64(try publish(next, revision: 2).manifest.count)
        scene.transport.script(Scene.base + pack.name, .stall(after: 250_000))
        let stop = StopRequest()
        let before = scene.transport.totals.bytesReceived
        scene.transport.onBytes { if $0 >= before + manifestBytes + 250_000 { stop.stop() } }
        #expect(try scene.pull(stop: stop).report?.result == .failed)
        scene.transport.onBytes { _ in }
        #expect(scene.problems(Self.tree(["big": Self.old])) == [])
        unlink(scene.root.path("dest/.syncagent/index"))  // As after a kill.
        let outcome = try scene.pull()
        #expect(outcome.status == .done && scene.problems(next) == [] && scene.staged == [])
        #expect(asked(outcome) < 23 * Self.chunk)
    }

    @Test("What a stopped run left of a revision that was skipped gives its chunks to the one after")
    func skipped() throws {
        let middle = Self.tree(["big": [60, 61, 62, 63, 64, 65]])
        let pack = try #require(try publish(middle, revision: 1).packs.first)
        let manifestBytes = UInt64(try publish(middle, revision: 1).manifest.count)
        scene.transport.script(Scene.base + pack.name, .stall(after: 450_000))
        let stop = StopRequest()
        scene.transport.onBytes { if $0 >= manifestBytes + 450_000 { stop.stop() } }
        #expect(try scene.pull(stop: stop).report?.result == .failed)
        scene.transport.onBytes { _ in }
        let next = Self.tree(["big": [70, 61, 62, 60, 64, 65]])
        try publish(next, revision: 2)
        let outcome = try scene.pull()
        #expect(outcome.status == .done && scene.problems(next) == [] && scene.staged == [])
        let reused = Int(outcome.report?.bytes.reused ?? 0)
        #expect(reused >= 2 * Self.chunk && asked(outcome) == 6 * Self.chunk - reused)
    }

    @Test("Large files that become small, empty or links, and back")
    func shapes() throws {
        let next = AssetTree([
            "a": .file([], executable: false), "b": .link("a"), "c": .file([1, 2, 3], executable: true),
        ])
        try update(Self.tree(["a": Self.old, "b": Self.old, "c": Self.old]), to: next)
        #expect(try scene.pull().status == .done && scene.problems(next) == [])
        let last = Self.tree(["a": Self.edited, "b": [5, 6], "c": [1, 2]])
        try publish(last, revision: 3)
        #expect(try scene.pull().status == .done && scene.problems(last) == [])
    }

    @Test("Chunks of zeros become holes, from the network and from here", arguments: [Codec.identity, .zstd])
    func holes(codec: Codec) throws {
        let tree = Self.tree(["big": [1]], zeros: 4_000_000)
        try publish(tree, revision: 1, codec: codec)
        #expect(try scene.pull().status == .done && scene.problems(tree) == [])
        #expect(try diskBytes("dest/big") < 1_000_000)
        let next = Self.tree(["big": [1, 2]], zeros: 4_000_000)
        try publish(next, revision: 2, codec: codec)
        #expect(try scene.pull().status == .done && scene.problems(next) == [])
        #expect(try diskBytes("dest/big") < 1_000_000)
    }

    private func diskBytes(_ path: String) throws -> Int {
        var status = stat()
        try #require(stat(scene.root.path(path), &status) == 0)
        return Int(status.st_blocks) * 512
    }

    @Test("A second copy of what did not change is not fetched when files of several sets share a place")
    func keepsOthers() throws {
        // A selection that leaves a large file out must not forget its chunks.
        let tree = Self.tree(["a": Self.old, "b": [40, 41, 42]])
        try publish(tree, revision: 1)
        #expect(try scene.pull().status == .done)
        let without = Self.tree(["a": Self.edited])
        try publish(without, revision: 2)
        #expect(try scene.pull().status == .done)
        let again = Self.tree(["a": Self.edited, "c": [42, 41, 40]])
        try publish(again, revision: 3)
        let outcome = try scene.pull()
        #expect(outcome.status == .done && outcome.requests.isEmpty)
    }
}

import Foundation
import SyncEngine
import SyncManifest
import SyncModel
import SyncTestKit
import Testing

/// Old versions of which nobody knows the chunks are cut as the publisher cuts.
@Suite("Chunks in files of unknown origin", .timeLimit(.minutes(10)))
struct UnknownOriginTests {
    private let scene: Scene
    private static let size = 2_000_000
    private static let chunking =
        #"{"method":"\#(ChunkCutter.method)","minimum":16384,"average":65536,"maximum":262144}"#

    init() throws { scene = try Scene() }

    private static let old = patternedBytes(size: size, seed: 31)

    /// Bytes come in near the start, and one changes in the middle.
    private static var edited: AssetTree {
        var bytes = old
        bytes.insert(contentsOf: patternedBytes(size: 4_096, seed: 8), at: 1_000)
        bytes[size / 2] ^= 1
        return AssetTree(["models/big": .file(bytes, executable: false), "a": .file([1], executable: false)])
    }

    private func publish(_ tree: AssetTree, revision: Int, chunking: String? = Self.chunking) throws -> UInt64 {
        let set = try scene.publish(tree, revision: revision) { builder in
            builder.packSize = 64 << 20
            builder.chunkSize = 100_000
            builder.chunking = chunking
            builder.cut = { bytes in
                let cutter = ChunkCutter(ChunkParameters())
                var lengths: [Int] = []
                bytes.withUnsafeBytes { bytes in
                    var start = 0
                    while start < bytes.count {
                        let rest = UnsafeRawBufferPointer(rebasing: bytes[start...])
                        lengths.append(cutter.firstChunk(of: rest))
                        start += lengths[lengths.count - 1]
                    }
                }
                return lengths
            }
        }
        return UInt64(set.manifest.count)
    }

    @Test("A destination filled by other means fetches what changed only, and so does one that lost its state")
    func seeded() throws {
        let manifest = try publish(Self.edited, revision: 1)
        try scene.root.write(Self.old, to: "dest/models/big")
        let plan = try scene.engine().plan(scene.options())
        #expect(plan.reusedBytes > UInt64(Self.size / 2))
        let outcome = try scene.pull()
        #expect(outcome.status == .done && scene.problems(Self.edited) == [] && scene.staged == [])
        #expect(outcome.received < manifest + 800_000)
        #expect(outcome.report?.bytes.reused ?? 0 > UInt64(Self.size / 2))
        // All state is lost, and there is another revision.
        try FileManager.default.removeItem(atPath: scene.root.path("dest/.syncagent"))
        let back = AssetTree(["models/big": .file(Self.old, executable: true), "a": .file([1], executable: false)])
        let next = try publish(back, revision: 2)
        let second = try scene.pull()
        #expect(second.status == .done && scene.problems(back) == [])
        #expect(second.received < next + 800_000)
    }

    @Test("A file that was edited so that its chunks moved still gives them")
    func moved() throws {
        let tree = AssetTree(["models/big": .file(Self.old, executable: false)])
        _ = try publish(tree, revision: 1)
        #expect(try scene.pull().status == .done)
        try scene.root.write(Array("a line more\n".utf8) + Self.old, to: "dest/models/big")
        let manifest = try publish(Self.edited, revision: 2)
        let outcome = try scene.pull()
        #expect(outcome.status == .done && scene.problems(Self.edited) == [])
        #expect(outcome.received < manifest + 800_000)
    }

    @Test(
        "Without a hint, or with one that is no use, everything is fetched",
        arguments: [
            nil, "7", "{}", #"{"method":"other","minimum":16384,"average":65536,"maximum":262144}"#,
            #"{"method":"fastcdc-gear64-1","minimum":0,"average":0,"maximum":0}"#,
            #"{"method":"fastcdc-gear64-1","minimum":16384,"average":65536,"maximum":9223372036854775807}"#,
        ])
    func noHint(chunking: String?) throws {
        let manifest = try publish(Self.edited, revision: 1, chunking: chunking)
        try scene.root.write(Self.old, to: "dest/models/big")
        let outcome = try scene.pull()
        #expect(outcome.status == .done && scene.problems(Self.edited) == [])
        #expect(outcome.received >= manifest + UInt64(Self.size))
    }

    @Test("What stands at a place and is no file is left alone", arguments: ["empty", "link", "directory"])
    func others(what: String) throws {
        _ = try publish(Self.edited, revision: 1)
        switch what {
        case "empty": try scene.root.write([], to: "dest/models/big")
        case "link": try scene.root.link("dest/models/big", to: "/etc/passwd")
        default: try scene.root.write([1], to: "dest/models/big/inside")
        }
        let outcome = try scene.pull()
        #expect(outcome.status == (what == "directory" ? .incomplete : .done))
        if what != "directory" { #expect(scene.problems(Self.edited) == []) }
    }
}

import Foundation
import SyncManifest
import SyncModel
import SyncPlugins
import SyncTestKit
import Testing

@testable import SyncEngine

@Suite("What was verified is what counts, and nothing else is kept", .timeLimit(.minutes(10)))
struct VerifiedManifestTests {
    private let scene: Scene
    private let url = Scene.base + "manifest.json"

    init() throws { scene = try Scene() }

    private static func tree(seed: UInt64) -> AssetTree {
        var tree = AssetTree()
        tree.addFile("a/b", size: 100, seed: seed)
        return tree
    }

    /// Every manifest that is kept, with what is known of it.
    private func kept() throws -> [String: [UInt8]] {
        let names = try FileManager.default.contentsOfDirectory(atPath: scene.root.path("state/manifests"))
        return Dictionary(uniqueKeysWithValues: names.map { ($0, scene.root.read("state/manifests/\($0)") ?? []) })
    }

    @Test(
        "A manifest that was refused once is refused again, and the one before it stays the one that is known [V36]",
        arguments: [#"{"format":"x"}"#, #"{"format":"syncagent-manifest/1","project":"../x","files":[]}"#, "{"])
    func refusedAgain(text: String) throws {
        let tree = Self.tree(seed: 1)
        let set = try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        let before = try kept()
        scene.transport.serve(Array(text.utf8), at: url)
        for _ in 0..<2 {
            #expect(try scene.pull().status == .dataInvalid)
            #expect(try kept() == before)
        }
        #expect(scene.problems(tree) == [])
        // The server has the good one again: it is the one that was verified, and costs no body.
        scene.transport.serve(set.manifest, at: url)
        #expect(try scene.pull().received == 0)
    }

    @Test("A kept manifest that somebody has replaced by another good one is not taken for the verified one [V40]")
    func replaced() throws {
        let tree = Self.tree(seed: 1)
        let set = try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        let name = try #require(try kept().keys.first { $0.hasSuffix(".json") })
        let other = try scene.publish(Self.tree(seed: 2))
        try scene.root.write(other.manifest, to: "state/manifests/\(name)")
        scene.transport.serve(set.manifest, at: url)
        try FileManager.default.removeItem(atPath: scene.root.path("dest/a/b"))
        #expect(try scene.pull().status == .done)
        #expect(scene.problems(tree) == [])
        #expect(scene.root.read("state/manifests/\(name)") == set.manifest)
    }

    @Test("A small body is kept in memory up to its limit, and one byte more ends the transfer [S15]")
    func memoryLimit() {
        let sink = MemorySink(limit: 10)
        func receive(_ count: Int, at offset: UInt64) -> Bool {
            let outcome = [UInt8](repeating: 7, count: count).withUnsafeBytes { sink.receive($0, at: offset) }
            if case .taken = outcome { return true }
            return false
        }
        #expect(sink.begin(ResponseHead(status: 200)) == 0)
        #expect(receive(6, at: 0) && receive(4, at: 6))
        #expect(sink.bytes.count == 10 && !sink.overflowed)
        #expect(!receive(1, at: 10))
        #expect(sink.bytes.count == 10 && sink.overflowed)
        // An answer that begins anew does so with nothing in memory.
        #expect(sink.begin(ResponseHead(status: 200)) == 0)
        #expect(sink.bytes == [])
        // One of the same version goes on.
        func version(_ tag: String) -> ResponseHead { ResponseHead(status: 200, validator: Validator(etag: tag)) }
        #expect(sink.begin(version("\"1\"")) == 0 && receive(6, at: 0) && sink.begin(version("\"1\"")) == 6)
        #expect(sink.begin(version("\"2\"")) == 0)
    }

    @Test("A manifest longer than its limit is refused before it is all here, and nothing is made of it [S15]")
    func longManifest() throws {
        let set = try scene.publish(Self.tree(seed: 1))
        var bytes = set.manifest
        bytes += [UInt8](repeating: 0x20, count: 1 << 20)
        scene.transport.serve(bytes, at: url)
        var environment = scene.engine().environment
        environment.manifestLimits.ownTextBytes = 64 << 10
        var refusal: EngineError?
        do throws(EngineError) { _ = try PullEngine(environment).pull(scene.options()) } catch { refusal = error }
        #expect(refusal?.status == .dataInvalid)
        #expect(scene.transport.totals.bytesReceived <= 64 << 10)
        #expect(!FileManager.default.fileExists(atPath: scene.destination))
    }

    @Test(
        "Records that resuming needs begin with a mark and a version of our own; of another version they are none [S92]"
    )
    func recordVersions() throws {
        var tree = AssetTree()
        tree.addFile("large", size: 1_000_000, seed: 3)
        tree.addFile("small", size: 1_000, seed: 4)
        let set = try scene.publish(tree) {
            $0.chunkSize = 200_000
            $0.packSize = 64 << 20
        }
        let pack = Scene.base + set.packs[0].name
        scene.transport.script(pack, .stall(after: 310_000))
        let stop = StopRequest()
        scene.transport.onBytes { if $0 >= UInt64(set.manifest.count + 310_000) { stop.stop() } }
        #expect(try scene.pull(stop: stop).report?.result == .failed)
        scene.transport.onBytes { _ in }
        let begun = try #require(scene.staged.first { $0.hasSuffix(".begun") })
        try raiseVersion(of: "staging/\(begun)", "SABEGUN1")
        #expect(try scene.pull().status == .done)
        #expect(scene.problems(tree) == [])
        for (name, mark) in [("index", "SAINDEX1"), ("chunks", "SACHUNK1")] {
            try raiseVersion(of: name, mark)
            #expect(try scene.pull().status == .done)
            #expect(scene.problems(tree) == [])
        }
    }

    /// Makes a record of a version that does not exist out of one below `.syncagent`.
    private func raiseVersion(of name: String, _ mark: String) throws {
        let path = "dest/.syncagent/\(name)"
        var bytes = try #require(scene.root.read(path))
        #expect(bytes.starts(with: mark.utf8))
        bytes[7] += 1
        // In place: owner, mode and links stay as they are.
        let file = try FileHandle(forWritingTo: URL(fileURLWithPath: scene.root.path(path)))
        try file.write(contentsOf: bytes)
        try file.close()
    }
}

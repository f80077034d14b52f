import Foundation
import SyncContent
import SyncEngine
import SyncManifest
import SyncModel
import SyncTestKit
import Testing

@Suite("Reading in a manifest", .timeLimit(.minutes(10)))
struct ReadingTests {
    private let scene: Scene

    init() throws { scene = try Scene() }

    private func hand() throws -> ManifestInHand {
        try scene.engine().read(RunRecipe(manifest: Scene.base + "manifest.json"))
    }

    private func bytes(_ hand: ManifestInHand, _ path: String) throws -> [UInt8] {
        let row = try #require(hand.row(of: path))
        var bytes: [UInt8] = []
        try hand.fetch(row, in: scene.root.path) { piece throws(EngineError) in
            bytes.append(contentsOf: piece)
        }
        return bytes
    }

    @Test("Every file comes as it is, alone, and nothing is made")
    func all() throws {
        let tree = AssetTree.mixed()
        try scene.publish(tree) { $0.packSize = 200_000 }
        let hand = try hand()
        for (path, node) in tree.nodes {
            guard case .file(let content, _) = node else { continue }
            #expect(try bytes(hand, path) == content, "\(path)")
        }
        #expect(FileManager.default.subpaths(atPath: scene.root.path) == [])
    }

    @Test("One request for what the file needs of a pack, and not a byte more")
    func range() throws {
        try scene.publish(AssetTree.manySmall(40)) { $0.packSize = 200_000 }
        let hand = try hand()
        let row = 7
        scene.transport.forget()
        _ = try bytes(hand, hand.manifest.files.path(row))
        let blob = try #require(hand.manifest.files.blobs(row).first)
        #expect(scene.transport.asked.map(\.range) == [blob.range])
    }

    @Test("A path leads through links that stay in the manifest, and no further")
    func links() throws {
        var tree = AssetTree.mixed()
        tree.nodes["d/up"] = .link("../bin/plain")
        tree.nodes["d/round"] = .link("round")
        tree.nodes["d/none"] = .link("nowhere")
        tree.nodes["d/bin"] = .link("../bin")
        tree.nodes["through"] = .link("d/bin/plain")
        try scene.publish(tree)
        let hand = try hand()
        guard case .file(let content, _) = tree.nodes["bin/plain"] else { return }
        #expect(try bytes(hand, "d/up") == content)
        #expect(hand.row(of: "d/round") == nil && hand.row(of: "d/none") == nil && hand.row(of: "bin") == nil)
        let plain = try #require(hand.row(of: "bin/plain"))
        for path in ["through", "d/bin/plain"] { #expect(hand.row(of: path) == plain, "\(path)") }
        for path in ["d/bin", "through/x", "d/bin/none", "../bin/plain"] {
            #expect(hand.row(of: path) == nil, "\(path)")
        }
        #expect(hand.link(at: "d/bin") == "../bin" && hand.link(at: "bin/plain") == nil)
    }

    @Test("A source that gives other bytes is passed over for the next one")
    func mirror() throws {
        let tree = AssetTree.mixed()
        let set = try scene.publish(tree, atMirror: true)
        for pack in set.packs {
            scene.transport.serve(
                [UInt8](repeating: 7, count: pack.bytes.count), at: Scene.base + percentEncoded(pack.name))
        }
        guard case .file(let content, _) = tree.nodes["bin/plain"] else { return }
        #expect(try bytes(hand(), "bin/plain") == content)
    }

    @Test("Whoever cannot take the bytes is not given them once more from elsewhere")
    func notTaken() throws {
        try scene.publish(AssetTree.mixed(), atMirror: true)
        let hand = try hand()
        let row = try #require(hand.row(of: "bin/plain"))
        scene.transport.forget()
        var calls = 0
        let error = #expect(throws: EngineError.self) {
            try hand.fetch(row, in: scene.root.path) { _ throws(EngineError) in
                calls += 1
                throw EngineError(.ioError, "the disk is full")
            }
        }
        #expect(calls == 1 && error?.status == .ioError)
        #expect(scene.transport.asked.count == 1)
    }

    @Test("Wrong bytes from everywhere are 65, no answer is 69, and no byte is given away")
    func wrong() throws {
        let set = try scene.publish(AssetTree.mixed())
        for pack in set.packs {
            scene.transport.serve(
                [UInt8](repeating: 7, count: pack.bytes.count), at: Scene.base + percentEncoded(pack.name))
        }
        let hand = try hand()
        let row = try #require(hand.row(of: "bin/plain"))
        var given = 0
        let wrong = #expect(throws: EngineError.self) {
            try hand.fetch(row, in: scene.root.path) { piece throws(EngineError) in given += piece.count }
        }
        #expect(wrong?.status == .dataInvalid && given == 0)
        #expect(wrong?.message.hasPrefix("bin/plain: ") == true)
    }
}

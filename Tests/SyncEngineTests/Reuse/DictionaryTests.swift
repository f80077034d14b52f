import Foundation
import SyncEngine
import SyncModel
import SyncTestKit
import Testing

/// Blobs that are made with the manifest's dictionary.
@Suite("Dictionaries", .timeLimit(.minutes(10)))
struct DictionaryTests {
    private let scene: Scene

    init() throws { scene = try Scene() }

    private static let dictionary = Array(
        (0..<400).map { "the quick brown fox number \($0) jumps over the lazy dog; " }.joined().utf8)

    /// Texts out of the dictionary, and one blob that is too large for memory.
    private static func tree(edited: Int? = nil) -> AssetTree {
        var tree = AssetTree()
        for number in 0..<40 {
            let start = number * 300
            tree.addText(
                "t/\(number)",
                (number == edited ? "edited " : "") + String(decoding: dictionary[start..<(start + 900)], as: UTF8.self)
            )
        }
        let large = (0..<100).flatMap { number in dictionary.shuffledBlocks(seed: number) }
        tree.nodes["large"] = .file(large, executable: false)
        return tree
    }

    @discardableResult private func publish(_ tree: AssetTree, revision: Int = 1) throws -> PublishedSet {
        try scene.publish(tree, revision: revision) { ($0.codec, $0.dictionary) = (.zstdDictionary, Self.dictionary) }
    }

    private func dictionaryURL(_ set: PublishedSet) throws -> String {
        Scene.base + (try #require(set.packs.last).name)
    }

    @Test("Blobs come out of frames that only make sense with the dictionary, small ones and large")
    func decoded() throws {
        #expect(Self.tree().bytes("large")?.count ?? 0 > 2 << 20)
        let set = try publish(Self.tree())
        #expect(try scene.engine().plan(scene.options()).dictionaryBytes == UInt64(Self.dictionary.count))
        let outcome = try scene.pull()
        #expect(outcome.status == .done && scene.problems(Self.tree()) == [] && scene.staged == [])
        unlink(scene.root.path("dest/t/3"))
        #expect(try scene.engine().plan(scene.options()).dictionaryBytes == 0)
        #expect(outcome.requests.count { $0.url == (try? dictionaryURL(set)) } == 1)
        #expect(outcome.received < UInt64(Self.tree().byteCount))
    }

    @Test("It is fetched once: the next revision finds it here, and nothing wanted asks for it")
    func cached() throws {
        let url = try dictionaryURL(try publish(Self.tree()))
        #expect(try scene.pull().status == .done)
        #expect(scene.cachedParts.count == 1)
        #expect(try scene.pull().requests.isEmpty)
        let next = Self.tree(edited: 3)
        try publish(next, revision: 2)
        let update = try scene.pull()
        #expect(update.status == .done && scene.problems(next) == [])
        #expect(update.requests.count { $0.url == url } == 0)
        #expect(scene.cachedParts.count == 1)
        // What is kept is checked: damaged, it is fetched again.
        let name = try #require(scene.cachedParts.first)
        try scene.root.write(Array("damaged".utf8), to: "state/manifests/\(name)")
        let third = Self.tree(edited: 5)
        try publish(third, revision: 3)
        let repaired = try scene.pull()
        #expect(repaired.status == .done && scene.problems(third) == [])
        #expect(repaired.requests.count { $0.url == url } == 1)
    }

    @Test(
        "Without its dictionary nothing is fetched that could not be read, and the message says what is missing",
        arguments: ["missing", "other bytes", "no dictionary"])
    func unusable(_ how: String) throws {
        let set = try publish(Self.tree())
        let url = try dictionaryURL(set)
        switch how {
        case "missing": scene.transport.remove(url)
        case "other bytes": scene.transport.serve(Self.dictionary.map { $0 ^ 1 }, at: url)
        default:
            // The magic number of a dictionary, and then nonsense (RFC 8878 section 5).
            let nonsense = [0x37, 0xA4, 0x30, 0xEC] + [UInt8](repeating: 0xFF, count: 500)
            let plain = try scene.publish(Self.tree()) { ($0.codec, $0.dictionary) = (.zstd, nonsense) }
            let text = String(decoding: plain.manifest, as: UTF8.self)
            scene.transport.serve(
                Array(text.replacing("\"zstd\"", with: "\"zstd-dictionary\"").utf8), at: Scene.base + "manifest.json")
        }
        let outcome = try scene.pull()
        #expect(outcome.status == .incomplete || outcome.status == .unavailable)
        let reasons = outcome.values("reason", of: "task.failed")
        #expect(
            reasons.count > 0 && reasons.allSatisfy { $0.contains("the dictionary of the manifest") },
            "\(reasons.prefix(2))")
        #expect(outcome.received < 5 * UInt64(Self.dictionary.count))
        #expect(scene.problems(Self.tree(), partial: true) == [])
        // Put right, it goes on.
        if how != "no dictionary" {
            scene.transport.serve(Self.dictionary, at: url)
            #expect(try scene.pull().status == .done)
            #expect(scene.problems(Self.tree()) == [])
        }
    }

    @Test("A frame that was damaged is asked for again, and a wrong one never gets in place")
    func damagedFrame() throws {
        let set = try publish(Self.tree())
        var bytes = try #require(set.packs.first).bytes
        for position in stride(from: 30, to: bytes.count, by: 97) { bytes[position] ^= 0x10 }
        scene.transport.serve(bytes, at: Scene.base + set.packs[0].name)
        let outcome = try scene.pull()
        #expect(outcome.status == .incomplete)
        #expect(scene.problems(Self.tree(), partial: true) == [])
        scene.transport.serve(set.packs[0].bytes, at: Scene.base + set.packs[0].name)
        #expect(try scene.pull().status == .done)
        #expect(scene.problems(Self.tree()) == [])
    }
}

extension [UInt8] {
    /// The same bytes in blocks of 512, in another order for each seed.
    fileprivate func shuffledBlocks(seed: Int) -> [UInt8] {
        let blocks = stride(from: 0, to: count, by: 512).map { Array(self[$0..<Swift.min($0 + 512, count)]) }
        return blocks.indices.flatMap { blocks[($0 &* 31 &+ seed &* 17) % blocks.count] }
    }
}

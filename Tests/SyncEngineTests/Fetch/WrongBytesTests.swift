import Foundation
import SyncEngine
import SyncModel
import SyncPlugins
import SyncTestKit
import Testing

@Suite("Wrong bytes and absent sources", .timeLimit(.minutes(10)))
struct WrongBytesTests {
    private let scene: Scene

    init() throws { scene = try Scene() }

    private func flipped(_ bytes: [UInt8], at positions: Int...) -> [UInt8] {
        var bytes = bytes
        for position in positions { bytes[position] ^= 0x40 }
        return bytes
    }

    private static func tree() -> AssetTree {
        var tree = AssetTree()
        for number in 0..<10 { tree.addFile("f\(number)", size: 5_000, seed: UInt64(number + 1)) }
        return tree
    }

    /// One pack, its URL, and the position of a file's first byte in it.
    private func onePack(_ tree: AssetTree, codec: Codec = .identity, atMirror: Bool = false) throws -> (
        bytes: [UInt8], url: String, name: String
    ) {
        let set = try scene.publish(tree, atMirror: atMirror) {
            $0.codec = codec
            $0.packSize = 64 << 20
        }
        let pack = try #require(set.packs.first)
        return (pack.bytes, Scene.base + pack.name, pack.name)
    }

    @Test(
        "Wrong bytes in one entry are asked for once more, and only they [S128 F010]",
        arguments: [Codec.identity, .zstd])
    func once(codec: Codec) throws {
        let tree = Self.tree()
        let pack = try onePack(tree, codec: codec)
        scene.transport.script(pack.url, .bytes(flipped(pack.bytes, at: pack.bytes.count / 2)))
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(scene.problems(tree) == [])
        #expect(outcome.requests.map(\.reload) == [false, true])
        let again = try #require(outcome.requests.last?.range)
        #expect(again.count < 6_000)
        #expect(scene.transport.faulty == [pack.url])
    }

    @Test("Of web mirrors with a local pack between them the one that lied is blamed [S128 F043]")
    func faulty() throws {
        let tree = Self.tree()
        let pack = try onePack(tree)
        let manifest = try #require(scene.transport.object(at: Scene.base + "manifest.json"))
        let (away, liar) = ("http://away.test/p", "http://liar.test/p")
        let text = String(decoding: manifest, as: UTF8.self).replacing(
            "\"url\":\"\(pack.name)\"", with: "\"urls\":[\"\(away)\",\"\(pack.name)\",\"\(liar)\"]")
        try #require(text.contains(liar), "\(text.prefix(400))")
        try scene.root.write(Array(text.utf8), to: "manifest.json")
        scene.transport.script(liar, .bytes(flipped(pack.bytes, at: pack.bytes.count / 2)))
        scene.transport.serve(pack.bytes, at: liar)
        let outcome = try scene.pull(manifest: scene.root.path("manifest.json"))
        #expect(outcome.status == .done)
        #expect(scene.transport.faulty == [liar])
        // Named, although another helped.
        #expect(outcome.values("source", of: "source.wrong_bytes") == [liar])
        let event = try #require(outcome.events.first { $0["event"] as? String == "source.wrong_bytes" })
        let path = try #require(event["path"] as? String)
        #expect(event["sha256"] as? String == (try Scene.digest(tree.bytes(path) ?? []).hex))
        let got = try #require(event["got_sha256"] as? String)
        #expect(got.count == 64 && got != event["sha256"] as? String)
    }

    @Test(
        "A file whose bytes stay wrong fails by name, and every other file is in place [S128 F043]",
        arguments: [Codec.identity, .zstd])
    func stays(codec: Codec) throws {
        let tree = Self.tree()
        let pack = try onePack(tree, codec: codec)
        scene.transport.serve(flipped(pack.bytes, at: 5), at: pack.url)
        let outcome = try scene.pull()
        #expect(outcome.status == .incomplete && outcome.report?.result == .partial)
        #expect(outcome.report?.files.installed == 9 && outcome.report?.files.failed == 1)
        #expect(outcome.values("path", of: "task.failed") == ["f0"])
        #expect(outcome.values("reason", of: "task.failed").first?.contains("assets.test") == true)
        #expect(scene.problems(tree, partial: true) == [])
        #expect(AssetTree.read(scene.destination).nodes.count == 9)
        #expect(outcome.requests.count == 2)
        // Once the server is right again, only this file is asked for.
        scene.transport.serve(pack.bytes, at: pack.url)
        let next = try scene.pull()
        #expect(next.status == .done && next.report?.files.installed == 1)
        #expect(scene.problems(tree) == [])
    }

    @Test("After a lie the mirror is asked [V39]", arguments: [false, true])
    func mirror(chunked: Bool) throws {
        var tree = Self.tree()
        if chunked {
            tree = AssetTree();
            tree.addFile("big", size: 3_000_000, seed: 9)
        }
        let set = try scene.publish(tree, atMirror: true) {
            $0.packSize = 64 << 20
            $0.chunkSize = chunked ? 500_000 : nil
        }
        let pack = try #require(set.packs.first)
        scene.transport.serve(flipped(pack.bytes, at: 10), at: Scene.base + pack.name)
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(scene.problems(tree) == [])
        #expect(outcome.requests.last?.url == Scene.mirror + pack.name)
        #expect(outcome.requests.filter(\.reload).map(\.url) == [Scene.mirror + pack.name])
        #expect(scene.transport.faulty == [Scene.base + pack.name])
    }

    @Test("Of three mirrors the third is asked if the first two lie [V42]")
    func threeMirrors() throws {
        let tree = Self.tree()
        let pack = try onePack(tree)
        let manifest = try #require(scene.transport.object(at: Scene.base + "manifest.json"))
        let liars = ["http://one.test/p", "http://two.test/p"]
        let text = String(decoding: manifest, as: UTF8.self).replacing(
            "\"url\":\"\(pack.name)\"", with: "\"urls\":[\"\(liars[0])\",\"\(liars[1])\",\"http://three.test/p\"]")
        scene.transport.serve(Array(text.utf8), at: Scene.base + "manifest.json")
        for liar in liars { scene.transport.serve(flipped(pack.bytes, at: 10), at: liar) }
        scene.transport.serve(pack.bytes, at: "http://three.test/p")
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(scene.problems(tree) == [])
        #expect(outcome.requests.map(\.url) == liars + ["http://three.test/p"])
        #expect(scene.transport.faulty == liars)
    }

    @Test("Bytes from another source over those of a transfer that broke off are checked, too [V42 V43 R10]")
    func secondDelivery() throws {
        var tree = AssetTree()
        tree.addFile("big", size: 3_000_000, seed: 4)
        let set = try scene.publish(tree) { ($0.packSize, $0.hasFallbackURLs) = (64 << 20, true) }
        let pack = try #require(set.packs.first)
        scene.transport.script(Scene.base + pack.name, .cut(after: 1_500_000, .unreachable))
        scene.transport.serve(flipped(try #require(tree.bytes("big")), at: 10), at: Scene.base + "files/big")
        let outcome = try scene.pull()
        #expect(outcome.status == .incomplete || outcome.status == .unavailable)
        #expect(AssetTree.read(scene.destination).paths == [], "no wrong bytes are in place")
    }

    @Test("A pack that has gone is made up for by the files' own URLs")
    func fallback() throws {
        let tree = Self.tree()
        let set = try scene.publish(tree) { $0.hasFallbackURLs = true }
        for pack in set.packs { scene.transport.remove(Scene.base + pack.name) }
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(scene.problems(tree) == [])
        #expect(outcome.requests.count == 11)
    }

    @Test("A pack that keeps lying is made up for by the file's own URL")
    func lyingPack() throws {
        let tree = Self.tree()
        let set = try scene.publish(tree) { $0.hasFallbackURLs = true }
        let pack = try #require(set.packs.first)
        scene.transport.serve(flipped(pack.bytes, at: 7), at: Scene.base + pack.name)
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(scene.problems(tree) == [])
        #expect(
            outcome.requests.map(\.url) == [Scene.base + pack.name, Scene.base + pack.name, Scene.base + "files/f0"])
    }

    @Test("A large chunked file with bad chunks asks for those chunks only", arguments: [Codec.identity, .zstd])
    func chunks(codec: Codec) throws {
        var tree = AssetTree.large(1, size: 4_000_000)
        tree.addFile("small", size: 100, seed: 3)
        let set = try scene.publish(tree) { ($0.packSize, $0.chunkSize, $0.codec) = (64 << 20, 250_000, codec) }
        let pack = try #require(set.packs.first)
        let url = Scene.base + pack.name
        scene.transport.script(url, .bytes(flipped(pack.bytes, at: 300_000, 3_100_000)))
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(scene.problems(tree) == [])
        let again = outcome.requests.filter(\.reload)
        #expect(again.compactMap { $0.range?.count }.reduce(0, +) < 600_000)
    }

    @Test(
        "A large blob that comes out wrong is fetched again, also when decoding broke off half way",
        arguments: [0, 1, 2, 3])
    func largeBlob(variant: Int) throws {
        var tree = AssetTree()
        if variant < 2 {
            tree = .compressible(1, lines: 120_000)
        } else {
            tree.addFile("big", size: 3_000_000, seed: 4)
        }
        let set = try scene.publish(tree) {
            $0.packSize = 64 << 20
            $0.codec = variant.isMultiple(of: 2) ? .zstd : .identity
        }
        let pack = try #require(set.packs.first)
        for position in [pack.bytes.count / 2, pack.bytes.count - 2] {
            try #require(AssetTree.read(scene.destination).paths.isEmpty)
            scene.transport.script(Scene.base + pack.name, .bytes(flipped(pack.bytes, at: position)))
            let outcome = try scene.pull()
            #expect(outcome.status == .done, "position \(position)")
            #expect(scene.problems(tree) == [])
            #expect(scene.staged == [])
            try FileManager.default.removeItem(atPath: scene.destination)
        }
    }

    @Test("A loose file with wrong bytes is asked for again from its mirror")
    func looseLie() throws {
        var tree = AssetTree()
        tree.addFile("movie", size: 2_000_000, seed: 8)
        let set = try scene.publish(tree, atMirror: true) { $0.looseAbove = 0 }
        let file = try #require(set.loose.first)
        scene.transport.serve(flipped(file.bytes, at: 1_999_999), at: Scene.base + file.name)
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(scene.problems(tree) == [])
        #expect(outcome.requests.map(\.url) == [Scene.base, Scene.mirror].map { $0 + file.name })
    }

    @Test("A loose file whose transfer broke off goes on where it stopped, in the same run")
    func looseBroken() throws {
        var tree = AssetTree()
        tree.addFile("movie", size: 2_000_000, seed: 8)
        let set = try scene.publish(tree) { $0.looseAbove = 0 }
        let url = Scene.base + (try #require(set.loose.first).name)
        scene.transport.script(url, .cut(after: 1_500_000, .timedOut))
        let outcome = try scene.pull()
        #expect(outcome.status == .done)
        #expect(scene.problems(tree) == [])
        #expect(outcome.requests.map(\.range) == [nil, 1_500_000..<2_000_000])
    }

    @Test("A pack shorter than the manifest says fails what it lacks, by name")
    func shortPack() throws {
        let tree = Self.tree()
        let pack = try onePack(tree)
        scene.transport.script(pack.url, .cut(after: 12_000, .badAnswer), .cut(after: 12_000, .badAnswer))
        let outcome = try scene.pull()
        #expect(outcome.status == .incomplete)
        #expect(outcome.report?.files.installed == 2 && outcome.report?.files.failed == 8)
        #expect(scene.problems(tree, partial: true) == [])
    }

    @Test(
        "When no source answers, the status says why [G16]",
        arguments: [
            (TransferError.Code.unreachable, ExitCode.unavailable), (.timedOut, .unavailable),
            (.redirectRefused, .refused), (.refusedByPolicy, .refused), (.badStatus(404), .incomplete),
            (.authentication, .refused), (.badStatus(403), .refused),
        ])
    func noSource(code: TransferError.Code, status: ExitCode) throws {
        let tree = Self.tree()
        let pack = try onePack(tree)
        scene.transport.script(pack.url, .fail(code), .fail(code), .fail(code))
        let outcome = try scene.pull()
        #expect(outcome.status == status && outcome.report?.result == .failed)
        #expect(outcome.report?.files.failed == 10)
        #expect(AssetTree.read(scene.destination).paths.isEmpty)
    }
}

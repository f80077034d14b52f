import Foundation
import SyncTestKit
import Testing

@Suite("Asset trees and their packs are the same every time", .timeLimit(.minutes(10)))
struct AssetTreeTests {
    @Test("A tree written and read again is the same; each difference is named")
    func roundTrip() throws {
        let root = try TemporaryRoot()
        let tree = AssetTree.mixed()
        try tree.write(to: root)
        try root.write("private", to: ".syncagent/id")
        #expect(AssetTree.read(root.path).nodes == tree.nodes)
        #expect(tree.problems(in: root.path) == [])

        try root.write("other", to: "bin/plain")
        try root.write("new", to: "stray")
        try FileManager.default.removeItem(atPath: root.path("bin/run"))
        #expect(tree.problems(in: root.path) == ["bin/plain: not as published", "bin/run: missing", "stray: foreign"])
        #expect(tree.problems(in: root.path, partial: true).count == 2)
    }

    @Test("Equal seeds give equal trees, and odd names survive a disk")
    func deterministic() {
        #expect(AssetTree.manySmall(100).nodes == AssetTree.manySmall(100).nodes)
        #expect(AssetTree.manySmall(100, seed: 9).nodes != AssetTree.manySmall(100).nodes)
        #expect(AssetTree.oddNames().paths.count == 22)
        #expect(AssetTree.large(2, size: 1_000).byteCount == 2_000)
    }

    @Test("A temporary root is gone with its last reference")
    func temporaryRoot() throws {
        var root: TemporaryRoot? = try TemporaryRoot()
        let path = try #require(root?.path)
        try root?.write([1], to: "a/b/c")
        try root?.link("a/out", to: "/")
        root = nil
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    struct Document: Decodable {
        struct Pack: Decodable {
            let url: String
            let size: Int
            let sha256: String
        }
        struct File: Decodable {
            let path: String
            let size: Int?
            let sha256: String?
            let blobs: [[Value]]?
            let urls: [String]?
            let link: String?
        }
        enum Value: Decodable {
            case number(Int), text(String)
            init(from decoder: any Decoder) throws {
                let container = try decoder.singleValueContainer()
                if let number = try? container.decode(Int.self) {
                    self = .number(number)
                } else {
                    self = .text(try container.decode(String.self))
                }
            }
            var number: Int { if case .number(let number) = self { number } else { -1 } }
        }
        let packs: [Pack]
        let files: [File]
    }

    @Test("Blobs of a built set give the files back", arguments: [nil, 65_536])
    func blobsReassemble(chunkSize: Int?) throws {
        var builder = ManifestBuilder(.mixed())
        builder.chunkSize = chunkSize
        builder.packSize = 200_000
        builder.looseAbove = chunkSize == nil ? 500_000 : nil
        let set = try builder.build()
        #expect(try builder.build().manifest == set.manifest, "equal input gives equal output")

        let document = try JSONDecoder().decode(Document.self, from: Data(set.manifest))
        #expect(document.packs.map(\.url) == set.packs.map(\.name))
        #expect(document.packs.map(\.size) == set.packs.map(\.bytes.count))
        for file in document.files {
            if file.link != nil { continue }
            var bytes: [UInt8] = []
            for blob in file.blobs ?? [] {
                let (pack, offset, length) = (blob[0].number, blob[1].number, blob[2].number)
                bytes += set.packs[pack].bytes[offset..<(offset + length)]
            }
            for url in file.urls ?? [] {
                bytes += try #require(set.loose.first { percentEncoded($0.name) == url }).bytes
            }
            #expect(bytes == set.tree.bytes(file.path), "\(file.path)")
        }
    }

    @Test("A built set is served under its names")
    func mounted() throws {
        let set = try ManifestBuilder(.oddNames()).build()
        let server = try FaultServer()
        set.mount(on: server)
        #expect(RawAnswer(port: server.port, "/tower/manifest.json")?.body == set.manifest)
        let pack = try #require(set.packs.first)
        #expect(RawAnswer(port: server.port, "/tower/\(pack.name)")?.body == pack.bytes)
    }
}

import Foundation
import SyncContent
import SyncManifest
import SyncModel
import Testing

@Suite(.timeLimit(.minutes(10)))
struct PublishedSampleTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "Manifests/samples")

    @Test(
        "The published samples are whole: every blob of their packs gives the bytes their manifests name",
        arguments: ["published", "parts", "differences", "dictionary"])
    func whole(_ name: String) throws {
        let folder = Self.folder.appending(path: name)
        let text = [UInt8](try Data(contentsOf: folder.appending(path: "manifest.json")))
        var assembly = try ManifestAssembly(text, digest: .zero)
        for part in assembly.parts {
            var raw: [UInt8] = []
            for (number, own) in part.chain.enumerated() {
                let (blob, url) = (own.blob, try #require(assembly.pack(of: own).urls.first))
                let pack = [UInt8](try Data(contentsOf: folder.appending(path: url)))
                let stored = Array(pack[Int(blob.offset)..<Int(blob.range.upperBound)])
                let length = Int(blob.rawLength)
                raw = try BlobDecoder.decode(
                    stored, as: blob.codec, behind: number == 0 ? nil : raw, length: length)
                #expect(try digest(raw) == own.digest)
            }
            try raw.withUnsafeBytes { try assembly.add($0) }
        }
        let manifest = try assembly.finish()
        #expect(manifest.parts.isEmpty == !["parts", "differences"].contains(name))
        #expect(manifest.parts.allSatisfy(\.from.isEmpty) == (name != "differences"))
        let packs = try manifest.packs.map { pack in
            let url = try #require(pack.urls.first)
            let bytes = [UInt8](try Data(contentsOf: folder.appending(path: url)))
            #expect(UInt64(bytes.count) == pack.size)
            #expect(try digest(bytes) == pack.sha256)
            return bytes
        }
        let dictionary = try manifest.dictionary.map { named throws in
            let bytes = Array(packs[Int(named.blob.pack)][Int(named.blob.offset)..<Int(named.blob.range.upperBound)])
            #expect(named.blob.codec == .identity)
            #expect(try digest(bytes) == named.digest)
            return try bytes.withUnsafeBytes { try DecodingDictionary($0) }
        }
        #expect((dictionary != nil) == (name == "dictionary"))
        let files = manifest.files
        for row in files.indices where files.kind(row) != .link {
            var content: [UInt8] = []
            for blob in files.blobs(row) {
                let stored = Array(packs[Int(blob.pack)][Int(blob.offset)..<Int(blob.range.upperBound)])
                let raw =
                    switch blob.codec {
                    case .identity: stored
                    case .zstd: try decompressed(stored, Int(blob.rawLength))
                    case .zstdDictionary: try decompressed(stored, Int(blob.rawLength), with: try #require(dictionary))
                    }
                #expect(try digest(raw) == files.digest(of: blob, in: row))
                content += raw
            }
            #expect(UInt64(content.count) == files.size(row))
            #expect(try digest(content) == files.digest(row))
        }
        #expect(files.indices.map(files.path).contains("run.sh"))
    }

    private func digest(_ bytes: [UInt8]) throws -> SHA256Digest { try bytes.withUnsafeBytes { try sha256($0) } }

    private func decompressed(_ bytes: [UInt8], _ count: Int, with dictionary: DecodingDictionary) throws -> [UInt8] {
        var decoder = try ZstdDecompressor()
        var raw = [UInt8](repeating: 0, count: count)
        try bytes.withUnsafeBytes { bytes in
            try raw.withUnsafeMutableBytes { try decoder.decode(bytes, with: dictionary, into: $0) }
        }
        return raw
    }

    private func decompressed(_ bytes: [UInt8], _ limit: Int) throws -> [UInt8] {
        try decodeZstd(bytes, limit: limit)
    }
}

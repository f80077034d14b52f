import Foundation
import SyncCompression
import SyncDigest
import SyncManifest
import SyncModel
import Testing

@Suite(.timeLimit(.minutes(1)))
struct PublishedSampleTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "Manifests/samples/published")

    @Test("The published sample is whole: every blob of its pack gives the bytes its manifest names [G1]")
    func whole() throws {
        let text = [UInt8](try Data(contentsOf: Self.folder.appending(path: "manifest.json")))
        let manifest = try ManifestLoader.load(text, digest: .zero)
        let packs = try manifest.packs.map { pack in
            let url = try #require(pack.urls.first)
            let bytes = [UInt8](try Data(contentsOf: Self.folder.appending(path: url)))
            #expect(UInt64(bytes.count) == pack.size)
            #expect(try digest(bytes) == pack.sha256)
            return bytes
        }
        let files = manifest.files
        for row in files.indices where files.kind(row) != .link {
            var content: [UInt8] = []
            for blob in files.blobs(row) {
                let stored = Array(packs[Int(blob.pack)][Int(blob.offset)..<Int(blob.range.upperBound)])
                let raw = blob.codec == .zstd ? try decompressed(stored, Int(blob.rawLength)) : stored
                #expect(try digest(raw) == files.digest(of: blob, in: row))
                content += raw
            }
            #expect(UInt64(content.count) == files.size(row))
            #expect(try digest(content) == files.digest(row))
        }
        #expect(files.indices.map(files.path).contains("run.sh"))
    }

    private func digest(_ bytes: [UInt8]) throws -> SHA256Digest {
        try bytes.withUnsafeBytes { try sha256($0) }
    }

    private func decompressed(_ bytes: [UInt8], _ limit: Int) throws -> [UInt8] {
        try bytes.withUnsafeBytes { try decodeZstd($0, limit: limit) }
    }
}

import Foundation
import SyncContent
import SyncManifest
import SyncModel
import SyncPublisher
import SyncTestKit

/// A directory to publish, an output, and what came out.
struct PublishedSet {
    let root: TemporaryRoot
    var options: PublishOptions

    init() throws {
        root = try TemporaryRoot()
        try FileManager.default.createDirectory(atPath: root.path("in"), withIntermediateDirectories: true)
        options = PublishOptions(directory: root.path("in"), output: root.path("out"))
        options.project = "com.example.tower"
        options.created = "2026-11-20T02:00:00Z"
        options.jobs = 2
        options.chunkThreshold = 64 << 10
        options.chunks = ChunkParameters(minimum: 2 << 10, average: 8 << 10, maximum: 32 << 10)
        options.packSize = 256 << 10
    }

    init(_ tree: AssetTree) throws {
        try self.init()
        try tree.write(to: root, under: "in")
    }

    /// Replaces the source.
    func replace(_ tree: AssetTree) throws {
        try FileManager.default.removeItem(atPath: root.path("in"))
        try FileManager.default.createDirectory(atPath: root.path("in"), withIntermediateDirectories: true)
        try tree.write(to: root, under: "in")
    }

    @discardableResult func publish(_ change: (inout PublishOptions) -> Void = { _ in }) throws(PublishError)
        -> PublishReport
    {
        var options = options
        change(&options)
        return try options.publish()
    }

    /// The error a publish ends with.
    func failure(_ change: (inout PublishOptions) -> Void = { _ in }) -> PublishError? {
        do throws(PublishError) {
            try publish(change)
            return nil
        } catch { return error }
    }

    /// Every file below a directory, by relative path.
    func bytes(below directory: String) throws -> [String: [UInt8]] {
        var found: [String: [UInt8]] = [:]
        let base = root.path(directory)
        guard FileManager.default.fileExists(atPath: base) else { return [:] }
        for path in try FileManager.default.subpathsOfDirectory(atPath: base) {
            if let bytes = root.read("\(directory)/\(path)"), FileManager.default.isRegularFile("\(base)/\(path)") {
                found[path] = bytes
            }
        }
        return found
    }

    /// The manifest, as the loader reads it.
    func manifest(_ output: String = "out") throws -> Manifest {
        let bytes = root.read("\(output)/manifest.json") ?? []
        let own = try digest(bytes)
        var assembly = try ManifestAssembly(bytes, digest: own)
        for part in assembly.parts {
            var raw: [UInt8] = []
            for (number, own) in part.chain.enumerated() {
                let (blob, length) = (own.blob, Int(own.blob.rawLength))
                let pack = root.read("\(output)/\(assembly.pack(of: own).urls[0])") ?? []
                guard blob.range.upperBound <= UInt64(pack.count) else { throw Wrong("a part's pack") }
                let stored = Array(pack[Int(blob.offset)..<Int(blob.range.upperBound)])
                raw = try BlobDecoder.decode(
                    stored, as: blob.codec, behind: number == 0 ? nil : raw, length: length)
                guard try digest(raw) == own.digest else { throw Wrong("a part") }
            }
            try raw.withUnsafeBytes { try assembly.add($0) }
        }
        return try assembly.finish()
    }

    /// The set as who pulls it would have it: every blob cut out, decoded and checked.
    func unpacked(_ output: String = "out") throws -> AssetTree {
        let manifest = try manifest(output)
        let packs = try manifest.packs.map { pack throws in
            let bytes = root.read("\(output)/\(pack.urls[0])") ?? []
            guard UInt64(bytes.count) == pack.size, try digest(bytes) == pack.sha256 else {
                throw Wrong("pack \(pack.sha256)")
            }
            return bytes
        }
        let dictionary = try manifest.dictionary.map { named throws in
            let blob = named.blob
            let stored = Array(packs[Int(blob.pack)][Int(blob.offset)..<Int(blob.range.upperBound)])
            let raw = blob.codec == .zstd ? try decodeZstd(stored, limit: Int(blob.rawLength)) : stored
            guard try digest(raw) == named.digest else { throw Wrong("the dictionary") }
            return try raw.withUnsafeBytes { try DecodingDictionary($0) }
        }
        var decoder = try ZstdDecompressor()
        var tree = AssetTree()
        for row in manifest.files.indices {
            let path = manifest.files.path(row)
            if let target = manifest.files.linkTarget(row) {
                tree.nodes[path] = .link(target)
                continue
            }
            var content: [UInt8] = []
            for blob in manifest.files.blobs(row) {
                let stored = Array(packs[Int(blob.pack)][Int(blob.offset)..<Int(blob.range.upperBound)])
                var raw = blob.codec == .zstd ? try decodeZstd(stored, limit: Int(blob.rawLength)) : stored
                if blob.codec == .zstdDictionary, let dictionary {
                    raw = [UInt8](repeating: 0, count: Int(blob.rawLength))
                    try stored.withUnsafeBytes { stored in
                        try raw.withUnsafeMutableBytes { try decoder.decode(stored, with: dictionary, into: $0) }
                    }
                }
                guard UInt64(raw.count) == blob.rawLength, try digest(raw) == manifest.files.digest(of: blob, in: row)
                else { throw Wrong("a blob of \(path)") }
                content += raw
            }
            guard try digest(content) == manifest.files.digest(row) else { throw Wrong(path) }
            tree.nodes[path] = .file(content, executable: manifest.files.kind(row) == .executable)
        }
        return tree
    }

    struct Wrong: Error {
        let what: String
        init(_ what: String) { self.what = what }
    }
}

func digest(_ bytes: [UInt8]) throws -> SHA256Digest { try bytes.withUnsafeBytes { try sha256($0) } }

extension FileManager {
    func isRegularFile(_ path: String) -> Bool {
        (try? attributesOfItem(atPath: path))?[.type] as? FileAttributeType == .typeRegular
    }
}

import SyncContent
import SyncModel

/// A published set in memory: a manifest, and one pack where it is wanted. Paths stand in path order.
struct SmallSet {
    private(set) var manifest: [UInt8] = []
    private(set) var pack: [UInt8] = []
    /// **Bytes** of all files.
    private(set) var rawBytes = 0

    /// A set of files that nobody has: digests are made up, and there is no pack. For readers of manifests and planners.
    static func imaginary(files: Int) throws -> SmallSet {
        var source = Bytes(seed: 4)
        var set = SmallSet()
        var entries: [Entry] = []
        var offset = 0
        for index in 0..<files {
            let stored = 512 + Int(source.next() % 24_000)
            let digest = source.noise(32).withUnsafeBytes { SHA256Digest(bytes: $0) }
            guard let digest else { throw WrongResult("no digest") }
            entries.append(
                Entry(path: path(index), raw: stored * 2, digest: digest, offset: offset, stored: stored, codec: .zstd))
            set.rawBytes += stored * 2
            offset += stored
        }
        set.write(entries, packSize: offset, packDigest: .zero)
        return set
    }

    /// A set with its pack: every other file is text and compressed.
    static func real(files: Int, of length: Int) throws -> SmallSet {
        var source = Bytes(seed: 5)
        var set = SmallSet()
        var entries: [Entry] = []
        var compressor = try ZstdCompressor(level: 3)
        for index in 0..<files {
            let isText = index % 2 == 0
            let raw = Array((isText ? source.text(length) : source.noise(length)).prefix(length))
            let digest = try raw.withUnsafeBytes { bytes in try sha256(bytes) }
            let offset = set.pack.count
            if isText {
                var frame = [UInt8](repeating: 0, count: ZstdCompressor.bound(length))
                let count = try raw.withUnsafeBytes { bytes in
                    try frame.withUnsafeMutableBytes { try compressor.encode(bytes, into: $0) }
                }
                set.pack += frame.prefix(count ?? 0)
            } else {
                set.pack += raw
            }
            let codec: Codec = isText ? .zstd : .identity
            let stored = set.pack.count - offset
            entries.append(
                Entry(path: path(index), raw: length, digest: digest, offset: offset, stored: stored, codec: codec))
            set.rawBytes += length
        }
        let packDigest = try set.pack.withUnsafeBytes { bytes in try sha256(bytes) }
        set.write(entries, packSize: set.pack.count, packDigest: packDigest)
        return set
    }

    private struct Entry {
        var path: String
        var raw: Int
        var digest: SHA256Digest
        var offset: Int
        var stored: Int
        var codec: Codec
    }

    /// 40 files a directory.
    static func path(_ index: Int) -> String {
        let (directory, file) = (String(100_000 + index / 40), String(1_000_000 + index))
        return "textures/d\(directory)/f\(file).bin"
    }

    private mutating func write(_ entries: [Entry], packSize: Int, packDigest: SHA256Digest) {
        manifest =
            JSONLine.object { line in
                line.field("format", "syncagent-manifest/1")
                line.field("project", "org.example.benchmark")
                line.key("packs")
                line.array { packs in
                    packs.object {
                        $0.field("url", "packs/\(packDigest.hex).pack")
                        $0.field("size", packSize)
                        $0.field("sha256", packDigest.hex)
                    }
                }
                line.key("files")
                line.array { files in
                    for entry in entries {
                        files.object { file in
                            file.field("path", entry.path)
                            file.field("size", entry.raw)
                            file.field("sha256", entry.digest.hex)
                            file.key("blobs")
                            file.raw("[[0,\(entry.offset),\(entry.stored),\(entry.raw),\"\(entry.codec.name)\"]]")
                        }
                    }
                }
            }.bytes
    }
}

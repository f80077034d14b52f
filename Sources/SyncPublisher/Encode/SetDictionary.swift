import SyncCompression
import SyncDigest
import SyncManifest
import SyncModel

/// The dictionary for the blobs of a publish: a new one, or the base's.
struct SetDictionary: Sendable {
    let bytes: [UInt8]
    let encoding: EncodingDictionary

    /// The lowest zstd level for blobs with a dictionary: of 152 MiB of texts, a dictionary of 4 MiB left 37 MiB with
    /// level 3, 17 with 6 and 8 with 9; of 57,895 icons, one of 512 KiB left 32, 30 and 29 MiB of 45.
    static let leastLevel: Int32 = 9

    init(_ bytes: [UInt8], level: Int32) throws(PublishError) {
        self.bytes = bytes
        encoding = try calling {
            try bytes.withUnsafeBytes { try EncodingDictionary($0, level: max(level, Self.leastLevel)) }
        }
    }

    /// A dictionary as stored in a pack.
    struct Stored {
        let bytes: [UInt8]
        let codec: Codec
    }

    /// Its stored form: a zstd frame, or the raw bytes.
    func stored() throws(PublishError) -> Stored {
        var compressor = try calling { try ZstdCompressor(level: ManifestFiles.level) }
        let frame = try compressor.encode(bytes, most: max(0, BlobEncoder.limit(bytes.count)))
        return Stored(bytes: frame ?? bytes, codec: frame == nil ? .identity : .zstd)
    }

    /// Writes it to a pack of its own, where it stays whatever happens to the blobs.
    func write(
        _ stored: Stored,
        to writer: PackWriter,
        firstPack: Int
    ) throws(PublishError) -> Manifest.SharedDictionary {
        let place = try writer.append(stored.bytes)
        try writer.cut()
        guard let pack = UInt32(exactly: firstPack + place.pack) else { throw .tooManyBlobs }
        let blob = Blob(
            pack: pack,
            codec: stored.codec,
            digestIndex: nil,
            offset: place.offset,
            storedLength: UInt64(stored.bytes.count),
            rawLength: UInt64(bytes.count)
        )
        return Manifest.SharedDictionary(blob: blob, digest: try calling { try sha256(bytes) })
    }
}

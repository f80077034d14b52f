import SyncContent
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

    /// Its zstd frame; `nil` where that would be little shorter.
    func frame() throws(PublishError) -> [UInt8]? {
        try calling {
            var compressor = try ZstdCompressor(level: ManifestFiles.level)
            return try compressor.encode(bytes, most: max(0, BlobEncoder.limit(bytes.count)))
        }
    }
}

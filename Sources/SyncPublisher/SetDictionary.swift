import SyncCompression
import SyncDigest
import SyncManifest
import SyncModel

/// The dictionary that the blobs of a publish are made with: new, or the base's.
struct SetDictionary: Sendable {
    let bytes: [UInt8]
    let encoding: EncodingDictionary

    /// zstd's level for blobs at least: of 152 MiB of texts, 4 MiB of dictionary left 37 MiB with level 3, 17 with 6
    /// and 8 with 9; of 57,895 icons, 512 KiB left 32, 30 and 29 MiB of 45.
    static let leastLevel: Int32 = 9

    init(_ bytes: [UInt8], level: Int32) throws(PublishError) {
        self.bytes = bytes
        let made: Result<EncodingDictionary, CompressionError> = bytes.withUnsafeBytes { bytes in
            do throws(CompressionError) {
                return .success(try EncodingDictionary(bytes, level: max(level, Self.leastLevel)))
            } catch {
                return .failure(error)
            }
        }
        do { encoding = try made.get() } catch { throw .refusedCall(error) }
    }

    /// Its stored form: a zstd frame, or the bytes as they are.
    func stored() throws(PublishError) -> (bytes: [UInt8], codec: Codec) {
        do {
            var compressor = try ZstdCompressor(level: ManifestFiles.level)
            var target = [UInt8](repeating: 0, count: BlobEncoder.limit(bytes.count))
            let length = try bytes.withUnsafeBytes { raw in
                try target.withUnsafeMutableBytes { try compressor.encode(raw, into: $0) }
            }
            return length.map { (Array(target[..<$0]), .zstd) } ?? (bytes, .identity)
        } catch {
            throw .refusedCall(error)
        }
    }

    /// Writes it to a pack of its own, so that it stays where it is whatever becomes of the blobs.
    ///
    /// - Parameter firstPack: The number of the writer's first pack in the catalogue.
    func write(
        to writer: PackWriter,
        firstPack: Int
    ) throws(PublishError) -> Manifest.SharedDictionary {
        let (stored, codec) = try stored()
        let result: Result<(pack: Int, offset: UInt64), PublishError> = stored.withUnsafeBytes { stored in
            do throws(PublishError) { return .success(try writer.append(stored)) } catch {
                return .failure(error)
            }
        }
        let place = try result.get()
        try writer.cut()
        guard let pack = UInt32(exactly: firstPack + place.pack) else { throw .tooManyBlobs }
        let digest: Result<SHA256Digest, DigestError> = bytes.withUnsafeBytes { bytes in
            do throws(DigestError) { return .success(try sha256(bytes)) } catch { return .failure(error) }
        }
        do {
            return Manifest.SharedDictionary(
                blob: Blob(
                    pack: pack,
                    codec: codec,
                    digestIndex: nil,
                    offset: place.offset,
                    storedLength: UInt64(stored.count),
                    rawLength: UInt64(bytes.count)
                ),
                digest: try digest.get()
            )
        } catch {
            throw .refusedCall(error)
        }
    }
}

import SyncCompression
import SyncDigest
import SyncFiles
import SyncModel

/// Hashes raw bytes and decides how they are stored; one for each worker.
struct BlobEncoder: ~Copyable {
    private var hasher: SHA256Hasher
    private var compressor: ZstdCompressor
    private let scratch: UnsafeMutableRawBufferPointer
    /// The digest of so many zeros, the last that were asked for: holes are cut into chunks of one length.
    private var zeros: (count: Int, digest: SHA256Digest)?

    /// Blobs from this many **bytes** on are probed before the whole is compressed.
    static let probedSize = 64 << 10
    /// **Bytes** of each probe.
    static let probeSize = 8 << 10

    /// Makes an encoder for one zstd level.
    static func make(level: Int32) throws(PublishError) -> BlobEncoder {
        do {
            return BlobEncoder(hasher: try SHA256Hasher(), compressor: try ZstdCompressor(level: level))
        } catch {
            throw .refusedCall(error)
        }
    }

    private init(hasher: consuming SHA256Hasher, compressor: consuming ZstdCompressor) {
        self.hasher = hasher
        self.compressor = compressor
        scratch = .allocate(byteCount: Self.probeSize, alignment: 16)
    }

    deinit { scratch.deallocate() }

    /// The longest stored length that is worth a decoder's time: 5 % less, and at least 32 **bytes**.
    static func limit(_ count: Int) -> Int { count - max(count / 20, 32) }

    mutating func digest(_ raw: UnsafeRawBufferPointer) throws(PublishError) -> SHA256Digest {
        let isZero = raw.count >= Self.probedSize && raw.isZero
        if isZero, let zeros, zeros.count == raw.count { return zeros.digest }
        let digest: SHA256Digest
        do throws(DigestError) { digest = try hasher.digest(of: raw) } catch { throw .refusedCall(error) }
        if isZero { zeros = (raw.count, digest) }
        return digest
    }

    /// Compresses `raw` into `target`, which has room for as many bytes.
    ///
    /// - Returns: The stored length, or `nil` when storing it as it is costs little more.
    mutating func compress(
        _ raw: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) throws(PublishError) -> Int? {
        let limit = Self.limit(raw.count)
        guard limit > 0, target.count >= limit else { return nil }
        do throws(CompressionError) {
            if raw.count >= Self.probedSize, try !isPromising(raw) { return nil }
            return try compressor.encode(raw, into: UnsafeMutableRawBufferPointer(rebasing: target[..<limit]))
        } catch {
            throw .refusedCall(error)
        }
    }

    /// Whether the start, the middle or the end of it shrinks.
    private mutating func isPromising(_ raw: UnsafeRawBufferPointer) throws(CompressionError) -> Bool {
        let size = Self.probeSize
        let target = UnsafeMutableRawBufferPointer(rebasing: scratch[..<Self.limit(size)])
        for start in [0, (raw.count - size) / 2, raw.count - size] {
            let probe = UnsafeRawBufferPointer(rebasing: raw[start..<(start + size)])
            if try compressor.encode(probe, into: target) != nil { return true }
        }
        return false
    }
}

@available(*, unavailable)
extension BlobEncoder: Sendable {}

import SyncCompression
import SyncDigest
import SyncFiles
import SyncModel

/// Hashes raw bytes and decides how they are stored; one per worker.
struct BlobEncoder: ~Copyable {
    private var hasher: SHA256Hasher
    private var compressor: ZstdCompressor
    private var withDictionary: ZstdCompressor?
    /// Holds frames made with the dictionary.
    private var other = UnsafeMutableRawBufferPointer(start: nil, count: 0)
    private let scratch: UnsafeMutableRawBufferPointer
    /// The last digest of zeros and their number: holes are cut into chunks of one length.
    private var zeros: (count: Int, digest: SHA256Digest)?

    /// Blobs of at least this many **bytes** are probed before they are compressed.
    static let probedSize = 64 << 10
    /// **Bytes** of each probe.
    static let probeSize = 8 << 10

    /// Blobs up to this many **bytes** are tried with the dictionary even if they do not shrink without it.
    static let shortSize = 1 << 10

    /// How a blob is stored.
    struct Encoded {
        /// **Bytes**.
        var length: Int
        var codec: Codec
        /// **Bytes** saved by the dictionary.
        var saved = 0
    }

    /// Makes an encoder for one zstd level, and a dictionary that has its own.
    static func make(level: Int32, dictionary: EncodingDictionary? = nil) throws(PublishError) -> BlobEncoder
    {
        do {
            var encoder = BlobEncoder(
                hasher: try SHA256Hasher(),
                compressor: try ZstdCompressor(level: level)
            )
            if let dictionary { encoder.withDictionary = try ZstdCompressor(with: dictionary) }
            return encoder
        } catch {
            throw .refusedCall(error)
        }
    }

    private init(hasher: consuming SHA256Hasher, compressor: consuming ZstdCompressor) {
        self.hasher = hasher
        self.compressor = compressor
        scratch = .allocate(byteCount: Self.probeSize, alignment: 16)
    }

    deinit {
        scratch.deallocate()
        other.deallocate()
    }

    /// The longest stored length that is worth decoding: 5 % less, and at least 32 **bytes**.
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
    /// - Returns: How it is stored, or `nil` when storing it as it is costs little more.
    mutating func compress(
        _ raw: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) throws(PublishError) -> Encoded? {
        let limit = Self.limit(raw.count)
        guard limit > 0, target.count >= limit else { return nil }
        do throws(CompressionError) {
            if raw.count >= Self.probedSize, try !isPromising(raw) { return nil }
            let plain = try compressor.encode(
                raw,
                into: UnsafeMutableRawBufferPointer(rebasing: target[..<limit])
            )
            if plain != nil || raw.count <= Self.shortSize,
                let length = try encodeWithDictionary(raw, most: plain.map { $0 - max($0 / 32, 8) } ?? limit)
            {
                target.copyMemory(from: UnsafeRawBufferPointer(rebasing: other[..<length]))
                return Encoded(
                    length: length,
                    codec: .frame(withDictionary: true),
                    saved: (plain ?? raw.count) - length
                )
            }
            return plain.map { Encoded(length: $0, codec: .frame(withDictionary: false)) }
        } catch {
            throw .refusedCall(error)
        }
    }

    /// Encodes into ``other``; `nil` without a dictionary, and if the frame would exceed `most` **bytes**.
    private mutating func encodeWithDictionary(
        _ raw: UnsafeRawBufferPointer,
        most: Int
    ) throws(CompressionError) -> Int? {
        guard withDictionary != nil, most > 0 else { return nil }
        if other.count < most {
            other.deallocate()
            other = .allocate(byteCount: most, alignment: 16)
        }
        return try withDictionary?.encode(raw, into: UnsafeMutableRawBufferPointer(rebasing: other[..<most]))
    }

    /// Whether its start, middle or end shrinks.
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

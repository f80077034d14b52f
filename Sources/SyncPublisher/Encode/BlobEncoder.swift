import SyncContent
import SyncFiles
import SyncModel

/// Hashes raw bytes and decides how they are stored; one per worker.
struct BlobEncoder: ~Copyable {
    private var hasher: SHA256Hasher
    private var compressor: BlobCompressor
    private var withDictionary: BlobCompressor?
    /// Holds frames made with the dictionary.
    private var other = UnsafeMutableRawBufferPointer(start: nil, count: 0)
    private let scratch: UnsafeMutableRawBufferPointer
    /// The length of the last blob that was all zeros, in **bytes**, and its digest: holes are cut into chunks of one
    /// length.
    private var zeros: (count: Int, digest: SHA256Digest)?

    /// Blobs of at least this many **bytes** are probed before they are compressed.
    static let probedSize = 64 << 10
    /// **Bytes** of each probe.
    static let probeSize = 8 << 10

    /// Blobs up to this many **bytes** are tried with the dictionary even if they do not shrink without it.
    static let shortSize = 1 << 10

    /// Makes an encoder for one zstd level. The dictionary has a level of its own.
    init(level: Int32, dictionary: EncodingDictionary? = nil) throws(PublishError) {
        let hasher = try calling { try SHA256Hasher() }
        let compressor = try calling { try BlobCompressor(level: level) }
        let withDictionary =
            if let dictionary { try calling { try BlobCompressor(with: dictionary) } } else { nil as BlobCompressor? }
        self.hasher = hasher
        self.compressor = compressor
        self.withDictionary = withDictionary
        scratch = .allocate(byteCount: Self.probeSize, alignment: 16)
    }

    deinit {
        scratch.deallocate()
        other.deallocate()
    }

    /// The longest compressed length that is worth decoding: 5 % less than `count` **bytes**, and at least 32 **bytes**
    /// less.
    static func limit(_ count: Int) -> Int { count - max(count / 20, 32) }

    mutating func digest(_ raw: UnsafeRawBufferPointer) throws(PublishError) -> SHA256Digest {
        let isZero = raw.count >= Self.probedSize && raw.isZero
        if isZero, let zeros, zeros.count == raw.count { return zeros.digest }
        let digest = try calling { try hasher.digest(of: raw) }
        if isZero { zeros = (raw.count, digest) }
        return digest
    }

    /// Compresses `raw` into `target`, which has room for as many bytes.
    ///
    /// - Returns: The stored length in **bytes**, its codec, and how many **bytes** the dictionary saves; `nil` when
    ///   storing `raw` as it is costs little more.
    mutating func compress(_ raw: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer)
        throws(PublishError) -> (length: Int, codec: Codec, saved: Int)?
    {
        let limit = Self.limit(raw.count)
        guard limit > 0, target.count >= limit else { return nil }
        if raw.count >= Self.probedSize, try !isPromising(raw) { return nil }
        let room = UnsafeMutableRawBufferPointer(rebasing: target[..<limit])
        let plain = try calling { try compressor.encode(raw, into: room) }
        if plain != nil || raw.count <= Self.shortSize, let codec = withDictionary?.codec,
            let length = try encodeWithDictionary(raw, most: plain.map { $0 - max($0 / 32, 8) } ?? limit)
        {
            target.copyMemory(from: UnsafeRawBufferPointer(rebasing: other[..<length]))
            return (length, codec, (plain ?? raw.count) - length)
        }
        guard let plain else { return nil }
        return (plain, compressor.codec, 0)
    }

    /// Encodes into ``other``; `nil` without a dictionary, and if the frame would exceed `most` **bytes**.
    private mutating func encodeWithDictionary(_ raw: UnsafeRawBufferPointer, most: Int) throws(PublishError) -> Int? {
        guard withDictionary != nil, most > 0 else { return nil }
        if other.count < most {
            other.deallocate()
            other = .allocate(byteCount: most, alignment: 16)
        }
        let room = UnsafeMutableRawBufferPointer(rebasing: other[..<most])
        return try calling { try withDictionary?.encode(raw, into: room) }
    }

    /// Whether the start, the middle or the end of the blob shrinks.
    private mutating func isPromising(_ raw: UnsafeRawBufferPointer) throws(PublishError) -> Bool {
        let size = Self.probeSize
        let target = UnsafeMutableRawBufferPointer(rebasing: scratch[..<Self.limit(size)])
        for start in [0, (raw.count - size) / 2, raw.count - size] {
            let probe = UnsafeRawBufferPointer(rebasing: raw[start..<(start + size)])
            if try calling({ try compressor.encode(probe, into: target) }) != nil { return true }
        }
        return false
    }
}

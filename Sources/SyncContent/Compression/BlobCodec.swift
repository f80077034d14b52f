package import SyncModel

// What becomes of a blob's bytes by its codec. Whoever reads or writes blobs asks here: a codec of its own is a case of
// `Codec` and what is done with it in this file.

/// Decodes blobs, one context for all of them. Not `Sendable`: one context belongs to one thread at a time.
package struct BlobDecoder: ~Copyable {
    private var zstd: ZstdDecompressor

    package init() throws(CompressionError) { zstd = try ZstdDecompressor() }

    /// Decodes one whole blob into `target`, which must be exactly filled.
    ///
    /// - Parameter dictionary: The manifest's; used where the codec needs it.
    package mutating func decode(
        _ stored: UnsafeRawBufferPointer, as codec: Codec, with dictionary: DecodingDictionary?,
        into target: UnsafeMutableRawBufferPointer
    ) throws(CompressionError) {
        switch codec {
        case .identity:
            guard stored.count == target.count else {
                throw CompressionError(reason: "\(stored.count) bytes, not \(target.count)")
            }
            target.copyMemory(from: stored)
        case .zstd: try zstd.decode(stored, into: target)
        case .zstdDictionary: try zstd.decode(stored, with: dictionary, into: target)
        }
    }

    /// Decodes one whole delta, which was made behind `base`. Deltas are zstd frames, whatever blobs are.
    package mutating func decode(
        delta stored: UnsafeRawBufferPointer, behind base: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) throws(CompressionError) { try zstd.decode(stored, behind: base, into: target) }

    /// Decodes a blob held in memory that has at most `limit` raw **bytes**, without a dictionary.
    package static func decode(_ stored: UnsafeRawBufferPointer, as codec: Codec, limit: Int) throws(CompressionError)
        -> [UInt8]
    {
        switch codec {
        case .identity: Array(stored)
        case .zstd, .zstdDictionary: try decodeZstd(stored, limit: limit)
        }
    }

    /// Most **bytes** of a blob's beginning that ``window(of:startingWith:)`` asks for.
    package static let longestHeader = FrameHeader.longest

    /// The most **bytes** that decoding a compressed blob in pieces keeps besides one block; `nil` when `bytes`, which are
    /// its first ones, do not say so yet.
    package static func window(of codec: Codec, startingWith bytes: [UInt8]) throws(CompressionError) -> UInt64? {
        switch codec {
        case .identity: 0
        case .zstd, .zstdDictionary: try FrameHeader.window(bytes)
        }
    }

    /// Starts a compressed blob that arrives in pieces, see ``decodeNext(_:into:)``.
    package mutating func begin(_ codec: Codec, with dictionary: DecodingDictionary?) throws(CompressionError) {
        switch codec {
        case .identity, .zstd: try zstd.begin()
        case .zstdDictionary: try zstd.begin(with: dictionary)
        }
    }

    /// Decodes as much as input and output allow.
    package mutating func decodeNext(_ input: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer)
        throws(CompressionError) -> ZstdDecompressor.Progress
    { try zstd.decodeNext(input, into: target) }
}

/// Compresses blobs, one context for all of them. Not `Sendable`, as ``BlobDecoder``.
package struct BlobCompressor: ~Copyable {
    private var zstd: ZstdCompressor
    /// What it makes.
    package let codec: Codec

    /// - Parameter level: 1...19.
    package init(level: Int32) throws(CompressionError) {
        zstd = try ZstdCompressor(level: level)
        codec = .zstd
    }

    /// With a dictionary, at the dictionary's level.
    package init(with dictionary: EncodingDictionary) throws(CompressionError) {
        zstd = try ZstdCompressor(with: dictionary)
        codec = .zstdDictionary
    }

    /// Encodes `raw` into `target`.
    ///
    /// - Returns: The stored length in **bytes**; `nil` when `target` is too small for it.
    package mutating func encode(_ raw: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer)
        throws(CompressionError) -> Int?
    { try zstd.encode(raw, into: target) }
}

package import SyncModel

// What is done with a blob's bytes, by its codec. All readers and writers of blobs call this file: a new codec is a
// case of `Codec` and its branches here.

/// Decodes blobs, whatever their codec, one context for all of them.
package typealias BlobDecoder = ZstdDecompressor

/// Compresses blobs, one context for all of them.
package typealias BlobCompressor = ZstdCompressor

extension BlobCompressor {
    /// The codec of the blobs it makes.
    package var codec: Codec { dictionary == nil ? .zstd : .zstdDictionary }
}

extension BlobDecoder {
    /// Decodes one whole blob into `target`, which must be exactly filled.
    ///
    /// - Parameter dictionary: The manifest's dictionary, used if the codec needs it.
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
        case .zstd: try decode(stored, into: target)
        case .zstdDictionary: try decode(stored, with: dictionary, into: target)
        }
    }

    /// Decodes a blob held in memory, without a dictionary.
    ///
    /// - Parameters:
    ///   - prefix: The bytes behind which it was encoded; `nil` for none.
    ///   - length: Its raw **bytes**. More are not decoded; fewer are noticed by the digest.
    package static func decode(_ stored: [UInt8], as codec: Codec, behind prefix: [UInt8]?, length: Int)
        throws(CompressionError) -> [UInt8]
    {
        guard let prefix else { return codec.isCompressed ? try decodeZstd(stored, limit: length) : stored }
        var decoder = try BlobDecoder()
        var raw = [UInt8](repeating: 0, count: length)
        try stored.withUnsafeBufferPointer { stored throws(CompressionError) in
            try prefix.withUnsafeBufferPointer { prefix throws(CompressionError) in
                try raw.withUnsafeMutableBufferPointer { raw throws(CompressionError) in
                    try decoder.decode(
                        UnsafeRawBufferPointer(stored), behind: UnsafeRawBufferPointer(prefix),
                        into: UnsafeMutableRawBufferPointer(raw))
                }
            }
        }
        return raw
    }

    /// Starts a compressed blob that arrives in pieces, see ``decodeNext(_:into:)``.
    package mutating func begin(_ codec: Codec, with dictionary: DecodingDictionary?) throws(CompressionError) {
        try begin(with: codec.needsDictionary ? dictionary : nil)
    }

    /// Most **bytes** of a frame that ``window(startingWith:)`` needs.
    package static let longestHeader = 18

    /// The most **bytes** that decoding a frame in pieces holds besides one block: its window, or its content if that
    /// is stated to be shorter; `nil` if `bytes`, the first ones of the frame, do not contain the whole header. RFC
    /// 8878 section 3.1.1.1.
    package static func window(startingWith bytes: [UInt8]) throws(CompressionError) -> UInt64? {
        let magic: [UInt8] = [0x28, 0xB5, 0x2F, 0xFD]
        guard bytes.prefix(4).elementsEqual(magic.prefix(bytes.count)) else {
            throw CompressionError(reason: "this is not a zstd frame")
        }
        guard bytes.count > 4 else { return nil }
        let descriptor = bytes[4]
        let isSingle = descriptor & 0x20 != 0
        let dictionary = [0, 1, 2, 4][Int(descriptor & 3)]
        let content = [isSingle ? 1 : 0, 2, 4, 8][Int(descriptor >> 6)]
        let contentStart = 5 + (isSingle ? 0 : 1) + dictionary
        guard bytes.count >= contentStart + content else { return nil }
        var size: UInt64?
        if content > 0 {
            var value: UInt64 = content == 2 ? 256 : 0
            for index in (0..<content).reversed() { value &+= UInt64(bytes[contentStart + index]) << UInt64(8 * index) }
            size = value
        }
        guard !isSingle else { return size }
        let base = UInt64(1) << UInt64(10 + bytes[5] >> 3)
        return min(base + base / 8 * UInt64(bytes[5] & 7), size ?? .max)
    }
}

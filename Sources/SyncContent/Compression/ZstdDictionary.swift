import CZstd

/// A dictionary for decoding frames, digested once. Many threads may use it at a time.
///
/// RFC 8878 section 5: bytes that begin with its magic number are a dictionary in that format, any others are
/// content alone. <https://facebook.github.io/zstd/zstd_manual.html>
///
/// The pointer is a constant, to a `ZSTD_DDict` that libzstd only reads in a decompression (its functions take it as
/// `const`). It is freed with the last reference, when no thread can be decoding with it.
package final class DecodingDictionary: @unchecked Sendable {  // Safe: immutable; libzstd takes it as const.
    let raw: OpaquePointer

    /// Digests a dictionary; the bytes are copied. `ZSTD_createDDict`.
    ///
    /// - Throws: ``CompressionError`` if the bytes are not a dictionary, or there is no memory.
    package init(_ bytes: UnsafeRawBufferPointer) throws(CompressionError) {
        guard let raw = ZSTD_createDDict(bytes.baseAddress, bytes.count) else {
            throw CompressionError(reason: "this is not a zstd dictionary")
        }
        self.raw = raw
    }

    deinit { ZSTD_freeDDict(raw) }
}

/// A dictionary for encoding frames, digested once for one level. Many threads may use it at a time: libzstd
/// takes a `ZSTD_CDict` as `const`, and it is freed with the last reference.
package final class EncodingDictionary: @unchecked Sendable {  // Safe: immutable; libzstd takes it as const.
    let raw: OpaquePointer

    /// Digests a dictionary; the bytes are copied. `ZSTD_createCDict`.
    ///
    /// - Parameter level: 1...19; used instead of the compressor's.
    package init(_ bytes: UnsafeRawBufferPointer, level: Int32) throws(CompressionError) {
        guard let raw = ZSTD_createCDict(bytes.baseAddress, bytes.count, level) else {
            throw CompressionError(reason: "no memory for a dictionary")
        }
        self.raw = raw
    }

    deinit { ZSTD_freeCDict(raw) }
}

/// Trains a dictionary on samples: their common content, the most frequent last. `ZDICT_trainFromBuffer_fastCover`.
///
/// Equal samples give an equal dictionary with one libzstd. Takes about as long as compressing the samples twice.
///
/// - Returns: The dictionary in the format of RFC 8878 section 5, of at most `capacity` **bytes**; `nil` if there are
///   fewer than 8 samples, or they are too much alike.
package func trainDictionary(_ samples: UnsafeRawBufferPointer, sizes: [Int], capacity: Int) -> [UInt8]? {
    guard sizes.count >= 8, let count = UInt32(exactly: sizes.count) else { return nil }
    var parameters = ZDICT_fastCover_params_t()
    // Segments of 1 KiB: of 64 to 2,048 bytes the best, or near it, for icons, texts, and game data.
    (parameters.k, parameters.d, parameters.f, parameters.accel) = (1024, 8, 20, 2)
    var dictionary = [UInt8](repeating: 0, count: capacity)
    let length = dictionary.withUnsafeMutableBytes {
        ZDICT_trainFromBuffer_fastCover($0.baseAddress, $0.count, samples.baseAddress, sizes, count, parameters)
    }
    guard ZDICT_isError(length) == 0 else { return nil }
    return Array(dictionary[..<length])
}

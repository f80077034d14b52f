import CZstd

/// zstd refused a frame or a call.
package struct CompressionError: Error, Equatable, CustomStringConvertible {
    /// The reason, in zstd's words or ours.
    package let reason: String

    package var description: String { "zstd: \(reason)" }

    /// The error for a size_t result; `nil` if the result is a size. `ZSTD_isError`.
    static func from(_ result: Int) -> CompressionError? {
        guard ZSTD_isError(result) != 0 else { return nil }
        return CompressionError(reason: String(cString: ZSTD_getErrorName(result)))
    }

    /// Checks that every size_t result is a size.
    static func check(_ results: Int...) throws(CompressionError) {
        for result in results { if let error = from(result) { throw error } }
    }
}

/// Decodes zstd frames, with one context for all of them.
///
/// Not `Sendable`: one context belongs to one thread at a time. <https://facebook.github.io/zstd/zstd_manual.html>
package struct ZstdDecompressor: ~Copyable {
    private let context: OpaquePointer
    /// The dictionary that ``context`` refers to, if any.
    private var dictionary: DecodingDictionary?

    /// Creates a context that refuses windows above `2^windowLog` bytes, so that memory stays bounded.
    package init(maximumWindowLog: Int32 = 27) throws(CompressionError) {
        guard let context = ZSTD_createDCtx() else { throw CompressionError(reason: "no memory for a decoder") }
        let result = ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, maximumWindowLog)
        if let error = CompressionError.from(result) {
            ZSTD_freeDCtx(context)
            throw error
        }
        self.context = context
    }

    deinit { ZSTD_freeDCtx(context) }

    /// Decodes one whole frame into `target`, which must be exactly filled. `ZSTD_decompress_usingDDict`.
    ///
    /// - Parameter dictionary: The dictionary of the frame; `nil` for none.
    package mutating func decode(
        _ frame: UnsafeRawBufferPointer, with dictionary: DecodingDictionary? = nil,
        into target: UnsafeMutableRawBufferPointer
    ) throws(CompressionError) {
        let (out, source) = (target.baseAddress, frame.baseAddress)
        let result =
            if let dictionary {
                ZSTD_decompress_usingDDict(context, out, target.count, source, frame.count, dictionary.raw)
            } else { ZSTD_decompressDCtx(context, out, target.count, source, frame.count) }
        if let error = CompressionError.from(result) { throw error }
        guard result == target.count else {
            throw CompressionError(reason: "frame holds \(result) bytes, not \(target.count)")
        }
    }

    /// Decodes whole frames, one after the other. `ZSTD_decompressDCtx`.
    ///
    /// - Returns: **Bytes** in `target`, or zstd's error.
    borrowing func decodeAll(_ frames: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer) -> Int {
        ZSTD_decompressDCtx(context, target.baseAddress, target.count, frames.baseAddress, frames.count)
    }

    /// Decodes one whole frame that was encoded behind `prefix`. `ZSTD_DCtx_refPrefix`.
    package mutating func decode(
        _ frame: UnsafeRawBufferPointer, behind prefix: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) throws(CompressionError) {
        try CompressionError.check(ZSTD_DCtx_refPrefix(context, prefix.baseAddress, prefix.count))
        try decode(frame, into: target)
    }

    /// Starts a frame that arrives in pieces, see ``decodeNext(_:into:)``.
    ///
    /// - Parameter dictionary: The dictionary of the frame.
    package mutating func begin(with dictionary: DecodingDictionary? = nil) throws(CompressionError) {
        try CompressionError.check(
            ZSTD_DCtx_reset(context, ZSTD_reset_session_only), ZSTD_DCtx_refDDict(context, dictionary?.raw))
        self.dictionary = dictionary
    }

    /// Decodes as much as input and output allow. `ZSTD_decompressStream`.
    ///
    /// - Returns: The **bytes** taken from the input, and those written to the output.
    package mutating func decodeNext(_ input: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer)
        throws(CompressionError) -> (consumed: Int, produced: Int, frameEnded: Bool)
    {
        var source = ZSTD_inBuffer(src: input.baseAddress, size: input.count, pos: 0)
        var sink = ZSTD_outBuffer(dst: target.baseAddress, size: target.count, pos: 0)
        let result = ZSTD_decompressStream(context, &sink, &source)
        if let error = CompressionError.from(result) { throw error }
        return (source.pos, sink.pos, result == 0)
    }
}

/// Decodes zstd frames held in memory, such as `manifest.json.zst`, which need not state their length, to at most
/// `limit` **bytes**; a bomb stops there.
///
/// They are decoded in place, without a window beside the output, so no more memory is touched than bytes are decoded,
/// whatever a frame claims. `ZSTD_decompressDCtx`.
package func decodeZstd(_ input: [UInt8], limit: Int) throws(CompressionError) -> [UInt8] {
    let tooMuch = CompressionError(reason: "more than \(limit) bytes inside")
    let decompressor = try ZstdDecompressor()
    let capacity = try input.withUnsafeBufferPointer { input throws(CompressionError) -> Int? in
        try room(for: UnsafeRawBufferPointer(input), limit: limit)
    }
    guard let capacity else { throw tooMuch }
    var result = 0
    let output = [UInt8](unsafeUninitializedCapacity: capacity) { buffer, used in
        result = input.withUnsafeBytes { decompressor.decodeAll($0, into: UnsafeMutableRawBufferPointer(buffer)) }
        used = ZSTD_isError(result) == 0 ? result : 0
    }
    guard let error = CompressionError.from(result) else { return output }
    switch ZSTD_getErrorCode(result) {
    case ZSTD_error_dstSize_tooSmall: throw tooMuch
    case ZSTD_error_srcSize_wrong: throw CompressionError(reason: "the last frame is cut short")
    default: throw error
    }
}

/// The **bytes** that the frames state together, or `limit` if one states none; `nil` above `limit`.
private func room(for input: UnsafeRawBufferPointer, limit: Int) throws(CompressionError) -> Int? {
    guard !input.isEmpty else { throw CompressionError(reason: "the last frame is cut short") }
    var (rest, sum) = (input, 0)
    while !rest.isEmpty {
        let content = ZSTD_getFrameContentSize(rest.baseAddress, rest.count)
        // ZSTD_CONTENTSIZE_UNKNOWN and ZSTD_CONTENTSIZE_ERROR; the decoder reports the error.
        guard content < .max - 1 else { return limit }
        let length = ZSTD_findFrameCompressedSize(rest.baseAddress, rest.count)
        guard ZSTD_isError(length) == 0, length > 0 else { return limit }
        guard let content = Int(exactly: content), content <= limit - sum else { return nil }
        sum += content
        rest = UnsafeRawBufferPointer(rebasing: rest[length...])
    }
    return sum
}

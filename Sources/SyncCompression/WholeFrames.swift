import CZstd

/// Decodes zstd frames held in memory, such as `manifest.json.zst`, which need not say how long they are.
///
/// They are decoded in place, without a window beside the output, so no more memory is touched than bytes come out,
/// whatever a frame says of itself. `ZSTD_decompressDCtx`.
///
/// - Parameters:
///   - limit: Most **bytes** to produce; a bomb stops there (V46).
/// - Throws: ``CompressionError`` for damaged or unfinished input, and for output past `limit`.
package func decodeZstd(_ input: UnsafeRawBufferPointer, limit: Int) throws(CompressionError) -> [UInt8] {
    let tooMuch = CompressionError(reason: "more than \(limit) bytes inside")
    let decompressor = try ZstdDecompressor()
    guard let room = try room(for: input, limit: limit) else { throw tooMuch }
    var result = 0
    let output = [UInt8](unsafeUninitializedCapacity: room) { buffer, used in
        result = decompressor.decodeAll(input, into: UnsafeMutableRawBufferPointer(buffer))
        used = ZSTD_isError(result) == 0 ? result : 0
    }
    guard let error = CompressionError.from(result) else { return output }
    switch ZSTD_getErrorCode(result) {
    case ZSTD_error_dstSize_tooSmall: throw tooMuch
    case ZSTD_error_srcSize_wrong: throw CompressionError(reason: "the last frame is cut short")
    default: throw error
    }
}

/// **Bytes** that the frames give together as far as they say so, and `limit` when one does not; `nil` above `limit`.
private func room(for input: UnsafeRawBufferPointer, limit: Int) throws(CompressionError) -> Int? {
    guard !input.isEmpty else { throw CompressionError(reason: "the last frame is cut short") }
    var (rest, sum) = (input, 0)
    while !rest.isEmpty {
        let content = ZSTD_getFrameContentSize(rest.baseAddress, rest.count)
        // ZSTD_CONTENTSIZE_UNKNOWN and ZSTD_CONTENTSIZE_ERROR; the decoder says what is wrong.
        guard content < .max - 1 else { return limit }
        let length = ZSTD_findFrameCompressedSize(rest.baseAddress, rest.count)
        guard ZSTD_isError(length) == 0, length > 0 else { return limit }
        guard let content = Int(exactly: content), content <= limit - sum else { return nil }
        sum += content
        rest = UnsafeRawBufferPointer(rebasing: rest[length...])
    }
    return sum
}

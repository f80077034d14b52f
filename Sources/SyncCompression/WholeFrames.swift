/// Decodes zstd frames held in memory whose raw size is not known, such as `manifest.json.zst`.
///
/// - Parameters:
///   - limit: Most **bytes** to produce; a bomb stops there (V46).
/// - Throws: ``CompressionError`` for damaged or unfinished input, and for output past `limit`.
package func decodeZstd(_ input: UnsafeRawBufferPointer, limit: Int) throws(CompressionError) -> [UInt8] {
    var decompressor = try ZstdDecompressor()
    try decompressor.begin()
    var output: [UInt8] = []
    let step = 1 << 18
    let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: step, alignment: 16)
    defer { piece.deallocate() }
    var rest = input
    var ended = false
    while true {
        let progress = try decompressor.decodeNext(rest, into: piece)
        guard output.count + progress.produced <= limit else {
            throw CompressionError(reason: "more than \(limit) bytes inside")
        }
        output.append(contentsOf: UnsafeRawBufferPointer(rebasing: piece[..<progress.produced]))
        rest = UnsafeRawBufferPointer(rebasing: rest[progress.consumed...])
        ended = progress.frameEnded
        if rest.isEmpty, ended || progress.produced < step { break }
    }
    guard ended else { throw CompressionError(reason: "the last frame is cut short") }
    return output
}

import CZstd

/// Makes one zstd frame of input that comes in pieces and whose whole length is known.
///
/// The frame carries its raw size, so a reader can bound what it will hold. Not `Sendable`.
package struct ZstdStream: ~Copyable {
    private let context: OpaquePointer

    /// Starts a frame of `size` **bytes** in all. `ZSTD_CCtx_setPledgedSrcSize`
    package init(level: Int32, size: UInt64) throws(CompressionError) {
        context = try ZstdCompressor.context {
            [ZSTD_CCtx_setParameter($0, ZSTD_c_compressionLevel, level), ZSTD_CCtx_setPledgedSrcSize($0, size)]
        }
    }

    deinit { ZSTD_freeCCtx(context) }

    /// Encodes the next piece and hands over what comes out; the last piece ends the frame.
    package mutating func encode<E: Error>(
        _ raw: UnsafeRawBufferPointer, isLast: Bool, _ take: (UnsafeRawBufferPointer) throws(E) -> Void
    ) throws(E) -> CompressionError? {
        let target = UnsafeMutableRawBufferPointer.allocate(byteCount: ZSTD_CStreamOutSize(), alignment: 16)
        defer { target.deallocate() }
        var source = ZSTD_inBuffer(src: raw.baseAddress, size: raw.count, pos: 0)
        while true {
            var sink = ZSTD_outBuffer(dst: target.baseAddress, size: target.count, pos: 0)
            let rest = ZSTD_compressStream2(context, &sink, &source, isLast ? ZSTD_e_end : ZSTD_e_continue)
            if let error = CompressionError.from(rest) { return error }
            try take(UnsafeRawBufferPointer(rebasing: target[..<sink.pos]))
            if isLast ? rest == 0 : source.pos == source.size { return nil }
        }
    }
}

/// The version of libzstd that is in use, such as `1.5.4`.
package func zstdVersion() -> String { ZSTD_versionString().map { String(cString: $0) } ?? "?" }

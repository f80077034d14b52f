import CZstd

/// Encodes zstd frames, with one context for all of them.
///
/// Frames carry their raw size and no checksum: the manifest's SHA-256 is the check.
/// Not `Sendable`: one context belongs to one thread at a time.
package struct ZstdCompressor: ~Copyable {
    private let context: OpaquePointer
    /// The dictionary that ``context`` refers to, if any.
    private(set) var dictionary: EncodingDictionary?

    /// Creates a context for one level, 1...19. The same level and input give the same frame with one libzstd.
    package init(level: Int32) throws(CompressionError) {
        context = try Self.context { [ZSTD_CCtx_setParameter($0, ZSTD_c_compressionLevel, level)] }
    }

    /// Creates a context whose frames are encoded with a dictionary, at the dictionary's level. They do not name it:
    /// the reader knows which one to use. `ZSTD_CCtx_refCDict`.
    ///
    /// The dictionary's tables are used in place (`ZSTD_dictForceAttach`). libzstd would copy them for frames
    /// above 32 KiB, megabytes for a chunk: publishing took 1.1 to 1.6 times as long for as many bytes.
    package init(with dictionary: EncodingDictionary) throws(CompressionError) {
        context = try Self.context {
            // Best effort: a library without this parameter makes equally good frames.
            _ = ZSTD_CCtx_setParameter($0, ZSTD_c_experimentalParam4, Int32(ZSTD_dictForceAttach.rawValue))
            return [ZSTD_CCtx_setParameter($0, ZSTD_c_dictIDFlag, 0), ZSTD_CCtx_refCDict($0, dictionary.raw)]
        }
        self.dictionary = dictionary
    }

    static func context(_ set: (OpaquePointer) -> [Int]) throws(CompressionError) -> OpaquePointer {
        guard let context = ZSTD_createCCtx() else { throw CompressionError(reason: "no memory for an encoder") }
        if let error = set(context).lazy.compactMap(CompressionError.from).first {
            ZSTD_freeCCtx(context)
            throw error
        }
        return context
    }

    deinit { ZSTD_freeCCtx(context) }

    /// The longest frame that `count` raw bytes can become. `ZSTD_compressBound`.
    package static func bound(_ count: Int) -> Int { ZSTD_compressBound(count) }

    /// Encodes `raw` as one frame into `target`, which should have room for ``bound(_:)`` bytes.
    ///
    /// - Returns: The frame's length in **bytes**; `nil` if `target` is too small for it.
    package mutating func encode(_ raw: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer)
        throws(CompressionError) -> Int?
    {
        let result = ZSTD_compress2(context, target.baseAddress, target.count, raw.baseAddress, raw.count)
        guard let error = CompressionError.from(result) else { return result }
        if ZSTD_getErrorCode(result) == ZSTD_error_dstSize_tooSmall { return nil }
        throw error
    }

    /// Encodes `raw` as one frame that can only be decoded behind `prefix`. `ZSTD_CCtx_refPrefix`.
    ///
    /// The window spans both, so `prefix` and `raw` together should be at most **8 MiB**.
    ///
    /// - Returns: The frame's length in **bytes**; `nil` if `target` is too small for it.
    package mutating func encode(
        _ raw: UnsafeRawBufferPointer, behind prefix: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer
    ) throws(CompressionError) -> Int? {
        // A frame that did not fit leaves the context in an unfinished state.
        try CompressionError.check(
            ZSTD_CCtx_reset(context, ZSTD_reset_session_only), ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, 23),
            ZSTD_CCtx_refPrefix(context, prefix.baseAddress, prefix.count))
        defer {
            _ = ZSTD_CCtx_reset(context, ZSTD_reset_session_only)
            _ = ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, 0)
        }
        return try encode(raw, into: target)
    }

    /// Encodes `raw` as one frame, behind other bytes if given; `nil` if it would exceed `most` **bytes**.
    package mutating func encode(_ raw: [UInt8], behind prefix: [UInt8]? = nil, most: Int) throws(CompressionError)
        -> [UInt8]?
    {
        var target = [UInt8](repeating: 0, count: most)
        let length = try raw.withUnsafeBufferPointer { raw throws(CompressionError) in
            try target.withUnsafeMutableBufferPointer { target throws(CompressionError) in
                let (raw, room) = (UnsafeRawBufferPointer(raw), UnsafeMutableRawBufferPointer(target))
                guard let prefix else { return try encode(raw, into: room) }
                return try prefix.withUnsafeBufferPointer { prefix throws(CompressionError) in
                    try encode(raw, behind: UnsafeRawBufferPointer(prefix), into: room)
                }
            }
        }
        return length.map { Array(target[..<$0]) }
    }

    /// Begins a frame of `size` **bytes** in all that arrive in pieces, see ``encodeNext(_:isLast:_:)``. The frame
    /// states its raw size, so a reader can bound its memory. `ZSTD_CCtx_setPledgedSrcSize`
    package mutating func begin(size: UInt64) throws(CompressionError) {
        try CompressionError.check(
            ZSTD_CCtx_reset(context, ZSTD_reset_session_only), ZSTD_CCtx_setPledgedSrcSize(context, size))
    }

    /// Encodes the next piece and passes the output to `take`; the last piece ends the frame.
    package mutating func encodeNext<E: Error>(
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

/// The version of the libzstd in use, such as `1.5.4`.
package func zstdVersion() -> String { ZSTD_versionString().map { String(cString: $0) } ?? "?" }

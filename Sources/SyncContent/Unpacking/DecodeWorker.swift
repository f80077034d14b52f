/// What one worker thread has for itself: contexts that are costly to make, and memory to decode into.
package struct DecodeWorker: ~Copyable {
    /// 0..<number of workers; also its lane in the staging directory.
    package let number: Int
    package var hasher: SHA256Hasher
    package var decoder: BlobDecoder
    /// Where small blobs are decoded; grows to ``SpanUnpacker/smallLimit`` at most.
    package var scratch: UnsafeMutableRawBufferPointer
    /// Where bases of deltas are read to; nothing until there is one.
    private var base = UnsafeMutableRawBufferPointer(start: nil, count: 0)

    package init(number: Int) throws {
        // Throws before the first assignment only: Swift 6.3 wants that of a noncopyable type.
        let hasher = try SHA256Hasher()
        let decoder = try BlobDecoder()
        self.number = number
        self.hasher = hasher
        self.decoder = decoder
        scratch = .allocate(byteCount: 1 << 18, alignment: 64)
    }

    deinit {
        scratch.deallocate()
        base.deallocate()
    }

    /// At least `count` bytes of scratch memory.
    package mutating func scratch(_ count: Int) -> UnsafeMutableRawBufferPointer {
        if scratch.count < count {
            scratch.deallocate()
            scratch = .allocate(byteCount: max(count, scratch.count * 2), alignment: 64)
        }
        return UnsafeMutableRawBufferPointer(rebasing: scratch[..<count])
    }

    /// `count` bytes of memory for the base of a delta, beside ``scratch``.
    package mutating func base(_ count: Int) -> UnsafeMutableRawBufferPointer {
        if base.count < count {
            base.deallocate()
            base = .allocate(byteCount: count, alignment: 64)
        }
        return UnsafeMutableRawBufferPointer(rebasing: base[..<count])
    }
}

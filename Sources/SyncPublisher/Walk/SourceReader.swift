import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Turns the tree into jobs, in path order: groups of small files, chunks of large ones.
///
/// Large files are read here, hashed whole and cut; chunks share the buffer that they were read into.
struct SourceReader: ~Copyable {
    private let source: SourceReading
    private let cutter: ChunkCutter
    private var hasher: SHA256Hasher
    /// Length of a chunk that is all zeros; 0 before one was cut.
    private var zeroChunk = 0

    static let filesPerJob = 256
    /// Least **bytes** read at once from a large file.
    static let segmentSize = 2 << 20

    private init(_ source: SourceReading, _ hasher: consuming SHA256Hasher) {
        self.source = source
        self.hasher = hasher
        cutter = ChunkCutter(source.options.chunks)
    }

    /// The body of the reader's thread.
    static func run(_ source: SourceReading) {
        do throws(PublishError) {
            var reader = SourceReader(source, try calling { try SHA256Hasher() })
            _ = try reader.readAll()
            source.pipeline.close()
        } catch { source.pipeline.fail(error) }
    }

    /// - Returns: `false` when the run has failed elsewhere.
    private mutating func readAll() throws(PublishError) -> Bool {
        var start = 0
        var bytes = 0
        for (index, entry) in source.tree.entries.enumerated() {
            let isLarge = entry.isRead && entry.stamp.size > UInt64(source.options.chunkThreshold)
            let size = entry.isRead && !isLarge ? Int(entry.stamp.size) : 0
            let isFull = index - start >= Self.filesPerJob || bytes + size > source.results.size
            if index > start, isFull || isLarge {
                guard source.pipeline.submit(.files(start..<index)) else { return false }
                start = index
                bytes = 0
            }
            if isLarge {
                guard try readLarge(index) else { return false }
                start = index + 1
            } else {
                bytes += size
            }
        }
        return start == source.tree.count || source.pipeline.submit(.files(start..<source.tree.count))
    }

    private mutating func readLarge(_ file: Int) throws(PublishError) -> Bool {
        let entry = source.tree.entries[file]
        let opened = try source.root.openFile(source.tree, file)
        willReadThrough(opened.raw)
        var offset: UInt64 = 0
        var carried: (segment: PooledBuffer, range: Range<Int>)?
        while offset < entry.stamp.size || carried != nil {
            // If no chunks are submitted, nothing else notices a failure.
            if source.pipeline.hasFailed { return false }
            let segment = source.segments.take()
            var filled = 0
            if let (previous, range) = carried {
                segment.bytes.copyMemory(from: previous[range])
                filled = range.count
                carried = nil
            }
            let wanted = Int(min(UInt64(segment.bytes.count - filled), entry.stamp.size - offset))
            try fill(segment, filled..<(filled + wanted), opened.raw, offset, file)
            let end = filled + wanted
            if offset == 0, source.refusesKey(file, segment[0..<end]) {
                // The run ends with an error that names the key.
                return source.pipeline.submit(.endOfFile(file: file, try calling { try hasher.finish() }))
            }
            offset += UInt64(wanted)
            if source.purpose == .hashing { continue }
            let isLast = offset == entry.stamp.size
            var start = 0
            while start < end {
                // A cut needs all bytes that it may depend on; the rest moves to the next segment.
                if !isLast, end - start < source.options.chunks.maximum {
                    carried = (segment, start..<end)
                    break
                }
                let length = firstChunk(of: segment[start..<end])
                guard source.pipeline.submit(.chunk(file: file, segment, start..<(start + length))) else {
                    return false
                }
                start += length
            }
        }
        guard source.root.isUnchanged(opened.raw, entry), source.root.endsAsSeen(opened.raw, entry) else {
            throw .changed(source.tree.path(file))
        }
        return source.pipeline.submit(.endOfFile(file: file, try calling { try hasher.finish() }))
    }

    /// Zeros are always cut alike, so search only once.
    private mutating func firstChunk(of bytes: UnsafeRawBufferPointer) -> Int {
        let longest = source.options.chunks.maximum
        guard bytes.count >= longest, UnsafeRawBufferPointer(rebasing: bytes[..<longest]).isZero else {
            return cutter.firstChunk(of: bytes)
        }
        if zeroChunk == 0 { zeroChunk = cutter.firstChunk(of: bytes) }
        return zeroChunk
    }

    private mutating func fill(
        _ segment: PooledBuffer, _ range: Range<Int>, _ descriptor: Int32, _ offset: UInt64, _ file: Int
    ) throws(PublishError) {
        let target = UnsafeMutableRawBufferPointer(rebasing: segment.bytes[range])
        // A hole is zeros: reading it would only fill the page cache.
        let isHole =
            !source.tree.entries[file].hasUnstatedSize
            && nextData(descriptor, Int64(clamping: offset)) >= Int64(clamping: offset) + Int64(range.count)
        if isHole { target.initializeMemory(as: UInt8.self, repeating: 0) }
        let count = isHole ? range.count : readFully(descriptor, into: target, at: offset)
        if count != range.count {
            let code = Errno.last
            let isSame = count < 0 && source.root.isUnchanged(descriptor, source.tree.entries[file])
            throw isSame ? .reading(source.tree.path(file), "read", code: code) : .changed(source.tree.path(file))
        }
        try calling { try hasher.update(UnsafeRawBufferPointer(target)) }
    }
}

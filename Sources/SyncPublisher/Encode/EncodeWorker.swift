import SyncFiles
import SyncModel
import SyncSystem

/// Runs jobs until there are no more: reads small files, hashes, compresses.
struct EncodeWorker: ~Copyable {
    private let source: SourceReading
    private var encoder: BlobEncoder
    /// Holds one small file at a time.
    private let raw: UnsafeMutableRawBufferPointer

    private init(_ source: SourceReading, _ encoder: consuming BlobEncoder) {
        self.source = source
        self.encoder = encoder
        raw = .allocate(byteCount: source.results.size, alignment: 64)
    }

    deinit { raw.deallocate() }

    /// The body of a worker's thread.
    static func run(_ source: SourceReading) {
        do throws(PublishError) {
            let encoder = try BlobEncoder(level: source.options.level, dictionary: source.dictionary)
            var worker = EncodeWorker(source, encoder)
            while let (number, job) = source.pipeline.take() {
                source.pipeline.finish(number, try worker.work(number, job))
            }
        } catch { source.pipeline.fail(error) }
    }

    private mutating func work(_ number: Int, _ job: EncodeJob) throws(PublishError) -> EncodeResult {
        switch job {
        case .files(let files): try encode(files, number)
        case .chunk(let file, let segment, let range): try encode(segment, range, number, file)
        case .endOfFile(let file, let digest): .endOfFile(file: file, digest)
        }
    }

    private mutating func encode(_ files: Range<Int>, _ number: Int) throws(PublishError) -> EncodeResult {
        let buffer = source.results.take()
        let target = buffer.bytes
        var used = 0
        var blobs: [EncodedBlob] = []
        blobs.reserveCapacity(files.count)
        for file in files where source.tree.entries[file].isRead {
            var bytes = try read(file)
            // The run ends with an error that names every private key; no byte of one may get into a pack.
            if source.refusesKey(file, bytes) { bytes = UnsafeRawBufferPointer(start: nil, count: 0) }
            let digest = try encoder.digest(bytes)
            var blob = EncodedBlob(digest: digest, rawLength: bytes.count, codec: .identity, stored: used..<used)
            if !bytes.isEmpty, source.purpose == .packing,
                source.catalogue.claim(digest, order: Self.order(number, blobs.count))
            {
                let rest = UnsafeMutableRawBufferPointer(rebasing: target[used...])
                if let encoded = try encoder.compress(bytes, into: rest) {
                    (blob.codec, blob.saved) = (encoded.codec, encoded.saved)
                    blob.stored = used..<(used + encoded.length)
                } else {
                    rest.copyMemory(from: bytes)
                    blob.stored = used..<(used + bytes.count)
                }
                used = blob.stored.upperBound
            }
            blobs.append(blob)
        }
        return .files(first: files.lowerBound, blobs, buffer)
    }

    private mutating func encode(_ segment: PooledBuffer, _ range: Range<Int>, _ number: Int, _ file: Int)
        throws(PublishError) -> EncodeResult
    {
        let bytes = segment[range]
        let digest = try encoder.digest(bytes)
        var blob = EncodedBlob(digest: digest, rawLength: range.count, codec: .identity, stored: 0..<0)
        guard source.purpose == .packing, source.catalogue.claim(digest, order: Self.order(number, 0)) else {
            return .chunk(file: file, blob, segment)
        }
        let buffer = source.results.take()
        if let encoded = try encoder.compress(bytes, into: buffer.bytes) {
            (blob.codec, blob.saved) = (encoded.codec, encoded.saved)
            blob.stored = 0..<encoded.length
            return .chunk(file: file, blob, buffer)
        }
        blob.stored = range
        return .chunk(file: file, blob, segment)
    }

    /// Jobs carry fewer than 2²⁰ files.
    private static func order(_ number: Int, _ index: Int) -> UInt64 { UInt64(number) << 20 | UInt64(index) }

    /// The bytes of a whole small file; valid until the next call.
    private mutating func read(_ file: Int) throws(PublishError) -> UnsafeRawBufferPointer {
        let entry = source.tree.entries[file]
        let size = Int(entry.stamp.size)
        if size == 0 { return UnsafeRawBufferPointer(start: nil, count: 0) }
        let opened = try source.root.openFile(source.tree, file)
        let target = UnsafeMutableRawBufferPointer(rebasing: raw[..<size])
        let count = readFully(opened.raw, into: target, at: 0)
        let code = Errno.last
        let isSame = source.root.isUnchanged(opened.raw, entry) && source.root.endsAsSeen(opened.raw, entry)
        guard isSame, count == size || count < 0 else { throw .changed(source.tree.path(file)) }
        guard count == size else { throw .reading(source.tree.path(file), "read", code: code) }
        return UnsafeRawBufferPointer(target)
    }
}

/// A piece of work for one worker, about 1 MiB.
enum EncodeJob: Sendable {
    /// Small files, next to each other in the source tree; the worker reads them.
    case files(Range<Int>)
    /// One chunk of a large file, read already.
    case chunk(file: Int, PooledBuffer, Range<Int>)
    /// The end of a large file, with the digest of the whole.
    case endOfFile(file: Int, SHA256Digest)
}

/// The result of an ``EncodeJob``.
enum EncodeResult: Sendable {
    /// One blob a file; the stored bytes lie in the buffer.
    case files(first: Int, [EncodedBlob], PooledBuffer)
    case chunk(file: Int, EncodedBlob, PooledBuffer)
    case endOfFile(file: Int, SHA256Digest)
}

/// A hashed blob and, unless it is known already, its stored bytes.
struct EncodedBlob: Sendable {
    var digest: SHA256Digest
    var rawLength: Int
    var codec: Codec
    /// The range of the stored bytes in the result's buffer; empty when the blob need not be stored again, and for
    /// empty files.
    var stored: Range<Int>
    /// **Bytes** that the dictionary saves.
    var saved = 0
}

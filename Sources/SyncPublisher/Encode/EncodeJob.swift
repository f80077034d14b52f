import SyncModel

/// A piece of work for one worker, about 1 MiB.
enum EncodeJob: Sendable {
    /// Small files, next to each other in the source tree; the worker reads them.
    case files(Range<Int>)
    /// One chunk of a large file, read already.
    case chunk(file: Int, PooledBuffer, Range<Int>)
    /// The end of a large file, with the digest of the whole.
    case endOfFile(file: Int, SHA256Digest)
}

/// What a worker made of an ``EncodeJob``.
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
    /// Where in the result's buffer; empty when the blob need not be stored again, and for empty files.
    var stored: Range<Int>
    /// **Bytes** less than without the dictionary.
    var saved = 0
}

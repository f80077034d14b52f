import SyncFiles
import SyncModel

/// One chunk on its way from a local file into a new one.
struct ChunkCopy {
    enum Result {
        case right
        /// These are not the bytes of the chunk.
        case wrong
        case failed(FileError)
    }

    let part: PartFile
    /// Position of the chunk in the new file …
    let blob: Int
    /// … and its **bytes** there.
    let target: Range<UInt64>
    let source: Int32
    /// First **byte** in the source.
    let from: UInt64

    /// Copies the bytes; nothing is written before the digest is right, unless the chunk is larger than the buffer.
    func copy(_ digest: SHA256Digest, _ reader: ChunkReader) -> Result {
        let length = target.upperBound - target.lowerBound
        let range = from..<(from + length)
        var error: FileError?
        guard length > UInt64(reader.buffer.count) else {
            guard reader.digest(of: source, range) == digest else { return .wrong }
            let bytes = UnsafeRawBufferPointer(rebasing: reader.buffer[..<Int(length)])
            return part.write(bytes, blob: blob).map { .failed($0) } ?? .right
        }
        let found = reader.digest(of: source, range) { piece, offset in
            error = part.write(piece, at: target.lowerBound + offset)
            return error == nil
        }
        if let error { return .failed(error) }
        return found == digest ? .right : .wrong
    }

    /// Copies what of the chunk does not lie in blocks shared already, and hashes what the new file holds then:
    /// the source may have changed meanwhile.
    func complete(_ shared: Range<UInt64>, _ digest: SHA256Digest, _ reader: ChunkReader) -> Result {
        let inside = target.clamped(to: shared)
        for edge in [target.lowerBound..<inside.lowerBound, inside.upperBound..<target.upperBound]
        where !edge.isEmpty {
            var offset = edge.lowerBound
            while offset < edge.upperBound {
                let count = Int(min(UInt64(reader.buffer.count), edge.upperBound - offset))
                let piece = UnsafeMutableRawBufferPointer(rebasing: reader.buffer[..<count])
                guard readFully(source, into: piece, at: from + (offset - target.lowerBound)) == count else {
                    return .wrong
                }
                if let error = part.replace(UnsafeRawBufferPointer(piece), at: offset) {
                    return .failed(error)
                }
                offset += UInt64(count)
            }
        }
        return part.check(blob: blob, digest: digest, reader: reader) ? .right : .wrong
    }
}

extension PartFile {
    fileprivate func check(blob: Int, digest: SHA256Digest, reader: ChunkReader) -> Bool {
        reader.withHasher { check(blob: blob, digest: digest, hasher: &$0) }
    }
}

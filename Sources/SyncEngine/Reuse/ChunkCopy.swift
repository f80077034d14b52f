import SyncFiles
import SyncModel
import SyncSystem

/// One chunk to be copied from a local file into a new one.
///
/// Its bytes are hashed once, with the whole new file; if that is wrong, the chunks at fault are found and fetched.
struct ChunkCopy {
    enum Result {
        case done
        /// The source has become shorter.
        case cut
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

    /// Copies the bytes; zeros become holes if the chunk fits the buffer.
    func copy(through buffer: UnsafeMutableRawBufferPointer) -> Result {
        let length = target.upperBound - target.lowerBound
        guard length <= UInt64(buffer.count) else { return copy(target, through: buffer) { part.write($0, at: $1) } }
        let bytes = UnsafeMutableRawBufferPointer(rebasing: buffer[..<Int(length)])
        guard readFully(source, into: bytes, at: from) == bytes.count else { return .cut }
        return part.write(UnsafeRawBufferPointer(bytes), blob: blob).map { .failed($0) } ?? .done
    }

    /// Copies the bytes of the chunk that are not in shared blocks.
    func copy(besides shared: Range<UInt64>, through buffer: UnsafeMutableRawBufferPointer) -> Result {
        let inside = target.clamped(to: shared)
        for edge in [target.lowerBound..<inside.lowerBound, inside.upperBound..<target.upperBound] {
            let result = copy(edge, through: buffer) { part.replace($0, at: $1) }
            guard case .done = result else { return result }
        }
        return .done
    }

    private func copy(
        _ range: Range<UInt64>, through buffer: UnsafeMutableRawBufferPointer,
        _ write: (UnsafeRawBufferPointer, UInt64) -> FileError?
    ) -> Result {
        var offset = range.lowerBound
        while offset < range.upperBound {
            let count = Int(min(UInt64(buffer.count), range.upperBound - offset))
            let piece = UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
            guard readFully(source, into: piece, at: from + (offset - target.lowerBound)) == count else { return .cut }
            if let error = write(UnsafeRawBufferPointer(piece), offset) { return .failed(error) }
            offset += UInt64(count)
        }
        return .done
    }
}

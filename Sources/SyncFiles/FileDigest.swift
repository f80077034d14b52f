package import SyncContent
package import SyncModel
package import SyncSystem

/// The SHA-256 of a part of an open file.
///
/// - Parameters:
///   - range: The **bytes** of the file to hash.
///   - hasher: A hasher, which is reset first.
///   - buffer: A buffer for reading piece by piece.
///   - isStopped: Called before each piece.
///   - taking: Called with each hashed piece and its offset in the file; returns whether to continue.
///   - failed: Called with the error if the part could not be read.
/// - Returns: `nil` if the part could not be read to its end, if it was stopped, or if there is no memory for hashing.
package func sha256(
    of descriptor: Int32, _ range: Range<UInt64>, with hasher: inout SHA256Hasher,
    through buffer: UnsafeMutableRawBufferPointer, isStopped: () -> Bool = { false },
    taking: (UnsafeRawBufferPointer, UInt64) -> Bool = { _, _ in true }, failed: (Errno) -> Void = { _ in }
) -> SHA256Digest? {
    var offset = range.lowerBound
    do {
        try hasher.reset()
        while offset < range.upperBound {
            let count = Int(min(UInt64(buffer.count), range.upperBound - offset))
            let part = UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
            guard !isStopped() else { return nil }
            let read = readFully(descriptor, into: part, at: offset)
            if read < 0 { failed(.last) }
            guard read == count else { return nil }
            let piece = UnsafeRawBufferPointer(part)
            try hasher.update(piece)
            guard taking(piece, offset) else { return nil }
            offset += UInt64(count)
        }
        return try hasher.finish()
    } catch { return nil }
}

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
    do throws(DigestError) {
        try hasher.reset()
        let isWhole = try readPieces(of: descriptor, range, through: buffer, isStopped: isStopped, failed: failed) {
            piece, offset throws(DigestError) in
            try hasher.update(piece)
            return taking(piece, offset)
        }
        return isWhole ? try hasher.finish() : nil
    } catch { return nil }
}

/// Reads a part of an open file, piece by piece.
///
/// - Parameters:
///   - range: The **bytes** of the file to read.
///   - buffer: Memory for a piece.
///   - isStopped: Called before each piece.
///   - failed: Called with the error if the part could not be read, and not if the file has become shorter.
///   - taking: Called with each piece and its offset in the file; returns whether to continue.
/// - Returns: Whether the part was read to its end.
package func readPieces<Failure: Error>(
    of descriptor: Int32, _ range: Range<UInt64>, through buffer: UnsafeMutableRawBufferPointer,
    isStopped: () -> Bool = { false }, failed: (Errno) -> Void = { _ in },
    taking: (UnsafeRawBufferPointer, UInt64) throws(Failure) -> Bool
) throws(Failure) -> Bool {
    var offset = range.lowerBound
    while offset < range.upperBound {
        guard !isStopped() else { return false }
        let count = Int(min(UInt64(buffer.count), range.upperBound - offset))
        let piece = UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
        let read = readFully(descriptor, into: piece, at: offset)
        if read < 0 { failed(.last) }
        guard read == count, try taking(UnsafeRawBufferPointer(piece), offset) else { return false }
        offset += UInt64(count)
    }
    return true
}

package import SyncContent
package import SyncModel
package import SyncSystem

/// The SHA-256 of a part of an open file.
///
/// - Parameters:
///   - range: **Bytes** of the file.
///   - hasher: Is reset first.
///   - buffer: What is read goes through it, piece by piece.
///   - isStopped: Asked before each piece.
///   - taking: Given each piece once it is hashed, and where it begins in the file; says whether to go on.
///   - failed: Told why the part could not be read, where the system says so.
/// - Returns: `nil` when the part could not be read to its end, it was stopped, or there is no memory to hash with.
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

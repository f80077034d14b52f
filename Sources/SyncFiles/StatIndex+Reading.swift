import CPosix
import SyncDigest
import SyncModel
import SyncSystem

extension StatIndex {
    /// Forgets what is known about the files; they are hashed again when they are wanted.
    package static func remove(from destination: Destination) { unlinkat(destination.state, "index", 0) }

    /// Reads a destination's index; an absent or damaged one is ``empty``, which only costs a re-hash.
    package static func read(from destination: Destination) -> StatIndex {
        guard destination.state >= 0, let bytes = readWhole(destination.state, "index"),
            bytes.count > headerLength + 32
        else { return .empty }
        let isIntact = bytes.withUnsafeBytes { all -> Bool in
            let body = UnsafeRawBufferPointer(rebasing: all[..<(all.count - 32)])
            let sum = SHA256Digest(bytes: UnsafeRawBufferPointer(rebasing: all[(all.count - 32)...]))
            do { return try sha256(body) == sum } catch { return false }
        }
        guard isIntact else { return .empty }
        return StatIndex(bytes) ?? .empty
    }
}

/// A small file's bytes, or `nil` when it cannot be read.
func readWhole(_ directory: Int32, _ name: String) -> [UInt8]? {
    let raw = sa_openat(directory, name, O_RDONLY | O_NOFOLLOW, 0)
    guard raw >= 0 else { return nil }
    let file = Descriptor(owning: raw)
    guard let size = status(file.raw)?.size, let count = Int(exactly: size) else { return nil }
    var complete = false
    let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, used in
        let read = readFully(file.raw, into: UnsafeMutableRawBufferPointer(buffer), at: 0)
        complete = read == count
        used = max(0, read)
    }
    return complete ? bytes : nil
}

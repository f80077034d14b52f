import CPosix
import SyncDigest
import SyncModel
import SyncSystem

extension StatIndex {
    /// Forgets what is known about the files; they are hashed again when they are wanted.
    package static func remove(from destination: Destination) { unlinkat(destination.state, "index", 0) }

    /// Reads a destination's index; an absent or damaged one is ``empty``, which only costs a re-hash. So is one that
    /// is not ours, or longer than ``limit``.
    package static func read(from destination: Destination) -> StatIndex {
        guard destination.state >= 0, let bytes = readBytes(destination.state) else { return .empty }
        let isIntact = bytes.withUnsafeBytes { all -> Bool in
            let body = UnsafeRawBufferPointer(rebasing: all[..<(all.count - 32)])
            let sum = SHA256Digest(bytes: UnsafeRawBufferPointer(rebasing: all[(all.count - 32)...]))
            do { return try sha256(body) == sum } catch { return false }
        }
        guard isIntact else { return .empty }
        return StatIndex(bytes) ?? .empty
    }

    /// What an index says was pulled last, from its head alone.
    package static func revision(in destination: Destination) -> Revision? {
        guard destination.state >= 0, let file = try? openFile("index", in: destination.state, trust: .state),
            let size = status(file.raw)?.size, let count = Int(exactly: size)
        else { return nil }
        return layout(head(of: file.raw), fileLength: count)?.header.revision
    }

    private static func head(of file: Int32) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: headerLength) { buffer, used in
            used = max(0, readFully(file, into: UnsafeMutableRawBufferPointer(buffer), at: 0))
        }
    }

    /// Takes memory for a whole index only when its head fits its length.
    private static func readBytes(_ state: Int32) -> [UInt8]? {
        guard let file = try? openFile("index", in: state, trust: .state),
            let size = status(file.raw)?.size, let count = Int(exactly: size), count <= limit,
            layout(head(of: file.raw), fileLength: count) != nil
        else { return nil }
        var isComplete = false
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, used in
            let read = readFully(file.raw, into: UnsafeMutableRawBufferPointer(buffer), at: 0)
            isComplete = read == count
            used = max(0, read)
        }
        return isComplete ? bytes : nil
    }
}

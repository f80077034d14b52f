import SyncContent
package import SyncModel
import SyncSystem

extension Destination {
    /// What directories are like: as long as that stays the same, no name has come into one of them, or gone. The system sets the time
    /// of a directory's last change with each name.
    ///
    /// - Parameters:
    ///   - directories: Below the destination, which is not one of them: it changes when it is shown.
    ///   - time: A time of the file system's clock, **nanoseconds** since 1970.
    /// - Returns: `nil` where that cannot be told: one is not there, is another file system's, or was changed at that time or later, so
    ///   that a change at the same time would not be seen.
    package func seal(of directories: [[UInt8]], before time: Int64 = .max) -> SHA256Digest? {
        guard let device = status(root)?.device else { return nil }
        let open = Directories(self)
        var text: [UInt8] = []
        text.reserveCapacity(directories.reduce(0) { $0 + $1.count + 1 + 3 * 8 })
        for directory in directories {
            // What cannot be reached has no seal.
            let found = try? open.withLeaf(of: directory) { above, leaf -> FileStatus? in
                guard case .success(let found) = status(above, leaf) else { return nil }
                return found
            }
            guard let there = (found ?? nil) ?? nil, there.kind == .directory, there.device == device,
                there.changed < time
            else { return nil }
            text += directory
            text.append(0)
            for number in [there.inode, UInt64(bitPattern: there.modified), UInt64(bitPattern: there.changed)] {
                withUnsafeBytes(of: number.littleEndian) { text.append(contentsOf: $0) }
            }
        }
        return try? sha256(text)
    }
}

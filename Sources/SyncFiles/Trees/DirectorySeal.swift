import SyncContent
package import SyncModel
import SyncSystem

extension Destination {
    /// A digest of the state of directories: as long as it stays the same, no name was added to one of them, or
    /// removed. The system sets the time of a directory's last change with each name.
    ///
    /// - Parameters:
    ///   - directories: Paths below the destination, without the destination itself, which changes when it is switched.
    ///   - time: A time of the file system's clock, **nanoseconds** since 1970.
    /// - Returns: `nil` if it cannot be determined: a directory is missing, is on another file system, or was changed
    ///   at that time or later, so that a further change at the same time would go unnoticed.
    package func seal(of directories: [[UInt8]], before time: Int64 = .max) -> SHA256Digest? {
        guard let device = status(root)?.device else { return nil }
        let open = Directories(self)
        var text: [UInt8] = []
        text.reserveCapacity(directories.reduce(0) { $0 + $1.count + 1 + 3 * 8 })
        for directory in directories {
            // A directory that cannot be reached has no seal.
            guard let there = open.status(at: directory), there.kind == .directory, there.device == device,
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

import CPosix

/// The part of lstat(2) that shows that a file is unchanged. Times are **nanoseconds** since 1970.
package struct FileStatus: Equatable, Sendable {
    package enum Kind: UInt8, Sendable { case file, directory, link, other }

    package var device: UInt64
    package var inode: UInt64
    package var size: UInt64
    package var modified: Int64
    package var changed: Int64
    package var kind: Kind
    /// Whether the owner may execute it.
    package var isExecutable: Bool
    /// Permissions with the set-id bits and the sticky bit: 0...0o7777.
    package var permissions: UInt16
    /// The owner and the group.
    package var user: UInt32
    package var group: UInt32

    init(_ status: stat) {
        device = UInt64(truncatingIfNeeded: status.st_dev)
        inode = UInt64(truncatingIfNeeded: status.st_ino)
        size = UInt64(clamping: status.st_size)
        let (modified, changed, kind) = withUnsafePointer(to: status) {
            (sa_modified($0), sa_changed($0), sa_file_kind($0))
        }
        self.modified = Self.nanoseconds(modified)
        self.changed = Self.nanoseconds(changed)
        self.kind = Kind(rawValue: UInt8(truncatingIfNeeded: kind)) ?? .other
        isExecutable = status.st_mode & 0o100 != 0
        permissions = UInt16(truncatingIfNeeded: status.st_mode & 0o7777)
        (user, group) = (status.st_uid, status.st_gid)
    }

    /// The status of a file that could not be examined.
    package static let unknown = FileStatus(stat())

    /// Whether this is the same file, whatever has changed in it. inode(7)
    package func isSameFile(as other: FileStatus) -> Bool { device == other.device && inode == other.inode }

    private static func nanoseconds(_ time: timespec) -> Int64 {
        let (whole, overflow) = Int64(time.tv_sec).multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, isTooLate) = whole.addingReportingOverflow(Int64(time.tv_nsec))
        // Times that do not fit, three hundred years from now, are clamped.
        return overflow || isTooLate ? (time.tv_sec < 0 ? .min : .max) : sum
    }
}

/// fstatat(2) without following a link at the end; `nil` if the name does not exist.
package func status(_ directory: Int32, _ name: UnsafePointer<CChar>) -> Result<FileStatus?, Errno> {
    var buffer = stat()
    guard fstatat(directory, name, &buffer, AT_SYMLINK_NOFOLLOW) == 0 else {
        let code = Errno.last
        return code == .noSuchFileOrDirectory || code == .notDirectory ? .success(nil) : .failure(code)
    }
    return .success(FileStatus(buffer))
}

/// fstat(2)
///
/// - Returns: `nil` if it fails; ``Errno/last`` says why.
package func status(_ descriptor: Int32) -> FileStatus? {
    var buffer = stat()
    return fstat(descriptor, &buffer) == 0 ? FileStatus(buffer) : nil
}

/// stat(2) of the target of a path, with links followed.
///
/// - Returns: `nil` if nothing exists, or it fails; ``Errno/last`` says why.
package func status(following path: UnsafePointer<CChar>) -> FileStatus? {
    var buffer = stat()
    return stat(path, &buffer) == 0 ? FileStatus(buffer) : nil
}

/// The kind of an entry that is neither a file nor a directory nor a link, such as `socket`. inode(7)
///
/// - Returns: `nil` for anything else, or if the name does not exist.
package func specialKind(_ name: UnsafePointer<CChar>, in directory: Int32 = currentDirectory) -> String? {
    var buffer = stat()
    guard fstatat(directory, name, &buffer, AT_SYMLINK_NOFOLLOW) == 0 else { return nil }
    return switch buffer.st_mode & mode_t(S_IFMT) {
    case mode_t(S_IFIFO): "fifo"
    case mode_t(S_IFSOCK): "socket"
    case mode_t(S_IFBLK): "block device"
    case mode_t(S_IFCHR): "character device"
    default: nil
    }
}

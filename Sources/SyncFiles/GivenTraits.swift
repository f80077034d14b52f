import CPosix
package import SyncModel
package import SyncSystem

/// Modes and times that a manifest keeps, on files and directories, whatever the umask says. No set-id bits are ever
/// set.
extension FileTraits {
    /// Whether a file, link or directory has them. Links have no mode of their own. symlink(7)
    package func hold(of found: FileStatus) -> Bool {
        hasMode(found) && modified ?? found.modified == found.modified
    }

    private func hasMode(_ found: FileStatus) -> Bool {
        guard let mode, found.kind != .link else { return true }
        // The bits that a directory hands down to new files, and the sticky bit, are its owner's business.
        return found.permissions & (found.kind == .directory ? 0o777 : 0o7777) == mode
    }

    /// Sets them on an open file or directory.
    ///
    /// - Parameters:
    ///   - found: What the file system says of it now.
    ///   - shown: Its path, for messages.
    /// - Returns: What the file system says of it then. It can round times.
    package func give(to file: Int32, _ found: FileStatus, shown: String) throws(FileError) -> FileStatus {
        if hold(of: found) { return found }
        if let mode, !hasMode(found) {
            let kept = found.kind == .directory ? found.permissions & 0o7000 : 0
            guard fchmod(file, mode_t(mode | kept)) == 0 else { throw .last("set the mode of", shown) }
        }
        if let modified, found.modified != modified {
            let times = Self.timespecs(modified)
            guard times.withUnsafeBufferPointer({ futimens(file, $0.baseAddress) }) == 0 else {
                throw .last("set the time of", shown)
            }
        }
        guard let now = status(file) else { throw .last("look at", shown) }
        return now
    }

    /// Sets the time of a name in a directory; a link is not followed.
    ///
    /// - Returns: errno, 0 for success.
    package func giveTime(to name: UnsafePointer<CChar>, in directory: Int32) -> Int32 {
        guard let modified else { return 0 }
        let code = Self.timespecs(modified).withUnsafeBufferPointer {
            utimensat(directory, name, $0.baseAddress, AT_SYMLINK_NOFOLLOW)
        }
        return code == 0 ? 0 : sa_errno()
    }

    /// For utimensat(2): leaves the access time alone.
    private static func timespecs(_ modified: Int64) -> [timespec] {
        let (seconds, rest) = floorDivision(modified, 1_000_000_000)
        return [
            timespec(tv_sec: 0, tv_nsec: sa_utime_omit()), timespec(tv_sec: Int(seconds), tv_nsec: Int(rest)),
        ]
    }
}

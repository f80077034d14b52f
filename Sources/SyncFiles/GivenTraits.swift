package import SyncModel
package import SyncSystem

/// Modes and times that a manifest sets on files and directories, whatever the umask. Set-id bits are never
/// set.
extension FileTraits {
    /// Whether a file, link or directory has these traits. Links have no mode of their own. symlink(7)
    package func hold(of found: FileStatus) -> Bool { hasMode(found) && modified ?? found.modified == found.modified }

    private func hasMode(_ found: FileStatus) -> Bool {
        guard let mode, found.kind != .link else { return true }
        // The bits that a directory hands down to new files, and the sticky bit, are up to its owner.
        return found.permissions & (found.kind == .directory ? 0o777 : 0o7777) == mode
    }

    /// Sets the traits on an open file or directory.
    ///
    /// - Parameters:
    ///   - found: The present status.
    ///   - shown: Its path, for messages.
    /// - Returns: The resulting status. The file system may round times.
    package func give(to file: Int32, _ found: FileStatus, shown: String) throws(FileError) -> FileStatus {
        if hold(of: found) { return found }
        if let mode, !hasMode(found) {
            let kept = found.kind == .directory ? found.permissions & 0o7000 : 0
            try FileError.check(setMode(file, FileMode(mode | kept)), "set the mode of", shown)
        }
        if let modified, found.modified != modified, let code = setModified(file, modified) {
            throw FileError(step: "set the time of", path: shown, code: code)
        }
        guard let now = status(file) else { throw .last("look at", ofOpen: shown) }
        return now
    }

    /// Sets the time of a name in a directory; a link is not followed.
    package func giveTime(to name: UnsafePointer<CChar>, in directory: Int32) -> Errno? {
        modified.flatMap { setModified(name, in: directory, $0) }
    }
}

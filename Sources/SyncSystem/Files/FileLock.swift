import CPosix

/// The right to something, as a lock on a file: one process at a time has it, and the kernel takes it back when that
/// process ends, however it ends. An open file description lock: fcntl(2), F_OFD_SETLK.
///
/// It is given back by a call of its own before the descriptor closes. Closing alone would not do: a program that this
/// process is starting shares its descriptors from fork(2) to execve(2), and whoever asked meanwhile would hear that
/// it is taken.
///
/// Whoever took it has it until the last reference goes.
package final class FileLock: Sendable {
    private let file: Descriptor

    private init(_ file: consuming Descriptor) { self.file = file }

    deinit { _ = sa_unlock(file.raw) }

    /// Takes the lock.
    ///
    /// - Parameters:
    ///   - file: Opened for writing.
    ///   - path: The file's path, for messages.
    ///   - wait: Most **milliseconds** to wait for whoever has it.
    ///   - isShared: Whether others may have it, too, in the same way.
    /// - Returns: The lock, `nil` when another has it.
    /// - Throws: ``FileError`` where the file system has no locks.
    package static func take(_ file: consuming Descriptor, path: String, wait: Int = 0, isShared: Bool = false)
        throws(FileError) -> FileLock?
    {
        var waited = 0
        while (isShared ? sa_try_share(file.raw) : sa_try_lock(file.raw)) != 0 {
            let code = Errno.last
            guard code == .resourceTemporarilyUnavailable || code == .permissionDenied else {
                throw FileError(step: "lock", path: path, code: code)
            }
            guard waited < wait else { return nil }
            pauseThread(milliseconds: 5)
            waited += 5
        }
        return FileLock(file)
    }

    /// Takes a shared lock alone; `false` where others have it, too.
    package func takeAlone() -> Bool { sa_try_lock(file.raw) == 0 }

    /// Writes into the file who has it, for people: the lock alone counts. A file with a second name stays as it is.
    package func sign(_ text: String) {
        let bytes = Array("\(text)\n".utf8)
        guard hasOneName(file.raw), setLength(file.raw, 0) == nil else { return }
        _ = bytes.withUnsafeBytes { writeAll($0, to: file.raw, at: 0) }
    }

    /// Whether somebody has the lock of a file; takes nothing.
    ///
    /// - Parameter orUnknown: What is said where that cannot be found out: somebody may have it.
    package static func isTaken(_ file: borrowing Descriptor, orUnknown: Bool = true) -> Bool {
        let found = sa_is_locked(file.raw)
        return found < 0 ? orUnknown : found != 0
    }
}

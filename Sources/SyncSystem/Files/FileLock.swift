import CPosix

/// An exclusive or shared right, represented by a lock on a file; the kernel releases it when the process ends, however
/// it ends. An open file description lock: fcntl(2), F_OFD_SETLK.
///
/// It is released explicitly before the descriptor is closed. Closing alone would not suffice: a program that this
/// process is starting shares its descriptors from fork(2) to execve(2), so the lock would still appear taken.
///
/// It is held until the last reference is released.
package final class FileLock: Sendable {
    private let file: Descriptor

    private init(_ file: consuming Descriptor) { self.file = file }

    deinit { _ = sa_unlock(file.raw) }

    /// Takes the lock.
    ///
    /// - Parameters:
    ///   - file: Opened for writing.
    ///   - path: The file's path, for messages.
    ///   - wait: Most **milliseconds** to wait for the holder.
    ///   - isShared: Whether others may hold the lock at the same time, also shared.
    /// - Returns: The lock; `nil` if another process holds it.
    /// - Throws: ``FileError`` if the file system does not support locks.
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

    /// Makes a shared lock exclusive; `false` if others hold it, too.
    package func takeAlone() -> Bool { sa_try_lock(file.raw) == 0 }

    /// Writes the holder into the file, for people only: the lock is what counts. A file with a second name is not
    /// written.
    package func sign(_ text: String) {
        let bytes = Array("\(text)\n".utf8)
        guard hasOneName(file.raw), setLength(file.raw, 0) == nil else { return }
        _ = bytes.withUnsafeBytes { writeAll($0, to: file.raw, at: 0) }
    }

    /// Whether somebody holds the lock of a file; does not take it.
    ///
    /// - Parameter orUnknown: The result if that cannot be determined, because somebody may hold it.
    package static func isTaken(_ file: borrowing Descriptor, orUnknown: Bool = true) -> Bool {
        let found = sa_is_locked(file.raw)
        return found < 0 ? orUnknown : found != 0
    }
}

import CPosix

/// The directory that a session keeps in step, by descriptor: nothing below is reached through a path that
/// leaves it (V5–V8).
///
/// Its own files live in `.syncagent/` inside, mode 0700, so that staging is on the same filesystem.
package final class Destination: Sendable {
    /// As the user gave it, absolute.
    package let path: String
    /// The directory itself.
    package let root: Int32
    /// `.syncagent`.
    package let state: Int32
    /// Which directory this is, whatever its name is later.
    package let device: UInt64
    package let inode: UInt64

    package static let stateName = ".syncagent"

    private init(path: String, root: Int32, state: Int32, status: FileStatus) {
        self.path = path
        self.root = root
        self.state = state
        device = status.device
        inode = status.inode
    }

    deinit {
        if state >= 0 { close(state) }
        close(root)
    }

    /// Opens a destination, making it and its state directory when asked.
    ///
    /// - Parameter create: Without it nothing is created; a missing state directory leaves ``state`` at -1.
    /// - Throws: ``FileError``; callers exit with 73.
    package static func open(path: String, create: Bool) throws(FileError) -> Destination {
        if create { try makeDirectories(path) }
        let root = sa_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0)
        guard root >= 0 else { throw .last("open the destination", path) }
        var state: Int32 = -1
        do throws(FileError) {
            guard let status = SyncFiles.status(root) else { throw .last("look at the destination", path) }
            if create, mkdirat(root, stateName, 0o700) != 0, errno != EEXIST {
                throw .last("create", path + "/" + stateName)
            }
            state = sa_openat(root, stateName, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0)
            if state < 0, create || errno != ENOENT { throw .last("open", path + "/" + stateName) }
            if create, mkdirat(state, "staging", 0o700) != 0, errno != EEXIST {
                throw .last("create", path + "/" + stateName + "/staging")
            }
            return Destination(path: path, root: root, state: state, status: status)
        } catch {
            if state >= 0 { close(state) }
            close(root)
            throw error
        }
    }

    /// Makes every missing directory of `path`, like mkdir(1) `-p`.
    static func makeDirectories(_ path: String) throws(FileError) {
        var prefix = path.hasPrefix("/") ? "/" : ""
        for component in path.split(separator: "/") {
            prefix += prefix.isEmpty || prefix.hasSuffix("/") ? String(component) : "/" + component
            guard mkdir(prefix, 0o777) != 0, errno != EEXIST else { continue }
            let code = errno
            if access(prefix, F_OK) != 0 {
                throw FileError(step: "create the destination", path: prefix, code: code)
            }
        }
    }

    /// Takes the destination for this process until the descriptor closes (S3, F117).
    ///
    /// - Returns: The lock, or `nil` when another process has it.
    package func lock() throws(FileError) -> Descriptor? {
        let raw = sa_openat(state, "lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0o600)
        guard raw >= 0 else { throw .last("open", path + "/.syncagent/lock") }
        if sa_try_lock(raw) == 0 {
            let note = "\(getpid())\n"
            _ = ftruncate(raw, 0)
            _ = note.withCString { pwrite(raw, $0, note.utf8.count, 0) }
            return Descriptor(owning: raw)
        }
        let code = errno
        close(raw)
        if code == EAGAIN || code == EACCES || code == EWOULDBLOCK { return nil }
        throw FileError(step: "lock", path: path + "/.syncagent/lock", code: code)
    }

    /// The process that wrote its number into the lock last; for messages only.
    package func lockHolder() -> Int32? {
        let raw = sa_openat(state, "lock", O_RDONLY | O_NOFOLLOW, 0)
        guard raw >= 0 else { return nil }
        defer { close(raw) }
        var text = [UInt8](repeating: 0, count: 16)
        let count = text.withUnsafeMutableBytes { readFully(raw, into: $0, at: 0) }
        guard count > 0 else { return nil }
        return Int32(String(decoding: text[..<count].prefix { $0 != 0x0A }, as: UTF8.self))
    }

    /// Makes everything written so far on this filesystem durable. syncfs(2): one call for a whole batch.
    package func synchronize() throws(FileError) {
        #if os(Linux)
            guard sa_syncfs(root) == 0 else { throw .last("sync", path) }
        #else
            sync()
        #endif
    }

    /// Free **bytes** for this user, and free inodes (`nil` where the filesystem has no fixed number).
    package func freeSpace() throws(FileError) -> (bytes: UInt64, inodes: UInt64?) {
        var info = statvfs()
        guard fstatvfs(root, &info) == 0 else { throw .last("ask for free space of", path) }
        let (bytes, overflow) = UInt64(info.f_bavail).multipliedReportingOverflow(by: UInt64(info.f_frsize))
        return (overflow ? .max : bytes, info.f_files == 0 ? nil : UInt64(info.f_favail))
    }
}

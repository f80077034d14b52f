import CPosix
package import SyncSystem

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
    /// - Parameters:
    ///   - create: Without it nothing is created; a missing state directory leaves ``state`` at -1.
    ///   - usesState: Without it ``state`` is -1, whoever it belongs to.
    /// - Throws: ``FileError``; callers exit with 73. A state directory of another user, or one that others may
    ///   write to, is refused: what stands in it is what we write to and remove.
    package static func open(
        path: String,
        create: Bool,
        usesState: Bool = true
    ) throws(FileError) -> Destination {
        if create { try makeDirectories(path) }
        let root = sa_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0)
        guard root >= 0 else { throw .last("open the destination", path) }
        var state: Int32 = -1
        do throws(FileError) {
            guard let status = SyncSystem.status(root) else { throw .last("look at the destination", path) }
            guard usesState else { return Destination(path: path, root: root, state: -1, status: status) }
            if create, mkdirat(root, stateName, 0o700) != 0, sa_errno() != EEXIST {
                throw .last("create", path + "/" + stateName)
            }
            state = sa_openat(root, stateName, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0)
            if state < 0, create || sa_errno() != ENOENT { throw .last("open", path + "/" + stateName) }
            if state >= 0 { try checkPrivate(state, shown: path + "/" + stateName) }
            if create, mkdirat(state, "staging", 0o700) != 0, sa_errno() != EEXIST {
                throw .last("create", path + "/" + stateName + "/staging")
            }
            return Destination(path: path, root: root, state: state, status: status)
        } catch {
            if state >= 0 { close(state) }
            close(root)
            throw error
        }
    }

    /// Takes the destination for this process until the descriptor closes (S3, F117).
    ///
    /// - Returns: The lock, or `nil` when another process has it.
    package func lock() throws(FileError) -> Descriptor? {
        let shown = path + "/.syncagent/lock"
        let file = try openFile("lock", in: state, O_RDWR | O_CREAT, trust: .state, shown: shown)
        if sa_try_lock(file.raw) == 0 {
            // A note in a file with another name would be written there, too.
            if hasOneName(file.raw) {
                let note = "\(getpid())\n"
                _ = ftruncate(file.raw, 0)
                _ = note.withCString { pwrite(file.raw, $0, note.utf8.count, 0) }
            }
            return file
        }
        let code = sa_errno()
        if code == EAGAIN || code == EACCES || code == EWOULDBLOCK { return nil }
        throw FileError(step: "lock", path: shown, code: code)
    }

    /// The process that wrote its number into the lock last; for messages only.
    package func lockHolder() -> Int32? {
        guard let bytes = try? readFile("lock", in: state, trust: .state, limit: 16) else { return nil }
        return Int32(String(decoding: bytes.prefix { $0 != 0x0A }, as: UTF8.self))
    }

    /// Makes everything written so far on this filesystem durable. syncfs(2): one call for a whole batch.
    package func synchronize() throws(FileError) {
        #if os(Linux)
            guard sa_syncfs(root) == 0 else { throw .last("sync", path) }
        #else
            sync()
        #endif
    }

    /// Whether names that differ only in case are one here: the state directory is found under another one.
    package var foldsCase: Bool {
        guard state >= 0, let own = SyncSystem.status(state),
            case .success(let found?) = SyncSystem.status(root, Self.stateName.uppercased())
        else { return false }
        return found.device == own.device && found.inode == own.inode
    }

    /// Free **bytes** for this user, and free inodes (`nil` where the filesystem has no fixed number).
    package func freeSpace() throws(FileError) -> (bytes: UInt64, inodes: UInt64?) {
        var info = statvfs()
        guard fstatvfs(root, &info) == 0 else { throw .last("ask for free space of", path) }
        let (bytes, overflow) = UInt64(info.f_bavail).multipliedReportingOverflow(by: UInt64(info.f_frsize))
        return (overflow ? .max : bytes, info.f_files == 0 ? nil : UInt64(info.f_favail))
    }
}

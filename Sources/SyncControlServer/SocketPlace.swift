import CPosix
import SyncSystem

/// The place of the socket in the file system: a directory, 0700 and this user's, and the socket in it, 0600.
struct SocketPlace: Sendable {
    let path: String
    private let directory: String

    /// - Throws: ``ControlServerError`` for a path that is not absolute, or too long for unix(7).
    init(path: String) throws(ControlServerError) {
        guard path.utf8.count <= 107 else { throw .pathTooLong(path) }
        guard path.hasPrefix("/"), let slash = path.lastIndex(of: "/"), slash != path.startIndex else {
            throw .badDirectory(path: path, reason: "it is not absolute, or not in a directory of its own")
        }
        self.path = path
        directory = String(path[..<slash])
    }

    /// Makes the directory and removes a socket that a dead agent has left.
    func prepare() throws(ControlServerError) {
        do throws(FileError) {
            try checkParent(of: directory)
        } catch {
            throw .badDirectory(path: directory, reason: error.reason)
        }
        if mkdir(directory, 0o700) != 0, sa_errno() != EEXIST { throw bad(directory) }
        // Not through a link: somebody else may have put it there.
        let raw = sa_openat(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0)
        guard raw >= 0 else { throw bad(directory) }
        let opened = Descriptor(owning: raw)
        var status = stat()
        guard fstat(opened.raw, &status) == 0 else { throw bad(directory) }
        // Others' rights in a directory of our own are taken away; one that is not ours is left as it is.
        if status.st_uid == geteuid(), status.st_mode & 0o077 != 0, fchmod(opened.raw, 0o700) != 0 {
            throw bad(directory)
        }
        do throws(FileError) {
            try checkPrivate(opened.raw, shown: directory)
        } catch {
            throw .badDirectory(path: directory, reason: error.reason)
        }

        guard lstat(path, &status) == 0 else { return }
        guard status.st_mode & mode_t(S_IFMT) == mode_t(S_IFSOCK) else { throw .inTheWay(path: path) }
        guard unlink(path) == 0 || sa_errno() == ENOENT else { throw bad(path) }
    }

    /// Takes the rights that bind(2) has given to others; the directory has kept them out until now.
    func protect() { chmod(path, 0o600) }

    func remove() { unlink(path) }

    private func bad(_ path: String) -> ControlServerError {
        .badDirectory(path: path, reason: errnoText)
    }
}

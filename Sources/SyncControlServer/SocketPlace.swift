import CPosix

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

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
        if mkdir(directory, 0o700) != 0, sa_errno() != EEXIST { throw bad(directory) }
        // Not through a link: somebody else may have put it there.
        let raw = sa_openat(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0)
        guard raw >= 0 else { throw bad(directory) }
        defer { close(raw) }
        var status = stat()
        guard fstat(raw, &status) == 0 else { throw bad(directory) }
        guard status.st_uid == geteuid() else {
            throw .badDirectory(path: directory, reason: "it belongs to another user")
        }
        if status.st_mode & 0o077 != 0, fchmod(raw, 0o700) != 0 { throw bad(directory) }

        guard lstat(path, &status) == 0 else { return }
        guard status.st_mode & S_IFMT == S_IFSOCK else { throw .inTheWay(path: path) }
        guard unlink(path) == 0 || sa_errno() == ENOENT else { throw bad(path) }
    }

    /// Takes the rights that bind(2) has given to others; the directory has kept them out until now.
    func protect() { chmod(path, 0o600) }

    /// Removes the socket.
    func remove() { unlink(path) }

    private func bad(_ path: String) -> ControlServerError {
        .badDirectory(path: path, reason: String(cString: strerror(sa_errno())))
    }
}

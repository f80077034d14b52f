import SyncModel
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
        try rethrowing(checkParent(of: directory), bad)
        if let code = makeDirectory(directory, mode: 0o700), code != .fileExists { throw bad(directory, code) }
        // Not through a link: somebody else may have put it there.
        guard let opened = openDirectory(directory, .noFollow), let found = status(opened.raw),
            let owner = owner(of: opened.raw)
        else { throw bad(directory, .last) }
        // Others' rights in a directory of our own are taken away; one that is not ours is left as it is.
        if owner == CurrentProcess.user, found.permissions & 0o077 != 0, let code = setMode(opened.raw, 0o700) {
            throw bad(directory, code)
        }
        try rethrowing(checkPrivate(opened.raw, shown: directory), bad)

        guard case .success(_?) = status(currentDirectory, path) else { return }
        guard specialKind(path) == "socket" else { throw .inTheWay(path: path) }
        if let code = removeFile(path), code != .noSuchFileOrDirectory { throw bad(path, code) }
    }

    /// Takes the rights that bind(2) has given to others; the directory has kept them out until now.
    func protect() { _ = setMode(path, 0o600) }

    func remove() { removeFile(path) }

    private func bad(_ error: FileError) -> ControlServerError { .badDirectory(path: directory, reason: error.reason) }

    private func bad(_ path: String, _ code: Errno) -> ControlServerError {
        .badDirectory(path: path, reason: "\(code)")
    }
}

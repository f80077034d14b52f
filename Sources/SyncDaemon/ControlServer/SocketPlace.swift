import SyncAgent
import SyncModel
import SyncSystem

/// The place of the socket in the file system: a directory, 0700 and this user's, and the socket in it, 0600.
struct SocketPlace: Sendable {
    let path: String
    private let directory: String

    /// - Throws: ``ControlError`` for a path that is not absolute, or too long for unix(7).
    init(path: String) throws(ControlError) {
        guard path.utf8.count <= 107 else {
            throw ControlError(
                .failed,
                "The socket's path is longer than 107 bytes: \(escaped(path)). Set XDG_RUNTIME_DIR, or XDG_STATE_HOME, to a"
                    + " shorter directory.", exitStatus: .configuration)
        }
        guard path.hasPrefix("/"), let slash = path.lastIndex(of: "/"), slash != path.startIndex else {
            throw Self.bad(path, "it is not absolute, or not in a directory of its own")
        }
        self.path = path
        directory = String(path[..<slash])
    }

    /// Makes the directory and removes a socket that a dead agent has left.
    func prepare() throws(ControlError) {
        try rethrowing(checkParent(of: directory), bad)
        if let code = makeDirectory(directory, mode: 0o700), code != .fileExists { throw bad(directory, code) }
        // Not through a link: somebody else may have put it there.
        guard let opened = openDirectory(directory, .noFollow), let found = status(opened.raw) else {
            throw bad(directory, .last)
        }
        // Others' rights in a directory of our own are taken away; one that is not ours is left as it is.
        if found.user == CurrentProcess.user, found.permissions & 0o077 != 0, let code = setMode(opened.raw, 0o700) {
            throw bad(directory, code)
        }
        try rethrowing(checkPrivate(opened.raw, shown: directory), bad)

        guard case .success(_?) = status(currentDirectory, path) else { return }
        guard specialKind(path) == "socket" else {
            throw ControlError(
                .failed, "\(escaped(path)) is in the way: it is not a socket. Move it elsewhere.",
                exitStatus: .cannotCreate)
        }
        if let code = removeFile(path), code != .noSuchFileOrDirectory { throw bad(path, code) }
    }

    /// Takes the rights that bind(2) has given to others; the directory has kept them out until now.
    func protect() { _ = setMode(path, 0o600) }

    func remove() { removeFile(path) }

    private func bad(_ error: FileError) -> ControlError { Self.bad(directory, error.reason) }

    private func bad(_ path: String, _ code: Errno) -> ControlError { Self.bad(path, "\(code)") }

    private static func bad(_ path: String, _ reason: String) -> ControlError {
        ControlError(
            .failed, "Cannot use \(escaped(path)) for the socket: \(reason).", exitStatus: .cannotCreate)
    }
}

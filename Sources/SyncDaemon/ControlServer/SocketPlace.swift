import SyncAgent
import SyncModel
import SyncSystem

/// The place of the socket in the file system: a directory, 0700 and this user's, and the socket in it, 0600.
extension ControlServer {
    /// Makes the directory and removes a socket that a dead agent has left.
    ///
    /// - Throws: ``ControlError``, also for a path that is not absolute, or too long for unix(7).
    func prepareSocket() throws(ControlError) {
        let path = socketPath
        guard path.utf8.count <= 107 else {
            throw ControlError(
                .failed,
                "The socket's path is longer than 107 bytes: \(escaped(path)). Set XDG_RUNTIME_DIR, or XDG_STATE_HOME, to a"
                    + " shorter directory.", exitStatus: .configuration)
        }
        guard path.hasPrefix("/"), let slash = path.lastIndex(of: "/"), slash != path.startIndex else {
            throw unusable(path, "it is not absolute, or not in a directory of its own")
        }
        let directory = String(path[..<slash])
        do throws(FileError) {
            try checkParent(of: directory)
            if let code = makeDirectory(directory, mode: 0o700), code != .fileExists {
                throw FileError(step: "create", path: directory, code: code)
            }
            // Not through a link: somebody else may have put it there.
            guard let opened = openDirectory(directory, .noFollow), let found = status(opened.raw) else {
                throw .last("open", directory)
            }
            // Others' rights in a directory of our own are taken away; one that is not ours is left as it is.
            if found.user == CurrentProcess.user, found.permissions & 0o077 != 0, let code = setMode(opened.raw, 0o700)
            {
                throw FileError(step: "protect", path: directory, code: code)
            }
            try checkPrivate(opened.raw, shown: directory)
        } catch { throw unusable(directory, error.reason) }

        guard case .success(_?) = status(currentDirectory, path) else { return }
        guard specialKind(path) == "socket" else {
            throw ControlError(
                .failed, "\(escaped(path)) is in the way: it is not a socket. Move it elsewhere.",
                exitStatus: .cannotCreate)
        }
        if let code = removeFile(path), code != .noSuchFileOrDirectory { throw unusable(path, "\(code)") }
    }

    private func unusable(_ path: String, _ reason: String) -> ControlError {
        ControlError(.failed, "Cannot use \(escaped(path)) for the socket: \(reason).", exitStatus: .cannotCreate)
    }
}

import SyncAgent
import SyncModel
import SyncSystem

/// The socket's place in the file system: a directory of this user with mode 0700, with the socket, 0600, and its lock
/// in it.
extension ControlServer {
    /// Creates the directory, takes the lock and removes a socket that a dead agent has left.
    ///
    /// - Returns: The lock, which is the right to listen there.
    /// - Throws: ``ControlError``, also for a path that is not absolute or too long for unix(7); with code `busy` while
    ///   another agent has the lock.
    func prepareSocket() throws(ControlError) -> FileLock {
        let path = socketPath
        guard path.utf8.count <= UnixAddress.longestPath else {
            throw ControlError(
                .failed,
                "The socket's path is longer than \(UnixAddress.longestPath) bytes: \(escaped(path)). "
                    + "Set XDG_RUNTIME_DIR, or XDG_STATE_HOME, to a shorter directory.", exitStatus: .configuration)
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
            // Not through a link: another user may have put it there.
            guard let opened = openDirectory(directory, .noFollow), let found = status(opened.raw) else {
                throw .last("open", directory)
            }
            // In a directory of our own, others lose their permissions. A directory of another user is left as it is.
            if found.user == CurrentProcess.user, found.permissions & 0o077 != 0, let code = setMode(opened.raw, 0o700)
            {
                throw FileError(step: "protect", path: directory, code: code)
            }
            try checkPrivate(opened.raw, shown: directory)
        } catch { throw unusable(directory, error.reason) }

        let taken: FileLock?
        do throws(FileError) {
            let file = try openFile(path + ".lock", [.readWrite, .create], trust: .ownState)
            taken = try FileLock.take(file, path: path + ".lock")
        } catch { throw unusable(path + ".lock", error.reason) }
        guard let lock = taken else {
            throw ControlError(
                .busy,
                "Another agent listens on \(escaped(path)). Stop it, or set XDG_RUNTIME_DIR to another directory.",
                exitStatus: .busy)
        }
        lock.sign(claim)

        guard case .success(_?) = status(currentDirectory, path) else { return lock }
        guard specialKind(path) == "socket" else {
            throw ControlError(
                .failed, "\(escaped(path)) is in the way: it is not a socket. Move it elsewhere.",
                exitStatus: .cannotCreate)
        }
        if let code = removeFile(path), code != .noSuchFileOrDirectory { throw unusable(path, "\(code)") }
        return lock
    }

    private func unusable(_ path: String, _ reason: String) -> ControlError {
        ControlError(
            .failed,
            "Cannot use \(escaped(path)) for the socket: \(reason). Set XDG_RUNTIME_DIR to a directory of your own.",
            exitStatus: .cannotCreate)
    }
}

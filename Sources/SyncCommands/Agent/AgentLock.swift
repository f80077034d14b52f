import CPosix
import Foundation
import SyncModel

/// The right to be a user's agent: one process at a time has it, the kernel takes it back when that one ends.
/// An open file description lock, fcntl(2), on `agent.lock` in the state directory.
final class AgentLock: Sendable {
    private let file: Int32

    private init(file: Int32) { self.file = file }

    deinit { close(file) }

    /// Takes the lock; `nil` when another process has it.
    ///
    /// - Throws: ``CommandFailure`` with status 73.
    static func take(in directory: String) throws(CommandFailure) -> AgentLock? {
        var prefix = ""
        for component in directory.split(separator: "/") {
            prefix += "/" + component
            if mkdir(prefix, 0o700) != 0, access(prefix, F_OK) != 0 { throw failure("create", prefix) }
        }
        let path = directory + "/agent.lock"
        let file = sa_openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_NOFOLLOW, 0o600)
        guard file >= 0 else { throw failure("create", path) }
        guard sa_try_lock(file) == 0 else {
            close(file)
            return nil
        }
        // Only for people.
        let text = Array("\(getpid())\n".utf8)
        if ftruncate(file, 0) == 0 { _ = pwrite(file, text, text.count, 0) }
        return AgentLock(file: file)
    }

    /// Whether some process has it; takes nothing.
    static func isHeld(in directory: String) -> Bool {
        let file = sa_openat(AT_FDCWD, directory + "/agent.lock", O_RDWR | O_NOFOLLOW, 0)
        guard file >= 0 else { return false }
        defer { close(file) }
        return sa_is_locked(file) != 0
    }

    private static func failure(_ step: String, _ path: String) -> CommandFailure {
        let reason = String(cString: strerror(sa_errno()))
        return CommandFailure(
            .cannotCreate,
            "Cannot \(step) \(escaped(path)): \(reason). Set XDG_STATE_HOME to a directory that you can write to."
        )
    }
}

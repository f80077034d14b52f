import CPosix
package import SyncModel

/// A file operation failed: what was tried, on which path, and the system's errno.
package struct FileError: Error, Equatable, Sendable {
    /// The attempt, as a verb: "create", "rename", "sync".
    package let step: String
    /// The path relative to the destination, or as the user gave it.
    package let path: String
    /// errno(3); 0 when the system was not asked.
    package let code: Int32
    /// Said instead of the errno text where it is clearer.
    package let remark: String?

    package init(step: String, path: String, code: Int32, remark: String? = nil) {
        self.step = step
        self.path = path
        self.code = code
        self.remark = remark
    }

    /// The error behind the errno of the call that just failed.
    package static func last(_ step: String, _ path: String) -> FileError {
        FileError(step: step, path: path, code: sa_errno())
    }
}

extension FileError: CustomStringConvertible {
    package var description: String {
        "cannot \(step) \(escaped(path)): \(reason)"
    }
}

extension FileError {
    /// What matters for what to do; never a server's fault.
    package var cause: FailureCause {
        switch code {
        case ENOSPC, EDQUOT: .diskFull
        case EACCES, EPERM, EROFS: .noPermission
        case ENOTDIR, EISDIR, EEXIST, ENOTEMPTY, ELOOP, ENAMETOOLONG, ESTALE: .inTheWay
        // The system was not asked: somebody else has put something there.
        case 0 where step == "replace" || step == "place": .inTheWay
        default: .diskTrouble
        }
    }

    /// Whether there is nothing of that name.
    package var isMissing: Bool { code == ENOENT || code == ENOTDIR }

    /// Why, without what and where.
    package var reason: String { remark ?? errorText(code) }

    /// A sentence about a file of the state directory, with what to do.
    package var ofState: String {
        "Cannot \(step) \(escaped(path)): \(reason). Set XDG_STATE_HOME to a directory of your own; with sudo, use"
            + " 'sudo -H'."
    }
}

package import SyncModel

/// A file operation failed: what was tried, on which path, and the system's errno.
package struct FileError: Error, Equatable, Sendable {
    /// The attempt, as a verb: "create", "rename", "sync".
    package let step: String
    /// The path relative to the destination, or as the user gave it.
    package let path: String
    /// What the system said; `nil` when it was not asked.
    package let code: Errno?
    /// Said instead of the errno text where it is clearer.
    package let remark: String?
    /// What the errno does not tell; `nil` where it tells everything.
    package let trouble: Trouble?

    package enum Trouble: Sendable {
        /// Somebody else has put something there; the system was not asked.
        case inTheWay
        /// The file could be made, but what belongs into it did not get to the disk.
        case unwritten
        /// What was there could not be backed up, so it was left as it is.
        case unkept
    }

    package init(step: String, path: String, code: Errno? = nil, remark: String? = nil, trouble: Trouble? = nil) {
        (self.step, self.path, self.code, self.remark, self.trouble) = (step, path, code, remark, trouble)
    }

    /// The error of the call that just failed, as ``Errno/last`` has it.
    package static func last(_ step: String, _ path: String) -> FileError {
        FileError(step: step, path: path, code: .last)
    }

    /// The same of a call on an open file, which is there: if the system says that it is not, its disk has lost it.
    package static func last(_ step: String, ofOpen path: String) -> FileError {
        let error = last(step, path)
        return error.isMissing ? FileError(step: step, path: path, code: .ioError) : error
    }

    /// Makes sure that a call did not fail.
    package static func check(_ code: Errno?, _ step: String, _ path: @autoclosure () -> String) throws(FileError) {
        if let code { throw FileError(step: step, path: path(), code: code) }
    }
}

extension FileError: CustomStringConvertible {
    package var description: String { "cannot \(step) \(escaped(path)): \(reason)" }
}

extension FileError {
    /// What matters for what to do; never a server's fault.
    package var cause: FailureCause {
        switch code {
        case .noSpace, .diskQuotaExceeded: .diskFull
        case .permissionDenied, .notPermitted, .readOnlyFileSystem: .noPermission
        case .notDirectory, .isDirectory, .fileExists, .directoryNotEmpty, .tooManySymbolicLinkLevels, .fileNameTooLong,
            .staleNFSFileHandle:
            .inTheWay
        case nil where trouble == .inTheWay: .inTheWay
        default: .diskTrouble
        }
    }

    /// Whether there is nothing of that name.
    package var isMissing: Bool { code == .noSuchFileOrDirectory || code == .notDirectory }

    /// Whether the file is there, and refused for who owns it or may write to it.
    package var isRefusal: Bool { code == .notPermitted && remark != nil }

    /// Why, without what and where.
    package var reason: String {
        if let remark { return remark }
        guard let code else { return "unknown" }
        // No fault of the disk, and nothing that a second try changes.
        return code == .tooManyOpenFiles ? "\(code): raise the limit, ulimit -n 1024" : "\(code)"
    }

    /// A sentence about a file of the state directory, with what to do.
    package var ofState: String {
        "Cannot \(step) \(escaped(path)): \(reason). Set XDG_STATE_HOME to a directory of your own; with sudo, use"
            + " 'sudo -H'."
    }
}

package import SyncModel

/// A failed file operation: the step, the path, and the system's errno.
package struct FileError: Error, Equatable, Sendable {
    /// The step, as a verb: "create", "rename", "sync".
    package let step: String
    /// The path relative to the destination, or as the user gave it.
    package let path: String
    /// The system's error; `nil` if there was no system call.
    package let code: Errno?
    /// Replaces the errno text if it is clearer.
    package let remark: String?
    /// A circumstance that the errno does not show; `nil` for none.
    package let trouble: Trouble?

    package enum Trouble: Sendable {
        /// A foreign entry has the name; there was no system call.
        case inTheWay
        /// The file could be created, but its content could not be written to disk.
        case unwritten
        /// The existing file could not be backed up, so it was not replaced.
        case unkept
    }

    package init(step: String, path: String, code: Errno? = nil, remark: String? = nil, trouble: Trouble? = nil) {
        (self.step, self.path, self.code, self.remark, self.trouble) = (step, path, code, remark, trouble)
    }

    /// The error of the last failed call, from ``Errno/last``.
    package static func last(_ step: String, _ path: String) -> FileError {
        FileError(step: step, path: path, code: .last)
    }

    /// The same for a call on an open file, which exists: if the system reports it missing, its disk has lost it.
    package static func last(_ step: String, ofOpen path: String) -> FileError {
        let error = last(step, path)
        return error.isMissing ? FileError(step: step, path: path, code: .ioError) : error
    }

    /// Throws if a call failed.
    package static func check(_ code: Errno?, _ step: String, _ path: @autoclosure () -> String) throws(FileError) {
        if let code { throw FileError(step: step, path: path(), code: code) }
    }
}

/// What is at a place; `nil` if nothing has the name.
package func ifPresent<R: ~Copyable>(_ place: @autoclosure () throws(FileError) -> R) throws(FileError) -> R? {
    do throws(FileError) { return try place() } catch {
        if error.isMissing { return nil }
        throw error
    }
}

extension FileError: CustomStringConvertible {
    package var description: String { "cannot \(step) \(escaped(path)): \(reason)" }
}

extension FileError {
    /// The cause, which determines the remedy; never a server's fault.
    package var cause: FailureCause {
        switch code {
        case .noSpace, .diskQuotaExceeded: .diskFull
        case .permissionDenied, .notPermitted, .readOnlyFileSystem: .noPermission
        case .notDirectory, .isDirectory, .fileExists, .directoryNotEmpty, .tooManySymbolicLinkLevels, .fileNameTooLong,
            .staleNFSFileHandle, .deviceOrResourceBusy:
            .inTheWay
        case nil where trouble == .inTheWay: .inTheWay
        default: .diskTrouble
        }
    }

    /// Whether nothing has the name.
    package var isMissing: Bool { code == .noSuchFileOrDirectory || code == .notDirectory }

    /// Whether the file exists and was refused, for example because of its owner or its mode.
    package var isRefusal: Bool { code == .notPermitted && remark != nil }

    /// The reason, without the step and the path.
    package var reason: String {
        if let remark { return remark }
        guard let code else { return "unknown" }
        // Not a fault of the disk, and a retry would not help.
        return switch code {
        case .tooManyOpenFiles: "\(code): raise the limit: ulimit -n 1024"
        case .deviceOrResourceBusy: "\(code): something is mounted there, or it is in use"
        default: "\(code)"
        }
    }

    /// A sentence about a file of the state directory, with a remedy.
    package var ofState: String {
        "Cannot \(step) \(escaped(path)): \(reason). Set XDG_STATE_HOME to a directory of your own; with sudo, use"
            + " 'sudo -H'."
    }
}

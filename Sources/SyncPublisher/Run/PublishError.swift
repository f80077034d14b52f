package import SyncModel
import SyncSystem

/// Why nothing was published: what happened, to what, and what to do. The old manifest is still in place, unless the
/// details say otherwise.
package struct PublishError: Error, Sendable, Equatable {
    /// The status the command ends with.
    package let exitStatus: ExitStatus

    /// What happened, and to what; safe for a terminal.
    package let summary: String

    /// One line for each thing concerned; safe for a terminal.
    package let details: [String]

    /// What to do about it.
    package let remedy: String

    package init(_ exitStatus: ExitStatus, _ summary: String, details: [String] = [], _ remedy: String) {
        (self.exitStatus, self.summary, self.details, self.remedy) = (exitStatus, summary, details, remedy)
    }
}

extension PublishError: CustomStringConvertible {
    /// What, where, what to do; one line for each refused entry.
    package var description: String { ([summary] + details.map { "  " + $0 } + [remedy]).joined(separator: "\n") }
}

/// Errors by kind: what happened, and what to do.
extension PublishError {
    /// Options that make no sense together.
    static func usage(_ what: String, _ todo: String) -> Self { Self(.usage, what, todo) }
    /// The source directory or the base manifest does not exist.
    static func notFound(_ what: String, _ todo: String) -> Self { Self(.noInput, what, todo) }
    /// What no manifest can carry, or a base manifest that breaks the format.
    static func invalid(_ what: String, _ todo: String) -> Self { Self(.dataInvalid, what, todo) }
    /// Reading the source failed.
    static func cannotRead(_ what: String, _ todo: String) -> Self { Self(.ioError, what, todo) }
    /// The output directory cannot be made or opened.
    static func cannotCreate(_ what: String, _ todo: String) -> Self { Self(.cannotCreate, what, todo) }
    /// A key is missing or not valid, the output may be somebody else's work, or the request is probably a mistake. An
    /// option says otherwise.
    static func refused(_ what: String, details: [String] = [], _ todo: String) -> Self {
        Self(.refused, what, details: details, todo)
    }
    /// Another publish has the output directory.
    static func busy(_ what: String, _ todo: String) -> Self { Self(.busy, what, todo) }
    static func bug(_ what: String) -> Self { Self(.internalError, what, "report this as a bug") }

    /// A call that failed with an errno.
    private static func failed(_ path: String, _ attempt: String, _ code: Errno?, _ todo: String) -> Self {
        .cannotRead("cannot \(attempt) \(escaped(path)): \(code?.description ?? "unknown error")", todo)
    }

    /// A read of the source that failed with an errno.
    static func reading(_ path: String, _ attempt: String, code: Errno?) -> Self {
        let todo = "check the source disk; the published set is unchanged"
        let permit = "give this user permission to read it, or publish as its owner"
        return failed(path, attempt, code, code == .permissionDenied ? permit : todo)
    }

    /// A read of what is published that failed with an errno; the file may be whole.
    static func unread(_ path: String, _ attempt: String, code: Errno?) -> Self {
        let todo = "check its disk, and how many files may be open; the published set is unchanged"
        let permit = "give this user permission to read it; the published set is unchanged"
        return failed(path, attempt, code, code == .permissionDenied ? permit : todo)
    }

    /// A write to the output that failed with an errno.
    static func writing(_ path: String, _ attempt: String, code: Errno?) -> Self {
        let isFull = code == .noSpace || code == .diskQuotaExceeded
        let todo = isFull ? "free space in the output directory" : "check the output directory"
        return failed(path, attempt, code, "\(todo); the published set is unchanged")
    }

    /// A file that has changed since the walk saw it.
    static func changed(_ path: String) -> Self {
        Self(
            .ioError, "\(escaped(path)) changed while it was being published",
            "publish again when nothing writes there, or publish a snapshot")
    }

    /// The caller asked to stop.
    package static var cancelled: Self {
        Self(.interrupted, "stopped before the end", "the published set is unchanged; run it again")
    }

    /// pthread_create(3) failed.
    static var noThreads: Self {
        Self(.ioError, "the system allows no more threads", "raise the limit, or use fewer jobs")
    }

    /// The same error, where what was to be signed is in place already.
    func unsigned(_ change: String, _ todo: String) -> Self {
        let note = "\(change), but it is not signed: pinned machines stay with the last signed release"
        return Self(
            exitStatus, summary, details: details + [note],
            exitStatus == .refused ? "\(remedy); then \(todo)" : todo)
    }
}

/// Calls OpenSSL, zstd or another library, whose error becomes an internal error.
func calling<R: ~Copyable>(_ library: () throws -> R) throws(PublishError) -> R {
    do { return try library() } catch let error as PublishError { throw error } catch {
        throw PublishError(.internalError, "\(error)", "check memory limits and the libraries' configuration")
    }
}

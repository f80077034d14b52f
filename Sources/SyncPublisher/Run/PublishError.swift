package import SyncModel
import SyncSystem

/// Why nothing was published: what happened, to what, and what to do. The old manifest is still in place, unless the
/// details say otherwise.
package struct PublishError: Error, Sendable, Equatable {
    /// The kind of failure, which decides the exit status.
    package enum Code: Sendable, Equatable {
        /// Options that make no sense together.
        case usage
        /// The source directory or the base manifest does not exist.
        case notFound
        /// Entries that no manifest can carry; ``PublishError/details`` names them.
        case refusedEntries
        /// The base manifest breaks the format.
        case invalidBase
        /// A file was written to while it was read.
        case changedWhileRead
        /// Reading the source failed.
        case cannotRead
        /// The output directory cannot be made or opened.
        case cannotCreate
        /// Writing the output failed, or the disk is full.
        case cannotWrite
        /// Another publish has the output directory.
        case busy
        /// A key is missing, or does not count.
        case cannotSign
        /// What is in the output, or the base, may be somebody else's work; or what is asked for is probably a mistake. An
        /// option says otherwise.
        case refused
        /// The caller asked to stop.
        case cancelled
        /// OpenSSL, zstd or the system refused something that cannot be refused.
        case internalError
    }

    /// The kind of failure.
    package let code: Code

    /// What happened, and to what; safe for a terminal.
    package let summary: String

    /// One line for each thing concerned; safe for a terminal.
    package let details: [String]

    /// What to do about it.
    package let remedy: String

    package init(_ code: Code, _ summary: String, details: [String] = [], _ remedy: String) {
        self.code = code
        self.summary = summary
        self.details = details
        self.remedy = remedy
    }

    /// The status the command ends with.
    package var exitStatus: ExitStatus {
        switch code {
        case .usage: .usage
        case .notFound: .noInput
        case .refusedEntries, .invalidBase: .dataInvalid
        case .changedWhileRead, .cannotRead, .cannotWrite: .ioError
        case .cannotCreate: .cannotCreate
        case .busy: .busy
        case .cannotSign, .refused: .refused
        case .cancelled: .interrupted
        case .internalError: .internalError
        }
    }
}

extension PublishError: CustomStringConvertible {
    /// What, where, what to do; one line for each refused entry.
    package var description: String { ([summary] + details.map { "  " + $0 } + [remedy]).joined(separator: "\n") }
}

/// Errors by code: what happened, and what to do.
extension PublishError {
    static func usage(_ what: String, _ todo: String) -> Self { Self(.usage, what, todo) }
    static func notFound(_ what: String, _ todo: String) -> Self { Self(.notFound, what, todo) }
    static func refusedEntries(_ what: String, _ todo: String) -> Self { Self(.refusedEntries, what, todo) }
    static func invalidBase(_ what: String, _ todo: String) -> Self { Self(.invalidBase, what, todo) }
    static func cannotRead(_ what: String, _ todo: String) -> Self { Self(.cannotRead, what, todo) }
    static func cannotCreate(_ what: String, _ todo: String) -> Self { Self(.cannotCreate, what, todo) }
    static func cannotSign(_ what: String, _ todo: String) -> Self { Self(.cannotSign, what, todo) }
    static func refused(_ what: String, details: [String] = [], _ todo: String) -> Self {
        Self(.refused, what, details: details, todo)
    }
    static func bug(_ what: String) -> Self { Self(.internalError, what, "report this as a bug") }

    /// A read of the source that failed with an errno.
    static func reading(_ path: String, _ attempt: String, code: Errno?) -> Self {
        .cannotRead(
            "cannot \(attempt) \(escaped(path)): \(code?.description ?? "unknown error")",
            code == .permissionDenied
                ? "give this user permission to read it, or publish as its owner"
                : "check the source disk; the published set is unchanged")
    }

    /// A write to the output that failed with an errno.
    static func writing(_ path: String, _ attempt: String, code: Errno?) -> Self {
        Self(
            .cannotWrite, "cannot \(attempt) \(escaped(path)): \(code?.description ?? "unknown error")",
            code == .noSpace || code == .diskQuotaExceeded
                ? "free space in the output directory; the published set is unchanged"
                : "check the output directory; the published set is unchanged")
    }

    /// A file that is not what it was when the walk saw it.
    static func changed(_ path: String) -> Self {
        Self(
            .changedWhileRead, "\(escaped(path)) changed while it was being published",
            "publish again when nothing writes there, or publish a snapshot")
    }

    /// The caller asked to stop.
    static var cancelled: Self {
        Self(.cancelled, "stopped before the end", "the published set is unchanged; run it again")
    }

    /// pthread_create(3) failed.
    static var noThreads: Self {
        Self(.internalError, "the system allows no more threads", "raise the limit, or use fewer jobs")
    }

    /// The same error, of a signature for something that is in place already.
    func unsigned(_ change: String, _ todo: String) -> Self {
        let note = "\(change), but this is not signed: pinned machines stay at what was signed before"
        return Self(code, summary, details: details + [note], code == .cannotSign ? "\(remedy); then \(todo)" : todo)
    }
}

/// Calls OpenSSL, zstd or another library; what it refuses becomes an internal error.
func calling<R: ~Copyable>(_ library: () throws -> R) throws(PublishError) -> R {
    do { return try library() } catch let error as PublishError { throw error } catch {
        throw PublishError(.internalError, "\(error)", "check memory limits and the libraries' configuration")
    }
}

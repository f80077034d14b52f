import SyncContent
package import SyncModel
import SyncPlugins
package import SyncSystem

/// Why a command of the engine ended early: the exit status and one line for people.
package struct EngineError: Error, Sendable, Equatable {
    package var status: ExitStatus
    /// What happened, to what, and what to do; foreign text in it is escaped.
    package var message: String
    /// The kind of failure, which decides the advice.
    package var cause: FailureCause
    /// Whether a run in the store records this error.
    var isOnRecord = false

    /// Whether two errors say the same, recorded or not.
    package static func == (a: EngineError, b: EngineError) -> Bool {
        (a.status, a.message, a.cause) == (b.status, b.message, b.cause)
    }

    /// - Parameter cause: `nil` to derive it from `status`.
    package init(_ status: ExitStatus, _ message: String, cause: FailureCause? = nil) {
        self.status = status
        self.message = message
        self.cause = cause ?? FailureCause(status)
    }

    /// The error for a local place that cannot be created or written to; a full disk has another status than missing
    /// permission.
    ///
    /// - Parameter what: What was tried, followed by a colon and a blank.
    package init(cannotUse error: FileError, _ what: String = "") {
        let cause = error.code == .noSuchFileOrDirectory ? .noPermission : error.cause
        self.init(cause == .diskFull ? .ioError : .cannotCreate, "\(what)\(error)", cause: cause)
    }

    /// The error for a deadline that has passed; `where` says how far the command got.
    package static func late(_ where: String, _ status: ExitStatus = .unavailable) -> EngineError {
        EngineError(status, "the deadline has passed; \(`where`)", cause: .late)
    }

    /// The same error, or ``late(_:_:)`` if the stop was because of a deadline.
    package func after(_ reason: StopReason?) -> EngineError {
        reason == .late && status == .interrupted ? .late(message) : self
    }
}

/// A local place, or the error that it cannot be created or written to.
///
/// - Parameter what: What was tried, followed by a colon and a blank.
func usable<R: ~Copyable>(_ place: @autoclosure () throws(FileError) -> R, _ what: String = "") throws(EngineError) -> R
{ do throws(FileError) { return try place() } catch { throw EngineError(cannotUse: error, what) } }

/// The result of work on files, or the error that it has failed.
func onDisk<R: ~Copyable>(_ work: @autoclosure () throws(FileError) -> R) throws(EngineError) -> R {
    do throws(FileError) { return try work() } catch { throw EngineError(.ioError, "\(error)", cause: error.cause) }
}

/// The SHA-256 of a text, or the error that there is no memory for it.
func digest(of text: [UInt8]) throws(EngineError) -> SHA256Digest {
    do throws(DigestError) { return try sha256(text) } catch { throw EngineError(.internalError, "\(error)") }
}

extension TransferError {
    /// The exit status of a command that this error ends.
    var exitStatus: ExitStatus { cause.isRefusal ? .refused : .unavailable }
}

extension EngineError: CustomStringConvertible { package var description: String { message } }

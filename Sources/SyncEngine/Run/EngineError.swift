package import SyncModel
import SyncPlugins
package import SyncSystem

/// Why a command of the engine ended early: the exit status and one line for people.
package struct EngineError: Error, Sendable, Equatable {
    package var status: ExitStatus
    /// What happened, to what, and what to do; foreign text in it is escaped.
    package var message: String
    /// What matters for what to do.
    package var cause: FailureCause
    /// Whether a run in the store says it.
    var isOnRecord = false

    /// Whether two say the same, on record or not.
    package static func == (a: EngineError, b: EngineError) -> Bool {
        (a.status, a.message, a.cause) == (b.status, b.message, b.cause)
    }

    /// - Parameter cause: `nil` where ``status`` says it.
    package init(_ status: ExitStatus, _ message: String, cause: FailureCause? = nil) {
        self.status = status
        self.message = message
        self.cause = cause ?? FailureCause(status)
    }

    /// A local place cannot be created or written to; a full disk has another status than missing permission.
    ///
    /// - Parameter what: What was tried, followed by a colon and a blank.
    package init(cannotUse error: FileError, _ what: String = "") {
        let cause = error.isMissing ? .noPermission : error.cause
        self.init(cause == .diskFull ? .ioError : .cannotCreate, "\(what)\(error)", cause: cause)
    }

    /// The deadline that a person gave has passed; `where` says how far the command got.
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

extension TransferError {
    /// What a command ends with that this error ended.
    var exitStatus: ExitStatus { cause.isRefusal ? .refused : .unavailable }
}

extension EngineError: CustomStringConvertible { package var description: String { message } }

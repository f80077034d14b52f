package import SyncModel
package import SyncSystem

/// Why a command of the engine ended early: what the process exits with, and one line for people.
package struct EngineError: Error, Sendable, Equatable {
    package var status: ExitStatus
    /// What happened, to what, what to do; foreign text in it has been escaped.
    package var message: String
    /// What matters for what to do.
    package var cause: FailureCause
    /// Whether a server has answered that it gives that to nobody: 403.
    var isForbidden = false

    /// - Parameter cause: `nil` where ``status`` says it.
    package init(_ status: ExitStatus, _ message: String, cause: FailureCause? = nil) {
        self.status = status
        self.message = message
        self.cause = cause ?? FailureCause(status)
    }

    /// A place of this machine cannot be made or written: that its disk is full is another status than that it may not be.
    ///
    /// - Parameter what: What was tried, with a colon and a blank.
    package init(cannotUse error: FileError, _ what: String = "") {
        let cause = error.isMissing ? .noPermission : error.cause
        self.init(cause == .diskFull ? .ioError : .cannotCreate, "\(what)\(error)", cause: cause)
    }

    /// The time that a person gave it is up; `where` says how far it came.
    package static func late(_ where: String, _ status: ExitStatus = .unavailable) -> EngineError {
        EngineError(status, "the deadline has passed; \(`where`)", cause: .late)
    }

    /// The same error, where somebody asked to stop because the time is up.
    package func after(_ reason: StopReason?) -> EngineError {
        reason == .late && status == .interrupted ? .late(message) : self
    }
}

extension EngineError: CustomStringConvertible {
    package var description: String { message }
}

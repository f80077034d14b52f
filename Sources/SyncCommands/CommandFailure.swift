import SyncAgent
import SyncAssembly
import SyncEngine
package import SyncModel
import SyncPublisher
import SyncSchedule
import SyncServer
import SyncStore
import SyncSystem

/// The end of a command: the message for the caller and the exit status.
package struct CommandFailure: Error, Sendable, Equatable {
    package let status: ExitStatus
    /// For people: what happened, where, and what to do. Empty if everything has been reported already.
    package let message: String
    /// The kind of failure, which decides what to do about it.
    let cause: FailureCause

    /// Creates a failure; foreign text in `message` must have gone through `escaped(_:)` or `redacted(url:)`.
    ///
    /// - Parameter cause: `nil` if it follows from the exit status.
    package init(_ status: ExitStatus, _ message: String = "", cause: FailureCause? = nil) {
        self.status = status
        self.message = message
        self.cause = cause ?? FailureCause(status)
    }

    /// The failure for an error of the agent, or of the connection to it.
    init(_ error: ControlError) { self.init(error.exitStatus, error.message, cause: error.cause) }

    /// The failure for an error of the engine or its parts.
    init(_ error: EngineError) { self.init(error.status, error.message, cause: error.cause) }

    /// The failure for an error of the modules below; `nil` for others, such as wrong arguments, for which the parser
    /// has the words.
    init?(_ error: any Error) {
        switch error {
        case let error as CommandFailure: self = error
        case let error as ServerError: self.init(error.status, error.message)
        case let error as ControlError: self.init(error)
        case let error as EngineError: self.init(error)
        case let error as PublishError: self.init(error.exitStatus, error.description)
        case let error as ScheduleError: self.init(error.exitStatus, error.description)
        case let error as SettingsError: self.init(EngineError(error))
        case let error as StoreError: self.init(error.status, error.message)
        case let error as ThreadError: self.init(.ioError, "\(error)")
        default: return nil
        }
    }
}

extension ScheduleError {
    fileprivate var exitStatus: ExitStatus {
        switch code {
        case .invalid: .usage
        case .unknown: .noInput
        case .unavailable: .unavailable
        case .file: isRefusal ? .refused : .ioError
        case .malformed: .configuration
        }
    }
}

/// Runs work whose errors become the command's.
func translating<R>(_ work: @autoclosure () throws -> R) throws(CommandFailure) -> R {
    do { return try work() } catch { throw CommandFailure(error) ?? CommandFailure(.internalError, "\(error)") }
}

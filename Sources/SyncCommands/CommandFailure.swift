import SyncAgent
import SyncAssembly
import SyncCache
import SyncDaemon
import SyncEngine
package import SyncModel
import SyncPublisher
import SyncSchedule
import SyncServer
import SyncStore
import SyncSystem

/// Ends a command: what the caller is told and what the process exits with.
package struct CommandFailure: Error, Sendable, Equatable {
    package let status: ExitStatus
    /// For people: what happened, to what, what to do. Empty when everything has been said already.
    package let message: String
    /// What matters for what to do.
    let cause: FailureCause

    /// Makes a failure; foreign text in `message` must have gone through `escaped(_:)` or `redacted(url:)`.
    ///
    /// - Parameter cause: `nil` where the exit status says it.
    package init(_ status: ExitStatus, _ message: String = "", cause: FailureCause? = nil) {
        self.status = status
        self.message = message
        self.cause = cause ?? FailureCause(status)
    }

    /// What the agent, or the way to it, says.
    init(_ error: ControlError) { self.init(error.exitStatus, error.message, cause: error.cause) }

    /// What an engine, or what it is made with, says.
    init(_ error: EngineError) { self.init(error.status, error.message, cause: error.cause) }

    /// What an error of the modules below is to a command; `nil` for others, such as wrong arguments, which the parser words.
    init?(_ error: any Error) {
        switch error {
        case let error as CommandFailure: self = error
        case let error as CacheError: self.init(error.status, error.message)
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
        case .file: .ioError
        }
    }
}

/// Does work whose errors become the command's.
func translating<R>(_ work: @autoclosure () throws -> R) throws(CommandFailure) -> R {
    do { return try work() } catch { throw CommandFailure(error) ?? CommandFailure(.internalError, "\(error)") }
}

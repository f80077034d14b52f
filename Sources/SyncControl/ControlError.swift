public import SyncModel

/// Why the agent did not do what it was asked.
public struct ControlError: Error, Sendable, Equatable, CustomStringConvertible {
    /// What a program can act on.
    public enum Code: String, Sendable, Codable, CaseIterable {
        case unknownSession = "unknown_session"
        case notFound = "not_found"
        /// Somebody else works on the session.
        case busy
        /// The life cycle does not allow it; nothing was changed.
        case refused
        /// The request makes no sense.
        case invalid
        /// The agent takes no new work.
        case stopping
        /// No agent answers.
        case unreachable
        /// What was asked for could not be done: manifest, destination, state; see the exit status.
        case failed
        case `internal`
    }

    /// What a program can act on.
    public let code: Code
    /// One line for people: what, where, what to do.
    public let message: String
    /// What a command that cannot go on exits with.
    public let exitStatus: ExitStatus

    /// Makes an error; foreign text in `message` must have gone through `escaped(_:)` or `redacted(url:)`.
    public init(_ code: Code, _ message: String, exitStatus: ExitStatus) {
        self.code = code
        self.message = message
        self.exitStatus = exitStatus
    }

    /// The message.
    public var description: String { message }
}

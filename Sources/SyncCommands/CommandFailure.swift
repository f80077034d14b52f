package import SyncModel

/// Ends a command: what the caller is told and what the process exits with.
package struct CommandFailure: Error, Sendable, Equatable {
    /// The exit status.
    package let status: ExitStatus
    /// For people: what happened, to what, what to do. Empty when everything has been said already.
    package let message: String

    /// Makes a failure; foreign text in `message` must have gone through `escaped(_:)` or `redacted(url:)`.
    package init(_ status: ExitStatus, _ message: String = "") {
        self.status = status
        self.message = message
    }
}

package import SyncModel

/// Why a command of the engine ended early: what the process exits with, and one line for people.
package struct EngineError: Error, Sendable, Equatable {
    package var status: ExitStatus
    /// What happened, to what, what to do; foreign text in it has been escaped.
    package var message: String

    package init(_ status: ExitStatus, _ message: String) {
        self.status = status
        self.message = message
    }
}

extension EngineError: CustomStringConvertible {
    package var description: String { message }
}

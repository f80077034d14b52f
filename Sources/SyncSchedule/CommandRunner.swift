/// How a program of the system ended.
package struct CommandOutcome: Sendable, Equatable {
    /// Its exit status; 127 when it could not be started.
    package var status: Int32
    package var output: [UInt8]
    /// What it said on standard error, for people.
    package var errors: String

    /// See the properties.
    package init(status: Int32, output: [UInt8] = [], errors: String = "") {
        self.status = status
        self.output = output
        self.errors = errors
    }
}

/// Runs a program of the system: its name or path and arguments, and what it reads on standard input. Tests give
/// one that only takes notes.
package typealias CommandRunner = @Sendable (_ arguments: [String], _ input: [UInt8]) -> CommandOutcome

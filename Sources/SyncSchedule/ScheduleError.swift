/// Why a schedule cannot be made, kept or put into effect.
package struct ScheduleError: Error, Sendable, Equatable, CustomStringConvertible {
    /// What kind of failure it is; the command's exit status follows from it.
    package enum Code: Sendable, Equatable {
        /// What was asked for makes no sense.
        case invalid
        /// There is no such schedule.
        case unknown
        /// This machine has nothing that could start it, or what it has refuses.
        case unavailable
        /// A file could not be read or written.
        case file
    }

    package let code: Code
    /// For people: what happened, to what, what to do.
    package let description: String

    /// Makes an error; foreign text in `description` must have gone through `escaped(_:)`.
    package init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }
}

/// Why a machine does not trust the files it was served. Nothing is changed then; exit status 77 or 69.
package struct TrustRefusal: Error, Sendable, Equatable, CustomStringConvertible {
    package enum Cause: String, Sendable, CaseIterable {
        /// There is no statement where one has to be.
        case unsigned
        /// A statement cannot be read, or is too long.
        case malformed
        /// A statement is about another project.
        case project
        /// Too few valid keys have signed a statement.
        case signature
        /// A statement is older than one that was accepted before: a rollback.
        case older
        /// A statement has expired: a freeze, or nobody has signed anew.
        case stale
        /// The statements do not belong together, or one of them is not there.
        case mixed
        /// This machine's clock is behind signatures that it has seen, or a signature is from the future.
        case clock
        /// The pin has no room for another channel.
        case pin
        /// A valid statement says that the channel no longer exists.
        case removed
        /// A statement did not arrive in the time that a place has: slow retrieval.
        case slow
        /// A statement could not be fetched.
        case unreachable

        /// Whether nothing arrived that could be judged: exit status 69, where no other place had anything worse.
        package var isSilence: Bool { self == .slow || self == .unreachable }
    }

    package let cause: Cause
    /// What happened, to what, what to do; without a full stop. Foreign text in it has been escaped.
    package let message: String

    package init(_ cause: Cause, _ message: String) { (self.cause, self.message) = (cause, message) }

    package var description: String { message }
}

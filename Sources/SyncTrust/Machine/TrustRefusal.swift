/// Why a machine does not believe what it was served: nothing is changed then, exit status 77 or 69.
package struct TrustRefusal: Error, Sendable, Equatable, CustomStringConvertible {
    package enum Cause: String, Sendable, CaseIterable {
        /// There is no statement where one has to be.
        case unsigned
        /// It cannot be read, or is too long.
        case malformed
        /// It is about another project.
        case project
        /// Too few of the keys that count have signed it.
        case signature
        /// It is older than one that was believed before: a rollback.
        case older
        /// It no longer counts: a freeze, or nobody has signed anew.
        case stale
        /// It does not belong to what it came with.
        case mixed
        /// This machine's clock stands before signatures that it has seen, or a signature is from the future.
        case clock
        /// The pin is another one's.
        case pin
        /// Those who are trusted say that there is no such channel any more.
        case removed
        /// It did not come in the time that a place has: slow retrieval.
        case slow
        /// It could not be fetched.
        case unreachable

        /// Whether nothing came that could be judged: exit status 69, where no other place had anything worse.
        package var isSilence: Bool { self == .slow || self == .unreachable }
    }

    package let cause: Cause
    /// What happened, to what, what to do; without a full stop. Foreign text in it has been escaped.
    package let message: String

    package init(_ cause: Cause, _ message: String) { (self.cause, self.message) = (cause, message) }

    package var description: String { message }
}

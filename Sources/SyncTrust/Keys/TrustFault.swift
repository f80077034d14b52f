/// What is wrong with a key, a signature or a statement, before anyone knows whose: one line for people. Foreign text
/// in it has been escaped.
package struct TrustFault: Error, Sendable, Equatable, CustomStringConvertible {
    /// What is wrong, without a full stop.
    package let reason: String

    package init(_ reason: String) { self.reason = reason }

    package var description: String { reason }
}

/// What a condition may look at besides the machine.
public struct ConditionContext: Sendable, Equatable {
    /// Where files go, absolute.
    public var destination: String
    /// Body **bytes** that the run has received so far, over all its attempts.
    public var receivedBytes: UInt64
    /// **Milliseconds** since 1970.
    public var now: Int64

    /// Makes a context; see the properties.
    public init(destination: String, receivedBytes: UInt64 = 0, now: Int64) {
        self.destination = destination
        self.receivedBytes = receivedBytes
        self.now = now
    }
}

/// Whether a run may go on.
public enum ConditionState: Sendable, Equatable {
    /// It may.
    case ok
    /// It may not; the reason is for people. `until`, in **milliseconds** since 1970, when that is known.
    case blocked(reason: String, until: Int64? = nil)
    /// It cannot be told; counts as ``ok``, and a warning says why (S49).
    case unknown(reason: String)
}

/// Tells whether a run may go on now. Asked before a run starts and every few seconds while it runs (S133).
///
/// When it fails, that counts as ``ConditionState/unknown(reason:)``.
public protocol Condition: Sendable {
    /// What `status` and events call it: lower case, words joined by `_`.
    var name: String { get }

    /// Looks; blocks, shortly.
    func state(in context: ConditionContext) throws(PluginError) -> ConditionState
}

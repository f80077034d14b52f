/// One task of a session's latest run: a path, and the content it must have.
public struct TaskStatus: Sendable, Equatable, Codable {
    /// Relative to the destination.
    public var path: String
    /// Of its content, 64 digits; `nil` for a link.
    public var sha256: String?
    /// **Bytes**.
    public var size: UInt64
    /// Where it is in its life.
    public var state: TaskState
    /// Why, for people, where there is more to say.
    public var reason: String?
    /// The transfer that it was given to last.
    public var transfer: UInt64?

    /// Puts a task together; see the properties.
    public init(
        path: String, sha256: String?, size: UInt64, state: TaskState, reason: String? = nil, transfer: UInt64? = nil
    ) {
        (self.path, self.sha256, self.size) = (path, sha256, size)
        (self.state, self.reason, self.transfer) = (state, reason, transfer)
    }
}

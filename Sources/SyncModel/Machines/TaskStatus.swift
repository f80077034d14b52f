/// One task of a session's latest run: a path with its required content.
public struct TaskStatus: Sendable, Equatable, Codable {
    /// Relative to the destination.
    public var path: String
    /// The digest of its content, 64 digits; `nil` for a link.
    public var sha256: String?
    /// **Bytes**.
    public var size: UInt64
    /// Its state.
    public var state: TaskState
    /// The reason for people, if there is more to say.
    public var reason: String?
    /// The last transfer that worked on it.
    public var transfer: UInt64?

    /// Makes a task; see the properties.
    public init(
        path: String, sha256: String?, size: UInt64, state: TaskState, reason: String? = nil, transfer: UInt64? = nil
    ) {
        (self.path, self.sha256, self.size) = (path, sha256, size)
        (self.state, self.reason, self.transfer) = (state, reason, transfer)
    }
}

public import SyncModel

/// The transfers of a session's open run: `GET /v1/sessions/{id}/requests`.
public struct RequestList: Sendable, Equatable, Codable {
    /// Running transfers first; at most 200.
    public var requests: [RequestStatus]
    /// How many more transfers are queued.
    public var more: Int

    /// Creates a list.
    public init(requests: [RequestStatus] = [], more: Int = 0) { (self.requests, self.more) = (requests, more) }
}

public import SyncModel

/// One transfer in progress, or waiting, for some tasks.
public struct RequestStatus: Sendable, Equatable, Codable {
    /// A step from one URL to the next.
    public struct Hop: Sendable, Equatable, Codable {
        /// The URL that a request was sent to, or would have been; without query, as every URL here.
        public var from: String
        /// The URL it was sent to instead.
        public var to: String
        /// `redirect 302`, `redirect 302, remembered`, `rewrite, rule 1`, `rewrite, plugin NAME` or `mirror`.
        public var reason: String
    }

    /// The transfer's number in the process that works on the run; events name it, too.
    public var transfer: UInt64
    /// The object that is fetched, if it is not a file of the set: a pack, by its digest.
    public var object: String?
    /// The file that is fetched by its own URL.
    public var path: String?
    /// How many tasks depend on the transfer.
    public var tasks: Int
    /// The state of the transfer.
    public var state: RequestState
    /// When that state began.
    public var since: WallTime
    /// The earliest end of the wait, if the transfer waits.
    public var until: WallTime?
    /// The reason for the state, for people.
    public var reason: String?
    /// The number of the attempt in a row without progress, from 1.
    public var attempt: Int
    /// Most such attempts.
    public var attempts: Int
    /// The wanted **bytes** of the object as two numbers, half open; `nil` while its length is not known.
    public var range: [UInt64]?
    /// **Bytes** of the range that have been received.
    public var received: UInt64
    /// Recent **bytes** a second.
    public var rate: UInt64
    /// The origin that the request is sent to.
    public var source: String
    /// The URL that the manifest names.
    public var original: String
    /// The URL of the last request, or of the next one.
    public var current: String
    /// The hops between the two, in order.
    public var hops: [Hop]
}

/// The transfers of a session's open run: `GET /v1/sessions/{id}/requests`.
public struct RequestList: Sendable, Equatable, Codable {
    /// Running transfers first; at most 200.
    public var requests: [RequestStatus]
    /// How many more transfers are queued.
    public var more: Int

    /// Creates a list.
    public init(requests: [RequestStatus] = [], more: Int = 0) { (self.requests, self.more) = (requests, more) }
}

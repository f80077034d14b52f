public import SyncModel

/// One transfer under way: what is on the wire for some tasks, or waits to be.
public struct RequestStatus: Sendable, Equatable, Codable {
    /// A step from one URL to the next.
    public struct Hop: Sendable, Equatable, Codable {
        /// Where a request was, or would have been, sent; without query, as every URL here.
        public var from: String
        /// Where it was sent for that.
        public var to: String
        /// `redirect 302`, `redirect 302, remembered`, `rewrite, rule 1`, `rewrite, plugin NAME` or `mirror`.
        public var reason: String
    }

    /// Its number in the process that works on the run; events name it, too.
    public var transfer: UInt64
    /// What is fetched, where that is no file of the set: a pack, by its digest.
    public var object: String?
    /// The file that is fetched by a URL of its own.
    public var path: String?
    /// How many tasks hang on it.
    public var tasks: Int
    /// What it is at.
    public var state: RequestState
    /// Since when.
    public var since: WallTime
    /// Until when at least, for one that waits.
    public var until: WallTime?
    /// Why, for people.
    public var reason: String?
    /// Which attempt in a row without progress this is, from 1.
    public var attempt: Int
    /// Most such attempts.
    public var attempts: Int
    /// The wanted **bytes** of the object, half open: two numbers; none while its length is not known.
    public var range: [UInt64]?
    /// **Bytes** of them that have come.
    public var received: UInt64
    /// **Bytes** a second lately.
    public var rate: UInt64
    /// The origin that is asked.
    public var source: String
    /// What the manifest names.
    public var original: String
    /// Where the request went, or goes next.
    public var current: String
    /// The steps between, in order.
    public var hops: [Hop]
}

/// The transfers of a session's open run: `GET /v1/sessions/{id}/requests`.
public struct RequestList: Sendable, Equatable, Codable {
    /// Those on the wire first; at most 200.
    public var requests: [RequestStatus]
    /// How many more there are, queued.
    public var more: Int

    /// Puts a list together.
    public init(requests: [RequestStatus] = [], more: Int = 0) { (self.requests, self.more) = (requests, more) }
}

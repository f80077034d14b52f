public import SyncModel

/// What a transfer that has not ended is at, for people and programs that look on. Holds no secret: URLs are redacted.
public struct TransferStanding: Sendable, Equatable {
    /// A step from one URL to the next.
    public struct Hop: Sendable, Equatable {
        /// Where a request was, or would have been, sent.
        public var from: String
        /// Where it is sent for that.
        public var to: String
        /// Why, in words: `redirect 302`, `redirect 302, remembered`, `rewrite, rule 1`, `rewrite, plugin NAME`, `mirror`.
        public var reason: String

        /// Puts a step together.
        public init(from: String, to: String, reason: String) {
            self.from = from
            self.to = to
            self.reason = reason
        }
    }

    /// The transfer.
    public var id: TransferID
    /// What it is at.
    public var state: RequestState
    /// For how long.
    public var age: Duration
    /// How long it will stay so at least; `nil` where nobody knows.
    public var wait: Duration?
    /// Why, for people; `nil` where the state says all.
    public var reason: String?
    /// What the manifest or the user names.
    public var original: String
    /// Where the last request went, or the next one goes.
    public var current: String
    /// The steps between, in order.
    public var hops: [Hop]
    /// The origin that is asked.
    public var source: String
    /// The wanted **bytes** of the object, half open; `nil` while nobody knows how long it is.
    public var range: Range<UInt64>?
    /// **Bytes** of them that have come.
    public var received: UInt64
    /// Which attempt in a row this is, from 1.
    public var attempt: Int
    /// Most attempts in a row without progress.
    public var attempts: Int

    /// A transfer that is queued and has nothing yet.
    public init(id: TransferID, original: String, source: String, attempts: Int) {
        self.id = id
        self.original = original
        self.source = source
        self.attempts = attempts
        state = .queued
        age = .zero
        current = original
        hops = []
        received = 0
        attempt = 1
    }
}

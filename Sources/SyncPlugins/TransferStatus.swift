public import SyncModel

/// What an unfinished transfer is doing, for display. URLs are redacted.
public struct TransferStatus: Sendable, Equatable {
    /// A step from one URL to the next.
    public struct Hop: Sendable, Equatable {
        /// The URL before it.
        public var from: String
        /// The URL after it.
        public var to: String
        /// Why, in words: `redirect 302`, `redirect 302, remembered`, `rewrite, rule 1`, `rewrite, plugin NAME`, `mirror`.
        public var reason: String

        /// See the properties.
        public init(from: String, to: String, reason: String) {
            (self.from, self.to, self.reason) = (from, to, reason)
        }
    }

    /// The transfer.
    public var id: TransferID
    /// What it is doing.
    public var state: RequestState
    /// How long it has been doing that.
    public var age: Duration
    /// The least time that it will stay so; `nil` if unknown.
    public var wait: Duration?
    /// Why, for people; `nil` if the state says it all.
    public var reason: String?
    /// The URL from the manifest or the user.
    public var original: String
    /// Where the last request went, or the next one goes.
    public var current: String
    /// The steps from ``original`` to ``current``, in order.
    public var hops: [Hop]
    /// The origin of ``current``.
    public var source: String
    /// The wanted **bytes** of the object, half open; `nil` while its length is unknown.
    public var range: Range<UInt64>?
    /// **Bytes** of them received.
    public var received: UInt64
    /// The attempt in a row, from 1.
    public var attempt: Int
    /// The most attempts in a row without progress.
    public var attempts: Int

    /// A queued transfer that has received nothing.
    public init(id: TransferID, original: String, source: String, attempts: Int) {
        (self.id, self.original, self.source, self.attempts) = (id, original, source, attempts)
        state = .queued
        age = .zero
        current = original
        hops = []
        received = 0
        attempt = 1
    }
}

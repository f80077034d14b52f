/// One transfer in progress, or waiting, for some tasks: as its transport tells it, the run records it, and the agent and
/// `status --requests` show it. URLs are redacted.
public struct RequestStatus: Sendable, Equatable, Codable {
    /// A step from one URL to the next.
    public struct Hop: Sendable, Equatable, Codable {
        /// The URL that a request was sent to, or would have been; without query, as every URL here.
        public var from: String
        /// The URL it was sent to instead.
        public var to: String
        /// `redirect 302`, `redirect 302, remembered`, `rewrite, rule 1`, `rewrite, plugin NAME` or `mirror`.
        public var reason: String

        /// Makes a step; see the properties.
        public init(from: String, to: String, reason: String) {
            (self.from, self.to, self.reason) = (from, to, reason)
        }
    }

    /// The transfer's number in the process that works on the run; events name it, too.
    public var transfer: UInt64
    /// The object that is fetched, if it is not a file of the set: a pack, by its digest. The run knows it, not the
    /// transport; the same holds for ``path``, ``tasks`` and ``rate``.
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

    /// A queued transfer that has received nothing.
    public init(transfer: UInt64, original: String, source: String, attempts: Int, since: WallTime) {
        (self.transfer, self.original, self.source) = (transfer, original, source)
        (self.attempts, self.since) = (attempts, since)
        state = .queued
        current = original
        hops = []
        attempt = 1
        tasks = 0
        received = 0
        rate = 0
    }
}

extension RequestStatus {
    /// Writes the fields of an object, in the contract's order.
    package func write(to line: inout JSONLine) {
        line.field("transfer", transfer)
        line.field("path", optional: path)
        line.field("object", optional: object)
        line.field("tasks", tasks)
        line.field("state", state)
        // In whole seconds, so that an unchanged state is not written again.
        line.time("since", since.milliseconds / 1000 * 1000)
        line.time("until", until.map { $0.milliseconds / 1000 * 1000 })
        line.field("reason", optional: reason)
        line.field("attempt", attempt)
        line.field("attempts", attempts)
        if let range {
            line.array("range") { array in for bound in range { array.value(bound) } }
        }
        line.field("received", received)
        line.field("rate", rate)
        line.field("source", source)
        line.field("original", original.withoutQueryMark)
        line.field("current", current.withoutQueryMark)
        line.list("hops", hops) { hop, line in
            line.field("from", hop.from.withoutQueryMark)
            line.field("to", hop.to.withoutQueryMark)
            line.field("reason", hop.reason)
        }
    }
}

extension String {
    /// A redacted URL without the sign that there was a query.
    fileprivate var withoutQueryMark: String { hasSuffix("?…") ? String(dropLast(2)) : self }
}

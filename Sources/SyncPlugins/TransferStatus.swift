public import SyncModel

/// The status of an unfinished transfer, for display. URLs are redacted.
public struct TransferStatus: Sendable, Equatable {
    /// The transfer.
    public var id: TransferID
    /// The state of the transfer.
    public var state: RequestState
    /// The time since that state began.
    public var age: Duration
    /// The least time that it will stay so; `nil` if unknown.
    public var wait: Duration?
    /// The reason, for people; `nil` if the state says it all.
    public var reason: String?
    /// The URL from the manifest or the user.
    public var original: String
    /// The URL of the last request, or of the next one.
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

/// A step of a transfer from one URL to the next. URLs are redacted.
public struct Hop: Sendable, Equatable {
    /// Why a request goes elsewhere.
    public enum Cause: Sendable, Equatable {
        /// An answer pointed there.
        case redirect(status: Int)
        /// A rewriting rule, its place counted from 1.
        case rule(Int)
        /// A resolver, by name.
        case resolver(String)
        /// The transfer asks another of its URLs than before, or begins with another than the first.
        case mirror
    }

    /// Why the request goes elsewhere.
    public var cause: Cause
    /// The URL before it.
    public var from: String
    /// The URL after it.
    public var to: String
    /// The redirects of the request by then, this one included.
    public var number: Int
    /// Whether the step is remembered from an earlier request.
    public var isRemembered: Bool

    /// See the properties.
    public init(_ cause: Cause, from: String, to: String, number: Int = 0, isRemembered: Bool = false) {
        (self.cause, self.from, self.to) = (cause, from, to)
        (self.number, self.isRemembered) = (number, isRemembered)
    }

    /// Why, in words: `redirect 302`, `redirect 302, remembered`, `rewrite, rule 1`, `rewrite, plugin NAME`, `mirror`.
    public var reason: String {
        switch cause {
        case .redirect(let status): "redirect \(status)" + (isRemembered ? ", remembered" : "")
        case .rule(let place): "rewrite, rule \(place)"
        case .resolver(let name): "rewrite, plugin \(escaped(name))"
        case .mirror: "mirror"
        }
    }
}

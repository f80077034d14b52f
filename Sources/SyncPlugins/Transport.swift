/// Names one transfer for the life of the process. Never a URL (S72).
public struct TransferID: Hashable, Sendable, CustomStringConvertible {
    /// A number, unique in this process.
    public let rawValue: UInt64

    /// Wraps a number that the caller keeps unique.
    public init(rawValue: UInt64) { self.rawValue = rawValue }

    /// `#` and the number.
    public var description: String { "#\(rawValue)" }
}

/// What a transfer has to bring, and from where. Its identity is ``id``; URLs are only candidates.
public struct TransferRequest: Sendable {
    /// Names the transfer in events and results.
    public var id: TransferID
    /// Original URLs, absolute, best first; more than one are mirrors of the same bytes.
    public var urls: [String]
    /// The wanted **bytes** of the object, half open; `nil` for the whole object.
    public var range: Range<UInt64>?
    /// The object's whole length in **bytes** where known; an answer that says otherwise is refused.
    public var objectSize: UInt64?
    /// Most body **bytes** to take; the transfer fails beyond it.
    public var limit: UInt64
    /// What an earlier part of the same object came with; sent in `If-Range` when strong.
    public var validator: Validator?
    /// When set, the request is conditional (`If-None-Match`, `If-Modified-Since`) and 304 is a good answer.
    public var knownValidator: Validator?
    /// Larger goes first in the queue.
    public var priority: Int
    /// Asks caches on the way to look at the origin again (`Cache-Control: no-cache`): an earlier answer was wrong.
    public var reload: Bool
    /// Who names ``urls``, when a server does and not the user: what a redirect from there might not do, they may not.
    public var referrer: Referrer?

    /// A document that came from a server and names URLs.
    public struct Referrer: Sendable, Equatable {
        /// Where it came from, absolute.
        public var url: String
        /// Whether it came from a public address; `nil` when nobody knows any more.
        public var isPublic: Bool?

        /// Makes a referrer; see the properties.
        public init(url: String, isPublic: Bool?) {
            self.url = url
            self.isPublic = isPublic
        }
    }

    /// Makes a request; see the properties.
    public init(
        id: TransferID,
        urls: [String],
        range: Range<UInt64>? = nil,
        objectSize: UInt64? = nil,
        limit: UInt64,
        validator: Validator? = nil,
        knownValidator: Validator? = nil,
        priority: Int = 0,
        reload: Bool = false,
        referrer: Referrer? = nil
    ) {
        self.id = id
        self.urls = urls
        self.range = range
        self.objectSize = objectSize
        self.limit = limit
        self.validator = validator
        self.knownValidator = knownValidator
        self.priority = priority
        self.reload = reload
        self.referrer = referrer
    }
}

/// What a server said about an object's version. RFC 9110 §8.8.
public struct Validator: Hashable, Sendable {
    /// `ETag` as sent, with its quotes and `W/`.
    public var etag: String?
    /// `Last-Modified` as sent.
    public var lastModified: String?

    /// Makes a validator; both may be missing.
    public init(etag: String? = nil, lastModified: String? = nil) {
        self.etag = etag
        self.lastModified = lastModified
    }

    /// Whether nothing is known.
    public var isEmpty: Bool { etag == nil && lastModified == nil }
}

/// The answer a body belongs to.
public struct ResponseHead: Sendable {
    /// 200 or 206, and 304 for a conditional request.
    public var status: Int
    /// Offset in the object of the body's first **byte**; 0 for 200.
    public var bodyOffset: UInt64
    /// The object's whole length in **bytes** where the answer told it.
    public var objectSize: UInt64?
    /// `ETag` and `Last-Modified`.
    public var validator: Validator
    /// `Content-Type`, lower case, without parameters.
    public var contentType: String?

    /// Makes a head; see the properties.
    public init(
        status: Int,
        bodyOffset: UInt64 = 0,
        objectSize: UInt64? = nil,
        validator: Validator = Validator(),
        contentType: String? = nil
    ) {
        self.status = status
        self.bodyOffset = bodyOffset
        self.objectSize = objectSize
        self.validator = validator
        self.contentType = contentType
    }
}

/// What a sink did with bytes.
public enum SinkOutcome: Sendable {
    /// All were taken.
    case taken
    /// None were taken; they come again after ``Transport/resume(_:)``. This is the back-pressure.
    case paused
    /// None were taken and the transfer shall end; the reason is in the sink's hands.
    case stop
}

/// Takes the bytes of one transfer. Every call comes from the transport's thread, in order; do not block in it.
public protocol TransferSink: AnyObject, Sendable {
    /// A good answer begins.
    ///
    /// Called once an attempt. After a broken connection the next attempt begins again here.
    ///
    /// - Returns: The offset in the object from which bytes are wanted: normally how far this sink has come.
    ///   Earlier bytes of the body are thrown away by the transport; a smaller offset than before means that
    ///   the sink has forgotten what it had.
    func begin(_ response: ResponseHead) -> UInt64

    /// The next bytes, which belong at `offset` of the object. The buffer is the transport's: keep nothing.
    func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome

    /// The answer has ended before this sink had all it wants; what comes next may take long. Memory that is held
    /// for the next bytes is to be given back: others may wait for it. Does nothing unless the sink says otherwise.
    func interrupted()
}

extension TransferSink {
    /// Does nothing: for sinks that hold no memory between calls.
    public func interrupted() {}
}

/// A sink that can give the end of what it wants to another sink, when connections idle and one transfer is slow.
///
/// Each of the two then gets its own bytes in order, but the two run side by side. The transfer still has one
/// identifier and one completion, called after both have ended; ``Transport/resume(_:)`` continues both.
public protocol SplittableSink: TransferSink {
    /// Gives away what comes after some offset, or nothing when there is no good place to cut.
    ///
    /// Called from the transport's thread, between calls of ``TransferSink/receive(_:at:)``.
    ///
    /// - Parameters:
    ///   - offset: Where a cut helps most.
    ///   - range: Where a cut helps at all; offsets in the object.
    /// - Returns: The offset of the cut in `range`, and the sink for everything from there on. From now on this
    ///   sink gets no byte at or after the cut.
    func splitTail(
        near offset: UInt64,
        in range: ClosedRange<UInt64>
    ) -> (start: UInt64, sink: any TransferSink)?
}

/// How a transfer ended well.
public struct TransferReport: Sendable {
    /// The last answer.
    public var response: ResponseHead
    /// Which of the request's URLs delivered, by index.
    public var sourceIndex: Int
    /// Where redirects and rules led. Not redacted: for requests, not for logs.
    public var currentURL: String
    /// HTTP requests sent for this transfer.
    public var requests: Int
    /// Body **bytes** received, wasted ones included.
    public var bytesReceived: UInt64
    /// Whether any of the answers came from a public address; `nil` when the transport cannot tell.
    public var isPublic: Bool?

    /// Makes a report; see the properties.
    public init(
        response: ResponseHead,
        sourceIndex: Int,
        currentURL: String,
        requests: Int,
        bytesReceived: UInt64,
        isPublic: Bool? = nil
    ) {
        self.response = response
        self.sourceIndex = sourceIndex
        self.currentURL = currentURL
        self.requests = requests
        self.bytesReceived = bytesReceived
        self.isPublic = isPublic
    }
}

/// What happens on the way; told before the next request goes out. URLs are redacted.
public enum TransferEvent: Sendable {
    /// A request goes out: the first, or the first after it has waited.
    case asked(TransferID)
    /// An answer pointed elsewhere.
    case redirected(TransferID, status: Int, from: String, to: String, hop: Int)
    /// The configuration sends a request elsewhere, after `hop` redirects.
    case rewritten(TransferID, from: String, to: String, by: Rewriter, hop: Int)
    /// Another of the transfer's URLs is asked than before, or than the first.
    case mirrored(TransferID, from: String, to: String)
    /// An attempt failed and another will follow.
    case retrying(TransferID, url: String, reason: String, attempt: Int, after: Duration)
    /// A source failed or sent wrong bytes; the others are asked first for a while.
    case sourcePenalised(TransferID, url: String, reason: String)
    /// Nothing reaches the host; waiting for it, and trying it again after some time; `patience` is how long from now,
    /// `nil` without end.
    case waitingForConnectivity(
        TransferID,
        url: String,
        reason: String,
        after: Duration,
        patience: Duration?
    )
    /// A plugin could not answer; what happens then is the point's default.
    case pluginFailed(PluginPoint, PluginError)

    /// Who sends a request elsewhere.
    public enum Rewriter: Sendable, Equatable {
        /// A rewriting rule, its place counted from 1.
        case rule(Int)
        /// A resolver, by name.
        case resolver(String)
    }
}

/// Sums over the life of a transport.
public struct TransferTotals: Sendable, Equatable {
    /// HTTP requests sent, every hop and retry counted.
    public var requests: UInt64 = 0
    /// Body **bytes** received, wasted ones included.
    public var bytesReceived: UInt64 = 0
    /// **Bytes** of these that reached no sink: redirects, error pages, login pages.
    public var bytesDiscarded: UInt64 = 0

    /// Nothing yet.
    public init() {}
}

/// Brings bytes for URLs: queueing, redirects, retries and resume included.
///
/// A transport calls the sink, the event sink and the completion from threads of its own.
public protocol Transport: Sendable {
    /// Queues a transfer. `completion` is called exactly once, after the last call of `sink`.
    func start(
        _ request: TransferRequest,
        sink: any TransferSink,
        completion: @escaping @Sendable (Result<TransferReport, TransferError>) -> Void
    )

    /// Continues a transfer whose sink answered ``SinkOutcome/paused``. Harmless when it is not paused.
    func resume(_ id: TransferID)

    /// Ends a transfer, queued or running, with ``TransferError/Code/cancelled``. May come before its start.
    func cancel(_ id: TransferID)

    /// Tells the transport that bytes it delivered from a source were wrong, so that others are asked first.
    func blame(url: String, reason: String)

    /// What has been sent and received so far.
    var totals: TransferTotals { get }

    /// The status of transfers that have not ended, those on the wire first.
    ///
    /// - Parameter limit: The most to return.
    /// - Returns: Statuses and how many transfers are left out; `nil` if the transport cannot tell, or not now.
    func transferStatuses(limit: Int) -> (transfers: [TransferStatus], more: Int)?

    /// Ends every transfer, then the transport's threads. Returns when they have ended.
    func shutdown()
}

extension Transport {
    /// `nil`: unknown.
    public func transferStatuses(limit: Int) -> (transfers: [TransferStatus], more: Int)? { nil }
}

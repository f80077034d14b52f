public import SyncModel

/// Identifies one transfer for the life of the process. Never a URL.
public struct TransferID: Hashable, Sendable, CustomStringConvertible {
    /// A number, unique in this process.
    public let rawValue: UInt64

    /// Wraps a number that the caller keeps unique.
    public init(rawValue: UInt64) { self.rawValue = rawValue }

    /// `#` and the number.
    public var description: String { "#\(rawValue)" }
}

/// The object that a transfer must deliver, and its sources. Its identity is ``id``; URLs are only candidates.
public struct TransferRequest: Sendable {
    /// Names the transfer in events and results.
    public var id: TransferID
    /// Original URLs, absolute, best first; more than one are mirrors of the same bytes.
    public var urls: [String]
    /// The wanted **bytes** of the object, half open; `nil` for the whole object.
    public var range: Range<UInt64>?
    /// The object's whole length in **bytes** if known; an answer that says otherwise is refused.
    public var objectSize: UInt64?
    /// The most body **bytes** to accept, from the first wanted one on; with more, the transfer fails.
    public var limit: UInt64
    /// The validator of an earlier part of the same object; sent in `If-Range` if strong.
    public var validator: Validator?
    /// When set, the request is conditional (`If-None-Match`, `If-Modified-Since`) and 304 is a good answer.
    public var knownValidator: Validator?
    /// The place in the queue: larger priorities go first.
    public var priority: Int
    /// Makes caches ask the origin again (`Cache-Control: no-cache`), because an earlier answer was wrong.
    public var reload: Bool
    /// The document that ``urls`` come from, if not from the user: they may not lead where a redirect from it might
    /// not.
    public var referrer: Referrer?
    /// The value of `Accept`; `nil` for anything.
    package var accepted: String?
    /// Whether only the head of the answer is wanted (`HEAD`): the sink begins, and gets no bytes.
    package var isHeadOnly = false
    /// Whether ``range`` is only the first request, because the length of the object is unknown: everything from there
    /// on is wanted. A transport may ask for the whole object at once.
    package var isFirstRange = false

    /// A document from a server that names URLs.
    public struct Referrer: Sendable, Equatable {
        /// Its URL, absolute.
        public var url: String
        /// Whether it came from a public address; `nil` if unknown.
        public var isPublic: Bool?

        /// Makes a referrer; see the properties.
        public init(url: String, isPublic: Bool?) {
            (self.url, self.isPublic) = (url, isPublic)
        }
    }

    /// Makes a request; see the properties.
    public init(
        id: TransferID, urls: [String], range: Range<UInt64>? = nil, objectSize: UInt64? = nil, limit: UInt64,
        validator: Validator? = nil, knownValidator: Validator? = nil, priority: Int = 0, reload: Bool = false,
        referrer: Referrer? = nil
    ) {
        (self.id, self.urls, self.range, self.objectSize, self.limit) = (id, urls, range, objectSize, limit)
        (self.validator, self.knownValidator, self.priority) = (validator, knownValidator, priority)
        (self.reload, self.referrer) = (reload, referrer)
    }
}

/// A server's statement about the version of an object. RFC 9110 §8.8.
public struct Validator: Hashable, Sendable {
    /// `ETag` as sent, with its quotes and `W/`.
    public var etag: String?
    /// `Last-Modified` as sent.
    public var lastModified: String?

    /// Makes a validator; both may be missing.
    public init(etag: String? = nil, lastModified: String? = nil) {
        (self.etag, self.lastModified) = (etag, lastModified)
    }

    /// Whether nothing is known.
    public var isEmpty: Bool { etag == nil && lastModified == nil }

    /// Whether a part of an object that another answer brings certainly belongs to this one's. RFC 9110 §8.8.1.
    package func isSameVersion(as other: Validator) -> Bool {
        guard let version = etag ?? lastModified, !version.hasPrefix("W/") else { return false }
        return version == other.etag ?? other.lastModified
    }
}

/// The head of the answer that a body belongs to.
public struct ResponseHead: Sendable {
    /// 200 or 206, and 304 for a conditional request.
    public var status: Int
    /// Offset in the object of the body's first **byte**; 0 for 200.
    public var bodyOffset: UInt64
    /// The object's whole length in **bytes** if the answer says it.
    public var objectSize: UInt64?
    /// `ETag` and `Last-Modified`.
    public var validator: Validator
    /// `Content-Type`, lower case, without parameters.
    public var contentType: String?
    /// The URL of the request that answers, as ``TransferRequest/urls`` has it, whatever it redirects to: it is to be
    /// blamed if the bytes that follow are wrong. `nil` if the transport does not report it.
    public var source: String?
    /// The digest of a manifest in `Docker-Content-Digest`, as written.
    package var contentDigest: String?
    /// The next part, in `Link`, of a document that comes in several, as written. RFC 8288.
    package var next: String?

    /// Makes a head; see the properties.
    public init(
        status: Int, bodyOffset: UInt64 = 0, objectSize: UInt64? = nil, validator: Validator = Validator(),
        contentType: String? = nil, source: String? = nil
    ) {
        (self.status, self.bodyOffset, self.objectSize, self.validator) = (status, bodyOffset, objectSize, validator)
        (self.contentType, self.source) = (contentType, source)
    }
}

/// A sink's answer to bytes.
public enum SinkOutcome: Sendable {
    /// All were taken.
    case taken
    /// None were taken; they come again after ``Transport/resume(_:)``. This is how a sink applies back-pressure.
    case paused
    /// None were taken and the transfer must end; the sink knows why.
    case stop
}

/// Receives the bytes of one transfer. Every call comes from the transport's thread, in order; do not block in it.
public protocol TransferSink: AnyObject, Sendable {
    /// A good answer starts.
    ///
    /// Called once per attempt. After a broken connection the next attempt begins again here.
    ///
    /// - Returns: The offset in the object from which bytes are wanted: normally the end of the bytes received so far.
    ///   Earlier bytes of the body are thrown away by the transport; a smaller offset than before means that
    ///   the sink has forgotten what it had.
    func begin(_ response: ResponseHead) -> UInt64

    /// The next bytes, at `offset` of the object. The buffer belongs to the transport: keep no reference to it.
    func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome

    /// The answer has ended before this sink has everything it wants, and the next may take long. A sink should free
    /// memory held for the next bytes, since others may wait for it. By default it does nothing.
    func interrupted()
}

extension TransferSink {
    /// Does nothing, which suits sinks that hold no memory between calls.
    public func interrupted() {}
}

/// A sink that can hand the tail of its range to another sink, when connections idle and one transfer is slow.
///
/// Each of the two then gets its own bytes in order, while both run side by side. The transfer still has one identifier
/// and one completion, called after both have ended; ``Transport/resume(_:)`` continues both.
public protocol SplittableSink: TransferSink {
    /// Gives away everything after some offset, or nothing if there is no good place to cut.
    ///
    /// Called from the transport's thread, between calls of ``TransferSink/receive(_:at:)``.
    ///
    /// - Parameters:
    ///   - offset: The offset at which a cut helps most.
    ///   - range: The offsets in the object at which a cut helps at all.
    /// - Returns: The offset of the cut in `range`, and the sink for everything from there on. From now on this
    ///   sink gets no byte at or after the cut.
    func splitTail(near offset: UInt64, in range: ClosedRange<UInt64>) -> (start: UInt64, sink: any TransferSink)?
}

/// The result of a successful transfer.
public struct TransferReport: Sendable {
    /// The last answer.
    public var response: ResponseHead
    /// The index of the URL that delivered last; ``ResponseHead/source`` names the one of each answer.
    public var sourceIndex: Int
    /// The final URL after redirects and rules. Not redacted: for requests, not for logs.
    public var currentURL: String
    /// HTTP requests sent for this transfer.
    public var requests: Int
    /// Body **bytes** received, wasted ones included.
    public var bytesReceived: UInt64
    /// Whether any of the answers came from a public address; `nil` when the transport cannot tell.
    public var isPublic: Bool?
    /// The request quota of a server on the way, if it states one.
    public var quota: RequestQuota?

    /// Makes a report; see the properties.
    public init(
        response: ResponseHead, sourceIndex: Int, currentURL: String, requests: Int, bytesReceived: UInt64,
        isPublic: Bool? = nil
    ) {
        (self.response, self.sourceIndex, self.currentURL) = (response, sourceIndex, currentURL)
        (self.requests, self.bytesReceived, self.isPublic) = (requests, bytesReceived, isPublic)
    }
}

/// The number of requests that a server takes in a window of time, as it states in `RateLimit` and `RateLimit-Policy`.
public struct RequestQuota: Sendable, Equatable {
    /// Requests that are left in the present window, and the **seconds** that the window still lasts.
    public var left, seconds: UInt64
    /// The most requests in a window, and its length in **seconds**.
    public var most, window: UInt64

    /// Makes a quota; see the properties.
    public init(left: UInt64, seconds: UInt64, most: UInt64, window: UInt64) {
        (self.left, self.seconds, self.most, self.window) = (left, seconds, most, window)
    }

    /// The least **seconds** before the last of some requests may be sent.
    public func wait(for requests: UInt64) -> UInt64 {
        guard requests > left, most > 0 else { return 0 }
        // The first of these windows begins when this one ends.
        let windows = (requests - left - 1) / most
        let (time, isLong) = windows.multipliedReportingOverflow(by: window)
        let (sum, isLonger) = time.addingReportingOverflow(seconds)
        return isLong || isLonger ? .max : sum
    }
}

/// An event of a transfer; reported before the next request is sent. URLs are redacted.
public enum TransferEvent: Sendable {
    /// A request is sent: the first, or the first after a wait.
    case asked(TransferID)
    /// The next request goes to another URL.
    case moved(TransferID, Hop)
    /// An attempt failed and another will follow.
    case retrying(TransferID, url: String, reason: String, attempt: Int, after: Duration)
    /// A source failed or sent wrong bytes; the others are asked first for a while.
    case sourcePenalised(TransferID, url: String, reason: String)
    /// The host is unreachable, or asks for a pause, and will be tried again after `after`; `patience` is for how much
    /// longer, `nil` for no limit.
    case waitingForConnectivity(TransferID, url: String, reason: String, after: Duration, patience: Duration?)
    /// A plugin failed to answer; the default of its point applies.
    case pluginFailed(PluginPoint, PluginError)
}

/// Sums over the life of a transport.
public struct TransferTotals: Sendable, Equatable {
    /// HTTP requests sent, every hop and retry counted.
    public var requests: UInt64 = 0
    /// Body **bytes** received, wasted ones included.
    public var bytesReceived: UInt64 = 0
    /// **Bytes** of these that reached no sink: bodies of redirects, error pages and login pages.
    public var bytesDiscarded: UInt64 = 0

    /// Nothing yet.
    public init() {}
}

/// Called once, when a transfer has ended.
public typealias TransferCompletion = @Sendable (Result<TransferReport, TransferError>) -> Void

/// Fetches URLs, including queueing, redirects, retries and resumption.
///
/// A transport calls the sink, the event sink and the completion from threads of its own.
public protocol Transport: Sendable {
    /// Queues a transfer. `completion` is called exactly once, after the last call of `sink`.
    func start(_ request: TransferRequest, sink: any TransferSink, completion: @escaping TransferCompletion)

    /// Continues a transfer whose sink answered ``SinkOutcome/paused``. Harmless when it is not paused.
    func resume(_ id: TransferID)

    /// Ends a transfer, queued or running, with ``TransferError/Code/cancelled``. May come before its start.
    func cancel(_ id: TransferID)

    /// Reports that bytes from a source were wrong, so that others are asked first.
    func reportFault(url: String, reason: String)

    /// The requests and bytes so far.
    var totals: TransferTotals { get }

    /// The status of transfers that have not ended, those on the wire first.
    ///
    /// - Parameters:
    ///   - limit: The most to return.
    ///   - now: The present time, which a transport need not know otherwise.
    /// - Returns: Statuses and how many transfers are left out; `nil` if the transport cannot tell, or not now.
    func transferStatuses(limit: Int, at now: WallTime) -> (transfers: [RequestStatus], more: Int)?

    /// Ends every transfer, then the transport's threads. Returns when they have ended.
    func shutdown()
}

extension Transport {
    /// Returns `nil`: unknown.
    public func transferStatuses(limit: Int, at now: WallTime) -> (transfers: [RequestStatus], more: Int)? { nil }
}

/// A request that is about to be sent.
public struct ResolverRequest: Sendable, Equatable {
    /// Why it is asked about.
    public enum Reason: Sendable, Equatable {
        /// The first request of a transfer, or the first to another of its sources.
        case start
        /// An answer with this status pointed to ``ResolverRequest/url``.
        case redirect(status: Int)
        /// The URL that was resolved before was refused with this status: it may have expired.
        case expired(status: Int)
    }

    /// The URL that would be asked, absolute, query included: it may hold secrets.
    public var url: String
    /// The URL that the manifest gives.
    public var original: String
    /// The wanted **bytes**, half open; `nil` for the whole object.
    public var range: Range<UInt64>?
    /// Why it is asked about.
    public var reason: Reason

    /// Makes a request; see the properties.
    public init(url: String, original: String, range: Range<UInt64>? = nil, reason: Reason = .start) {
        self.url = url
        self.original = original
        self.range = range
        self.reason = reason
    }
}

/// What becomes of a request. Apple's `URLSession.DelayedRequestDisposition` has the same three.
public enum RequestDisposition: Sendable, Equatable {
    /// It is sent as it is.
    case proceed
    /// Another is sent instead: an absolute http or https URL, and headers in addition that go to the origin of that
    /// URL only. The transfer stays the same one; the rules for redirects apply to the new URL.
    case replace(url: String, headers: [HeaderField])
    /// It is not sent, and its transfer fails; the reason is for people.
    case cancel(reason: String)
}

/// One header of a request.
public struct HeaderField: Sendable, Hashable {
    /// As sent.
    public var name: String
    /// As sent; it may hold secrets.
    public var value: String

    /// Makes a header; see the properties.
    public init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}

/// Rewrites requests just before they are sent: presigned links, mirrors, caches in the local network (S54, S55).
///
/// Asked on threads made for it, for many requests at a time. When it fails, the requests are sent as they are, and a
/// warning is told.
public protocol RequestResolver: Sendable {
    /// Decides about requests; blocks.
    ///
    /// - Returns: One disposition for each request, in their order.
    func resolve(_ requests: [ResolverRequest]) throws(PluginError) -> [RequestDisposition]
}

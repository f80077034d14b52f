public import SyncModel

/// A request that is about to be sent.
public struct ResolverRequest: Sendable, Equatable {
    /// Why the resolver is asked.
    public enum Reason: Sendable, Equatable {
        /// The first request of a transfer, or the first to another of its sources.
        case start
        /// A response with this status pointed to ``ResolverRequest/url``.
        case redirect(status: Int)
        /// The previously resolved URL was refused with this status: it may have expired.
        case expired(status: Int)
    }

    /// The URL that would be requested, absolute, with its query: it may contain secrets.
    public var url: String
    /// The URL in the manifest.
    public var original: String
    /// The requested **bytes**, half open; `nil` for the whole object.
    public var range: Range<UInt64>?
    /// Why the resolver is asked.
    public var reason: Reason

    /// Makes a request; see the properties.
    public init(url: String, original: String, range: Range<UInt64>? = nil, reason: Reason = .start) {
        (self.url, self.original, self.range, self.reason) = (url, original, range, reason)
    }
}

/// What to do with a request. Apple's `URLSession.DelayedRequestDisposition` has the same three.
public enum RequestDisposition: Sendable, Equatable {
    /// Send it unchanged.
    case proceed
    /// Send another one instead: an absolute http or https URL, and additional headers that go only to the origin of
    /// that URL. The transfer stays the same; the rules for redirects apply to the new URL.
    case replace(url: String, headers: [HeaderField])
    /// Do not send it, and let its transfer fail; the reason is for people, the cause for advice.
    case cancel(reason: String, cause: FailureCause = .cancelled)
}

/// One header of a request.
public struct HeaderField: Sendable, Hashable {
    /// As sent.
    public var name: String
    /// As sent; it may contain secrets.
    public var value: String

    /// Makes a header; see the properties.
    public init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }
}

/// Rewrites requests just before they are sent: presigned links, mirrors, caches in the local network.
///
/// Called on separate threads, for many requests at a time. If it fails, the requests are sent unchanged, with a
/// warning.
public protocol RequestResolver: Sendable {
    /// Decides about requests; blocks.
    ///
    /// - Returns: One disposition for each request, in their order.
    func resolve(_ requests: [ResolverRequest]) throws(PluginError) -> [RequestDisposition]
}

/// The next step for a transfer after a fault.
package enum Remedy: Hashable, Sendable {
    /// Wait until the host can be reached; does not count as an attempt.
    case waitForConnectivity
    /// Ask again after a wait.
    case again
    /// Ask again at once, beginning at the original URL.
    case againFromOriginal
    /// Be served by the exchange that receives the whole object.
    case joinOther
    /// Ask again for the whole object; once for each source of a transfer.
    case onceWithoutRange
    /// Ask again, bypassing caches; once for each source.
    case onceUncached
    /// Ask again; once for each source.
    case once
    /// Give up this source; ask the next one.
    case nextSource
    /// End the transfer.
    case fail
}

/// The retry table: one line per kind of fault, with its reason.
extension Fault {
    /// The remedy; `redirected` if the URL that failed came from a redirect, a rule or the redirect memory.
    package func remedy(redirected: Bool = false) -> Remedy {
        switch kind {
        case .unreachable: .waitForConnectivity  // Networks come back; offline, NXDOMAIN is normal.
        case .idle: .again  // The path is dead, the next connection need not be.
        case .slow: .again  // Another source, or another path to this one, may be faster.
        case .broken: .again  // Received bytes are kept; the rest is requested.
        case .tls: .nextSource  // The same certificate is shown next time.
        case .proxyAuthentication: .fail  // The same credentials are refused next time.
        case .malformed: .once  // A middlebox may have been at fault.
        case .unwantedForm: .nextSource  // The server is set up that way.
        case .wrongRange: .onceWithoutRange  // The object may be whole although ranges are not.
        case .otherSize: .onceUncached  // A stale cache is the common cause.
        case .captivePortal: .waitForConnectivity  // Somebody will log in.
        case .redirect: .nextSource  // Configuration of the server.
        case .policy: .nextSource  // Ours to refuse; a mirror may comply.
        case .tooLarge: .nextSource  // The server has another object.
        case .superseded: .joinOther  // The same bytes are coming already.
        case .noRanges: .nextSource  // A mirror may have ranges; the last one is taken as it is.
        case .rewound: .again  // The sink has its reasons; bounded by the attempts.
        case .stopped: .fail  // The sink knows why.
        case .libcurl: .once  // Out of memory or sockets can pass.
        // A refusal with `Retry-After` is a rate limit, or passes for another reason (RFC 9110 section 15.5.14).
        case .status(403) where retryAfter != nil, .status(413) where retryAfter != nil: .again
        case .status(let status): Self.remedy(forStatus: status, redirected: redirected)
        }
    }

    private static func remedy(forStatus status: Int, redirected: Bool) -> Remedy {
        if redirected, [400, 401, 403, 404, 410].contains(status) {
            return .againFromOriginal  // A signed link has expired.
        }
        return switch status {
        case 408, 425, 429: .again  // The server says: later.
        case 500, 502, 503, 504: .again  // The server, or one behind it, has a problem.
        case 507, 509, 520...527, 530: .again  // The same, from storage and CDN servers.
        default: .nextSource  // The same answer would come again.
        }
    }
}

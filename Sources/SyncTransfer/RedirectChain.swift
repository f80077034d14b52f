/// The URLs one request has gone through, and the rules for going on. Does no I/O.
///
/// Rules: RFC 9110 §15.4; what belongs to an origin stays with it (Fetch standard, HTTP-redirect fetch).
package struct RedirectChain: Equatable, Sendable {
    /// What to do with a redirect.
    package enum Step: Equatable, Sendable {
        /// Ask again here.
        case follow(CurlURL)
        /// End the attempt.
        case refuse(Refusal)
    }

    /// The rule that a redirect broke.
    package enum Refusal: Equatable, Sendable {
        /// More hops than the policy's limit.
        case tooMany(limit: Int)
        /// Back to a URL already asked.
        case cycle(String)
        /// No `Location`, or one that is not an http or https URL.
        case badLocation(String)
        /// From https to http.
        case downgrade(from: String, to: String)
    }

    /// Where the chain began.
    package let original: CurlURL
    /// The URL to ask now.
    package private(set) var current: CurlURL
    /// Redirects followed so far.
    package private(set) var hops = 0
    private var seen: Set<String>

    /// Begins at a URL nothing has redirected yet.
    package init(original: CurlURL) {
        self.original = original
        current = original
        seen = [original.text]
    }

    /// Whether what belongs to the original's origin may be sent to the current URL (V19).
    package var isAtOriginalOrigin: Bool { current.origin == original.origin }

    /// Decides about an answer with status 301, 302, 303, 307 or 308; all of them keep the method GET.
    ///
    /// - Parameters:
    ///   - location: The `Location` header as it came: absolute, relative or scheme-relative.
    ///   - rewrite: Gives another URL for the target where a rule of the user's says so. Such a target is
    ///     the user's own wish and is not held against the policy.
    /// - Returns: Where to ask next, or the rule that was broken. A refusal changes nothing.
    package mutating func redirected(
        to location: String?,
        policy: RedirectPolicy,
        rewrite: (CurlURL) -> CurlURL? = { _ in nil }
    ) -> Step {
        guard hops < policy.limit else { return .refuse(.tooMany(limit: policy.limit)) }
        guard let location, !location.isEmpty else { return .refuse(.badLocation("no Location header")) }
        var target: CurlURL
        do {
            target = try current.joined(location)
        } catch {
            return .refuse(.badLocation(error.description))
        }
        if let rewritten = rewrite(target) {
            target = rewritten
        } else if current.origin.scheme == "https", target.origin.scheme == "http",
            !policy.downgrade.covers(target.origin.host)
        {
            return .refuse(.downgrade(from: current.text, to: target.text))
        }
        guard !seen.contains(target.text) else { return .refuse(.cycle(target.text)) }
        go(to: target)
        hops += 1
        return .follow(target)
    }

    /// Moves on without a redirect: a rule of the user's, or what an earlier redirect taught.
    package mutating func go(to target: CurlURL) {
        seen.insert(target.text)
        current = target
    }
}

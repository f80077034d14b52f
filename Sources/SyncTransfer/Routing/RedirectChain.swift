package import SyncPlugins
package import SyncSystem

/// The URLs that one request has gone through, and the rules for the next URL. Does no I/O.
///
/// Rules: RFC 9110 §15.4; what belongs to an origin stays with it (Fetch standard, HTTP-redirect fetch).
package struct RedirectChain: Sendable {
    /// The URL as named by the manifest or the user.
    package let original: CurlURL
    /// ``original``, or what a rule made of it. The configured headers belong to it, and it is the key in the redirect
    /// memory.
    package private(set) var entry: CurlURL
    package private(set) var current: CurlURL
    /// Redirects followed so far.
    package private(set) var hops = 0
    /// The status of the first redirect.
    package private(set) var firstStatus: Int?
    /// Whether one of the user's rules or resolvers chose ``current``, which exempts it from the policies.
    package private(set) var isByRule = false
    /// Whether ``current`` came from a public address: by an answer, or from the document that names ``original``.
    package var isFromPublic = false
    /// Whether ``current`` was remembered from an earlier request.
    package private(set) var isRecalled = false
    /// **Seconds** for which the chain may be reused: the shortest of its hops.
    package private(set) var life = Int64.max
    private var seen: Set<String>
    /// Whether one of the answers wanted to set a cookie.
    private var setsCookie = false
    /// Headers from a resolver, and the origin they are for.
    private var resolverHeaders: (origin: Origin, fields: [HeaderField])?

    /// Begins at a URL that has not been redirected yet, or at `rewritten`, chosen by one of the user's rules or
    /// resolvers. `headers` are sent to that origin in addition.
    package init(original: CurlURL, rewritten: CurlURL? = nil, headers: [HeaderField] = []) {
        self.original = original
        entry = rewritten ?? original
        current = entry
        isByRule = rewritten != nil
        seen = [entry.text]
        if !headers.isEmpty { resolverHeaders = (entry.origin, headers) }
    }

    /// The headers that a resolver adds to a request for ``current``.
    package var ownHeaders: [HeaderField] {
        guard let (origin, fields) = resolverHeaders, origin == current.origin else { return [] }
        return fields
    }

    /// Continues at a resolver's URL. It is not remembered for other requests, since it may be for this one only.
    package mutating func replace(with url: CurlURL, headers: [HeaderField]) {
        current = url
        isByRule = true
        life = 0
        seen.insert(url.text)
        resolverHeaders = headers.isEmpty ? nil : (url.origin, headers)
    }

    /// Whether credentials and headers of the original's origin may be sent to ``current``.
    package var isAtHome: Bool { current.origin == entry.origin }

    package var hasMoved: Bool { current != original }

    /// Whether ``current`` can be requested at a time in **seconds** since 1970. A signed link that has expired is
    /// requested anew.
    func isGood(at now: Int64) -> Bool {
        guard hasMoved, let end = current.expiry else { return true }
        return end > now
    }

    /// Continues at the target of a remembered redirect.
    mutating func recall(_ target: CurlURL, status: Int, originIsPublic: Bool) {
        seen.insert(target.text)
        current = target
        firstStatus = status
        isByRule = false
        isRecalled = true
        if originIsPublic { isFromPublic = true }
        hops = 1
    }

    /// Follows an answer with status 301, 302, 303, 307 or 308; all of them keep the method GET.
    ///
    /// - Parameters:
    ///   - rules: The user's rules for targets. A target that a rule chooses is the user's own wish and is exempt from
    ///     the policy.
    ///   - now: **Seconds** since 1970.
    /// - Returns: The target of the answer, and what a rule made of it.
    /// - Throws: The rule that was broken. The chain is then unchanged.
    package mutating func follow(
        _ answer: ResponseHeaders, _ policy: RedirectPolicy, _ rules: RewriteRules, now: Int64
    ) throws(Fault) -> (target: CurlURL, rewritten: (url: CurlURL, rule: Int)?) {
        let setsCookie = self.setsCookie || answer.setsCookie
        guard hops < policy.limit else {
            let advice: TransferAdvice? = setsCookie ? .doWithoutCookie : nil
            throw Fault(.redirect, "more than \(policy.limit) redirects", advice: advice)
        }
        guard let location = answer.location, !location.isEmpty else { throw Self.unusable("no Location header") }
        guard !location.hasEncodedControl else {
            throw Self.unusable("a URL with a percent-encoded control character")
        }
        let target: CurlURL
        do { target = try current.joined(location) } catch { throw Self.unusable(error.description) }
        let rewritten = rules.apply(to: target)
        if rewritten == nil,
            let fault = policy.decide(
                from: current.origin, to: target.origin, isFromPublic: isFromPublic, redirect: (current, target))
        {
            throw fault
        }
        let next = rewritten?.url ?? target
        guard seen.insert(next.text).inserted else {
            let advice = setsCookie ? TransferAdvice.doWithoutCookie : .leaveLoop
            throw Fault(.redirect, "a redirect loop, back to \(redacted(next))", advice: advice)
        }
        self.setsCookie = setsCookie
        current = next
        isByRule = rewritten != nil
        firstStatus = firstStatus ?? answer.status
        life = min(life, RedirectMemory.life(of: answer, now: now))
        hops += 1
        return (target, rewritten)
    }

    private static func unusable(_ reason: String) -> Fault {
        Fault(.redirect, "a redirect without a usable target: \(reason)")
    }
}

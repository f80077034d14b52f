package import SyncCurl
package import SyncPlugins

/// The URLs that one request has gone through, and the rules for the next. Does no I/O.
///
/// Rules: RFC 9110 §15.4; what belongs to an origin stays with it (Fetch standard, HTTP-redirect fetch).
package struct RedirectChain: Equatable, Sendable {
    /// What to do with a redirect.
    package enum Step: Equatable, Sendable {
        /// Ask the last of these: the redirect's target, or what a rule made of it.
        case follow(CurlURL, rewritten: CurlURL?)
        /// End the attempt: a rule is broken.
        case refuse(Fault)
    }

    /// As named by the manifest or the user.
    package let original: CurlURL
    /// ``original``, or what a rule made of it. Our own headers belong to it, and memory is keyed by it.
    package private(set) var entry: CurlURL
    package private(set) var current: CurlURL
    /// Redirects followed so far.
    package private(set) var hops = 0
    /// The status of the first of them.
    package private(set) var firstStatus: Int?
    /// Whether a rule of the user's chose ``current``, which exempts it from the policies.
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

    /// Begins at a URL nothing has redirected yet, or at what a rule or a resolver of the user's makes of it. The headers
    /// go to that origin in addition.
    package init(original: CurlURL, rewritten: CurlURL? = nil, headers: [HeaderField] = []) {
        self.original = original
        entry = rewritten ?? original
        current = entry
        isByRule = rewritten != nil
        seen = [entry.text]
        if !headers.isEmpty { resolverHeaders = (entry.origin, headers) }
    }

    /// What a resolver adds to a request for ``current``.
    package var ownHeaders: [HeaderField] {
        guard let (origin, fields) = resolverHeaders, origin == current.origin else { return [] }
        return fields
    }

    /// Goes where a resolver leads. Not remembered for others: it may be for this request only.
    package mutating func replace(with url: CurlURL, headers: [HeaderField]) {
        current = url
        isByRule = true
        life = 0
        seen.insert(url.text)
        resolverHeaders = headers.isEmpty ? nil : (url.origin, headers)
    }

    package static func == (one: RedirectChain, other: RedirectChain) -> Bool {
        one.original == other.original && one.entry == other.entry && one.current == other.current
            && one.hops == other.hops && one.seen == other.seen
    }

    /// Whether what belongs to the original's origin may be sent to ``current``.
    package var isAtHome: Bool { current.origin == entry.origin }

    package var hasMoved: Bool { current != original }

    /// Goes to the target of an earlier request.
    package mutating func recall(_ lesson: RedirectMemory.Lesson) {
        seen.insert(lesson.target.text)
        current = lesson.target
        firstStatus = lesson.status
        isByRule = false
        isRecalled = true
        if lesson.originIsPublic { isFromPublic = true }
        hops = 1
    }

    /// Decides about an answer with status 301, 302, 303, 307 or 308; all of them keep the method GET.
    ///
    /// - Parameters:
    ///   - location: The `Location` header as it came: absolute, relative or scheme-relative.
    ///   - life: For how many **seconds** the answer may be used again.
    ///   - setsCookie: Whether the answer sets a cookie, which no later request sends.
    ///   - rewrite: Gives another URL for the target where a rule of the user's says so. Such a target is
    ///     the user's own wish and is not held against the policy.
    /// - Returns: Where to ask next, or the rule that was broken. A refusal changes nothing.
    package mutating func redirected(
        to location: String?, status: Int, life: Int64 = 0, setsCookie: Bool = false, policy: RedirectPolicy,
        rewrite: (CurlURL) -> CurlURL? = { _ in nil }
    ) -> Step {
        let setsCookie = self.setsCookie || setsCookie
        guard hops < policy.limit else {
            let advice: TransferAdvice? = setsCookie ? .doWithoutCookie : nil
            return .refuse(Fault(.redirect, "more than \(policy.limit) redirects", advice: advice))
        }
        guard let location, !location.isEmpty else { return Self.unusable("no Location header") }
        guard !location.hasEncodedControl else {
            return Self.unusable("a URL with a percent-encoded control character")
        }
        let target: CurlURL
        do { target = try current.joined(location) } catch { return Self.unusable(error.description) }
        let rewritten = rewrite(target)
        let (from, to) = (current.origin, target.origin)
        let lead = RedirectPolicy.Lead.redirect(current, to: target)
        if rewritten == nil, let fault = policy.decide(from: from, to: to, isFromPublic: isFromPublic, by: lead) {
            return .refuse(fault)
        }
        let next = rewritten ?? target
        guard seen.insert(next.text).inserted else {
            let advice = setsCookie ? TransferAdvice.doWithoutCookie : .leaveLoop
            return .refuse(Fault(.redirect, "a redirect loop, back to \(redacted(next))", advice: advice))
        }
        self.setsCookie = setsCookie
        current = next
        isByRule = rewritten != nil
        firstStatus = firstStatus ?? status
        self.life = min(self.life, life)
        hops += 1
        return .follow(target, rewritten: rewritten)
    }

    private static func unusable(_ reason: String) -> Step {
        .refuse(Fault(.redirect, "a redirect without a usable target: \(reason)"))
    }
}

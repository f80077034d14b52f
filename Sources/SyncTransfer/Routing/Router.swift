import SyncCurl
import SyncModel
import SyncPlugins

/// Decides which URL a request goes to, from the manifest's URL, rules, redirects and memory, and what the policy
/// allows. Sends nothing.
final class Router {
    private let policy: RedirectPolicy
    private let rules: RewriteRules
    private let resolvers: [ConfiguredResolver]
    private let clock: TransportClock
    private var memory: RedirectMemory
    /// The version of ``memory`` published last.
    private var toldVersion = 0
    /// Origins that have answered from a public address.
    private var publicOrigins: Set<Origin> = []

    init(_ configuration: TransportConfiguration) {
        policy = configuration.redirects
        rules = RewriteRules(configuration.rewriteRules)
        resolvers = configuration.resolvers
        clock = configuration.clock
        memory = RedirectMemory(configuration.links)
    }

    // MARK: - Where to begin

    /// What a rule makes of a URL, and the rule's number from 1.
    func rewritten(_ url: CurlURL) -> (url: CurlURL, rule: Int)? { rules.apply(to: url) }

    /// The URL that the first request for a source goes to.
    func entry(of source: Source) -> CurlURL {
        source.resolution?.replacement?.url ?? rules.apply(to: source.url)?.url ?? source.url
    }

    /// The chain of a piece's next request.
    func route(of piece: Piece) -> RedirectChain {
        if let chain = piece.chain { return chain }
        let source = piece.source
        let replacement = source.resolution?.replacement
        var chain = RedirectChain(
            original: source.url, rewritten: replacement?.url ?? rules.apply(to: source.url)?.url,
            headers: replacement?.headers ?? [])
        if !chain.isByRule { chain.isFromPublic = isFromPublic(chain.entry, for: piece.transfer) }
        // Resolvers must see redirect targets themselves. A manifest has no digest that would expose an old one. A link
        // that others were given may be good for one request: who was refused asks for one of its own.
        if piece.transfer.request.objectSize != nil, piece.life.refusals == 0,
            let lesson = memory.lesson(for: chain.entry, now: clock.unixTime()),
            !resolvers.contains(where: { $0.scope.covers(lesson.target) }), isAllowed(lesson, from: chain.entry)
        {
            chain.recall(lesson)
        }
        return chain
    }

    /// Whether a redirect to the target would be followed now: the process that learnt it may have had other rules and
    /// a laxer policy.
    private func isAllowed(_ lesson: RedirectMemory.Lesson, from entry: CurlURL) -> Bool {
        guard policy.limit > 0, rules.apply(to: lesson.target) == nil else { return false }
        return policy.decide(
            from: entry.origin, to: lesson.target.origin, isFromPublic: lesson.originIsPublic,
            by: .redirect(entry, to: lesson.target)) == nil
    }

    /// Whether a local address may answer at the end of a chain.
    func mayBeLocal(_ chain: RedirectChain) -> Bool {
        !chain.isFromPublic || chain.isByRule || policy.privateTargets.covers(chain.current.origin.host)
    }

    /// Why a document from a server may not name the first URL of a chain. URLs chosen by the user's rules or resolvers
    /// are exempt.
    func refusal(of chain: RedirectChain, for transfer: Transfer) -> Fault? {
        guard let referrer = transfer.referrer, chain.entry == chain.original else { return nil }
        return policy.decide(
            from: referrer.origin, to: chain.entry.origin, isFromPublic: isFromPublic(chain.entry, for: transfer),
            by: .document)
    }

    /// Whether a URL is named by a document from a public address. On the document's own host, which may be private if
    /// the user named it, that counts only if the host has answered from a public address.
    private func isFromPublic(_ url: CurlURL, for transfer: Transfer) -> Bool {
        guard let referrer = transfer.referrer else { return false }
        if url.origin.host == referrer.origin.host { return publicOrigins.contains(referrer.origin) }
        return referrer.isPublic ?? !referrer.origin.isLocalByName
    }

    func notePublic(_ origin: Origin) { publicOrigins.insert(origin) }

    // MARK: - Redirects

    /// Where a redirect leads: the new chain, the target, and what a rule made of it.
    enum Turn {
        case follow(RedirectChain, target: CurlURL, rewritten: (url: CurlURL, rule: Int)?)
        case refuse(Fault)
    }

    /// Decides about a redirect; `isPublic` if it came from a public address.
    func follow(_ headers: ResponseHeaders, from chain: RedirectChain, isPublic: Bool) -> Turn {
        var chain = chain
        if isPublic { chain.isFromPublic = true }
        let life = LinkExpiry.life(
            cacheControl: headers.cacheControl, expires: headers.expires, fallback: RedirectMemory.longestLife,
            now: clock.unixTime())
        var rule = 0
        let step = chain.redirected(
            to: headers.location, status: headers.status, life: life, setsCookie: headers.setsCookie, policy: policy,
            rewrite: { [rules] target in
                rules.apply(to: target).map {
                    rule = $0.rule
                    return $0.url
                }
            })
        switch step {
        case .refuse(let fault): return .refuse(fault)
        case .follow(let target, let rewritten):
            return .follow(chain, target: target, rewritten: rewritten.map { ($0, rule) })
        }
    }

    // MARK: - Memory

    /// Remembers where redirects led, once something good has come from there.
    func learn(from exchange: Exchange) {
        guard !exchange.hasTaught else { return }
        exchange.hasTaught = true
        learn(exchange.plan.chain)
    }

    func learn(_ chain: RedirectChain) {
        guard chain.hops > 0, !chain.isRecalled, let status = chain.firstStatus else { return }
        memory.learn(
            chain.entry, isAt: chain.current, status: status, originIsPublic: chain.isFromPublic, life: chain.life,
            now: clock.unixTime())
    }

    func forget(_ entry: CurlURL) { memory.forget(entry) }

    /// Forgets everything about where a URL led, directly or by a rule.
    func forgetAll(of url: CurlURL) {
        memory.forget(url)
        if let rewritten = rules.apply(to: url)?.url { memory.forget(rewritten) }
    }

    func isTaught(_ place: String) -> Bool { memory.isTaught(place) }

    /// What the next process should know; `nil` if nothing is new.
    func takeChanges() -> LinkChanges? {
        guard memory.version != toldVersion else { return nil }
        toldVersion = memory.version
        return memory.records(now: clock.unixTime())
    }
}

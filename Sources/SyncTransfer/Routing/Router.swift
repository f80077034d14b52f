import SyncModel
import SyncPlugins
import SyncSystem

/// Decides which URL a request goes to, from the manifest's URL, rules, redirects, memory and policy. Announces each
/// step before the request is sent. Sends nothing itself.
final class Router {
    let policy: RedirectPolicy
    private let rules: RewriteRules
    private let resolvers: [ConfiguredResolver]
    private let clock: TransportClock
    private let events: @Sendable (TransferEvent) -> Void
    private var memory: RedirectMemory
    /// The version of ``memory`` published last.
    private var takenVersion = 0
    /// Origins that have answered from a public address.
    private var publicOrigins: Set<Origin> = []

    init(_ configuration: TransportConfiguration) {
        policy = configuration.redirects
        rules = RewriteRules(configuration.rewriteRules)
        resolvers = configuration.resolvers
        clock = configuration.clock
        events = configuration.events
        memory = configuration.links
    }

    // MARK: - Where to begin

    /// The URL after the rewrite rules, which may be unchanged.
    func rewritten(_ url: CurlURL) -> CurlURL { rules.apply(to: url)?.url ?? url }

    /// The URL that the first request for a source goes to.
    func entry(of source: Source) -> CurlURL { source.resolution?.link?.url ?? rewritten(source.url) }

    /// The chain for a piece's next request.
    ///
    /// - Throws: Why the document that names the URL may not lead there. URLs chosen by the user's rules or resolvers
    ///   are exempt.
    func route(of piece: Piece) throws(Fault) -> RedirectChain {
        if let chain = piece.chain { return chain }
        let source = piece.source
        let entry = entry(of: source)
        let isByRule = source.resolution?.link != nil || entry != source.url
        var chain = RedirectChain(
            original: source.url, rewritten: isByRule ? entry : nil, headers: source.resolution?.link?.headers ?? [])
        if !isByRule, let document = piece.transfer.referrer {
            chain.isFromPublic = RedirectPolicy.isPublic(
                document, naming: entry.origin.host, hasAnsweredFromPublic: publicOrigins.contains(document.origin))
            if let fault = policy.decide(
                from: document.origin, to: entry.origin, isFromPublic: chain.isFromPublic)
            {
                throw fault
            }
        }
        // Resolvers must see redirect targets themselves. A manifest has no digest that would expose an old target. A
        // remembered link may have been good for one request only, so a piece that was refused requests its own.
        if piece.transfer.request.objectSize != nil, piece.machine.refusals == 0,
            let (target, status, originIsPublic) = memory.target(of: entry, now: clock.unixTime()),
            !resolvers.contains(where: { $0.scope.covers(target) }),
            // The process that learnt the entry may have had other rules and a laxer policy.
            policy.limit > 0, rules.apply(to: target) == nil,
            policy.decide(
                from: entry.origin, to: target.origin, isFromPublic: originIsPublic, redirect: (entry, target))
                == nil
        {
            chain.recall(target, status: status, originIsPublic: originIsPublic)
        }
        return chain
    }

    /// Whether a local address may answer at the end of a chain.
    func mayBeLocal(_ chain: RedirectChain) -> Bool {
        chain.isByRule || policy.mayBeLocal(chain.current.origin.host, isFromPublic: chain.isFromPublic)
    }

    func notePublic(_ origin: Origin) { publicOrigins.insert(origin) }

    /// Whether an origin has answered from a public address.
    func isPublic(_ origin: Origin) -> Bool { publicOrigins.contains(origin) }

    // MARK: - Redirects

    /// Follows a redirect and announces that; `isPublic` if it came from a public address.
    ///
    /// - Throws: Why it is not followed.
    func follow(_ answer: ResponseHeaders, from former: RedirectChain, isPublic: Bool, for piece: Piece) throws(Fault)
        -> RedirectChain
    {
        var chain = former
        if isPublic { chain.isFromPublic = true }
        let (target, rewritten) = try chain.follow(answer, policy, rules, now: clock.unixTime())
        announce(
            Hop(
                .redirect(status: answer.status), from: redacted(former.current), to: redacted(target),
                number: chain.hops), of: piece)
        if let (url, rule) = rewritten {
            announce(Hop(.rule(rule), from: redacted(target), to: redacted(url), number: chain.hops), of: piece)
        }
        return chain
    }

    /// Announces the steps before the first request of a chain: another source, a rule, a resolver, memory.
    func announceBeginning(of chain: RedirectChain, for piece: Piece) {
        piece.trail = []
        var from = redacted(chain.original)
        let asked = piece.askedSource ?? 0
        if asked != piece.sourceIndex {
            announce(Hop(.mirror, from: redacted(piece.transfer.sources[asked].url), to: from), of: piece)
        }
        piece.askedSource = piece.sourceIndex
        func goes(to url: CurlURL, by cause: Hop.Cause) {
            announce(Hop(cause, from: from, to: redacted(url)), of: piece)
            from = redacted(url)
        }
        if let (target, rule) = rules.apply(to: chain.original) { goes(to: target, by: .rule(rule)) }
        if let link = piece.source.resolution?.link, link.url == chain.entry {
            goes(to: link.url, by: .resolver(link.resolver))
        }
        if chain.isRecalled, let status = chain.firstStatus {
            announce(
                Hop(
                    .redirect(status: status), from: redacted(chain.entry), to: redacted(chain.current), number: 1,
                    isRemembered: true), of: piece)
        }
    }

    /// Announces a hop of a piece, and keeps it for ``RequestStatus``.
    func announce(_ hop: Hop, of piece: Piece) {
        piece.trail.append(hop)
        piece.hasNewHop = true
        events(.moved(piece.transfer.id, hop))
    }

    // MARK: - Memory

    /// Remembers where redirects led, after a good answer from there.
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

    /// Forgets where a URL led, directly or by a rule.
    func forgetAll(of url: CurlURL) {
        memory.forget(url)
        if let rewritten = rules.apply(to: url)?.url { memory.forget(rewritten) }
    }

    func isKnown(_ place: String) -> Bool { memory.isKnown(place) }

    /// The memory for the next process; `nil` if nothing is new.
    func takeChanges() -> RedirectMemory? {
        guard memory.version != takenVersion else { return nil }
        takenVersion = memory.version
        return memory
    }
}

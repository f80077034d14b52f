import SyncCurl
import SyncPlugins

extension CurlWorker {
    /// Puts a piece into the queue of the host that its next request goes to.
    ///
    /// - Parameters:
    ///   - piece: The piece; it leaves whatever queue it was in.
    ///   - isUrgent: Goes before everything: it has been started already.
    func enqueue(_ piece: Piece, isUrgent: Bool = false) {
        guard !piece.transfer.hasEnded else { return }
        if piece.chain == nil { chooseSource(for: piece) }
        if waitsForResolver(piece, priority: priority(of: piece, isUrgent: isUrgent)) { return }
        let chain = route(of: piece)
        if piece.chain == nil, let fault = refusal(of: chain, for: piece.transfer) {
            piece.transfer.lastURL = chain.current.text
            return settle(piece, fault: fault, chain: chain)
        }
        let host = host(for: chain.current.origin)
        piece.leaveQueue()
        piece.state = .queued
        host.queue.insert(
            (piece, piece.ticket),
            priority: priority(of: piece, isUrgent: isUrgent),
            isSmall: isSmall(piece),
            length: piece.remaining ?? 0
        )
        if piece.transfer.sources.count > 1 { host.movable += 1 }
        list(host)
        // Whoever comes later has no patience of its own with it.
        if host.isOutOfReach, host.gate != nil, host.silentSince != nil { watchSilence(of: host) }
    }

    /// What has begun goes first; what has failed again and again leaves its slot to others first (V50).
    private func priority(of piece: Piece, isUrgent: Bool) -> Int {
        if piece.failures > 1 { return Int.min }
        return isUrgent ? Int.max : piece.transfer.request.priority
    }

    /// The chain the next request of a piece continues, or would begin with.
    func route(of piece: Piece) -> RedirectChain {
        if let chain = piece.chain { return chain }
        let original = piece.transfer.sources[piece.sourceIndex].url
        let replacement = piece.transfer.sources[piece.sourceIndex].resolution?.replacement
        var chain = RedirectChain(
            original: original,
            rewritten: replacement?.url ?? rules.apply(to: original)?.url,
            headers: replacement?.headers ?? []
        )
        if !chain.isByRule { chain.isFromPublic = isFromPublic(chain.entry, for: piece.transfer) }
        // Resolvers want to see for themselves where a redirect leads. A manifest has no digest that would tell an old one.
        if piece.transfer.request.objectSize != nil,
            let lesson = memory.lesson(for: chain.entry, now: configuration.clock.unixTime()),
            !resolvers.contains(where: { $0.scope.covers(lesson.target) }),
            isAllowed(lesson, from: chain.entry)
        {
            chain.recall(lesson)
        }
        return chain
    }

    /// Whether a redirect that led there would be followed now: the process that learnt it may have been allowed more, and
    /// had other rules.
    private func isAllowed(_ lesson: RedirectMemory.Lesson, from entry: CurlURL) -> Bool {
        let (policy, target) = (configuration.redirects, lesson.target.origin)
        guard policy.limit > 0, rules.apply(to: lesson.target) == nil else { return false }
        if entry.origin.scheme == "https", target.scheme == "http", !policy.downgrade.covers(target.host) {
            return false
        }
        return !(lesson.originIsPublic && policy.refusesByName(target))
    }

    private func chooseSource(for piece: Piece) {
        let sources = piece.transfer.sources
        guard sources.count > 1 else { return }
        let candidates = sources.indices.filter { !sources[$0].isSpent }.map { index in
            let url = sources[index].url
            return (index: index, url: url, isOutOfReach: hosts[url.origin]?.isOutOfReach ?? false)
        }
        if let best = standings.best(of: candidates, now: now) { piece.sourceIndex = best }
    }

    func host(for origin: Origin) -> HostState {
        if let host = hosts[origin] { return host }
        let start = standings[origin].connections ?? configuration.initialConnections
        let limit = AdaptiveLimit(start: start, ceiling: configuration.connectionsPerHost)
        let host = HostState(origin: origin, adaptive: limit)
        host.credential = credential(for: origin)
        hosts[origin] = host
        return host
    }

    /// Notes that a host may start something, if it may.
    func list(_ host: HostState) {
        guard !host.isListed, mayStart(host), !waitsForCredential(host), let priority = host.queue.topPriority
        else { return }
        host.isListed = true
        startable.insert((priority, host))
    }

    private func mayStart(_ host: HostState) -> Bool {
        guard !host.queue.isEmpty, host.running < limit(of: host) else { return false }
        return host.gate.map { $0 <= now } ?? true
    }

    /// Exchanges a host may have at a time: one to see whether it is back, else as many as serve it well.
    func limit(of host: HostState) -> Int {
        if host.isOutOfReach || host.backoff.isShut { return 1 }
        guard configuration.adaptive else { return configuration.connectionsPerHost }
        // Where one goes, others need seconds to fill what it leaves: the one that has just become free stays if it brings
        // more than its share, and a slower one goes instead (cubic's K, RFC 9438 section 4.2).
        let (limit, share) = (host.adaptive.limit, host.goodput / Double(host.running + 1))
        guard host.running >= limit, host.running < host.adaptive.fastLimit, let rate = host.freeRates.last,
            rate > share
        else { return limit }
        return host.running + 1
    }

    /// Whether the next turn would start more without anything else happening.
    var mayStartMore: Bool { !startable.isEmpty && running.count < configuration.connections }

    /// Starts queued pieces while there is room. O(log *n*) for each start.
    func startWhatMayStart() {
        var turns = 0
        while running.count < configuration.connections, turns < Self.maximumTurns,
            let (_, host) = startable.popFirst()
        {
            turns += 1
            host.isListed = false
            guard mayStart(host), !waitsForCredential(host) else { continue }
            let next = host.queue.popFirst(
                runningSmall: host.runningSmall,
                runningLarge: host.running - host.runningSmall
            )
            if let (piece, ticket) = next {
                if piece.transfer.sources.count > 1 { host.movable -= 1 }
                if piece.ticket == ticket, case .queued = piece.state { start(piece, on: host) }
            }
            list(host)
        }
    }

    /// So many looks into queues before libcurl gets its turn again.
    private static let maximumTurns = 512

    private func start(_ piece: Piece, on host: HostState) {
        if piece.chain == nil { chooseSource(for: piece) }
        guard !waitsForResolver(piece, priority: Int.max) else { return }
        let chain = route(of: piece)
        // Another host when something was learnt since it was queued.
        guard chain.current.origin == host.origin else { return enqueue(piece) }
        guard !waitsForScout(piece, chain) else { return }
        guard !joinWholeObject(piece) else { return }
        shorten(piece, on: host)
        launch(piece, chain: chain, on: host)
    }

    /// A host asked for a pause, or cannot be reached: nothing starts there before `time`.
    func closeGate(of host: HostState, until time: Duration) {
        guard time > host.gate ?? now else { return }
        host.gate = time
        host.idleSince = max(host.idleSince, time)
        timers.insert(Timer(at: time, action: .openGate(host)))
        guard host.movable > 0 else { return }
        // Those that can be asked elsewhere do not wait here. Once: afterwards there are none.
        host.movable = 0
        for ((piece, ticket), priority) in host.queue.removeAll() {
            guard piece.ticket == ticket, case .queued = piece.state else { continue }
            if piece.transfer.sources.count > 1 { piece.chain = nil }
            enqueue(piece, isUrgent: priority == Int.max)
        }
    }

    func openGate(of host: HostState) {
        host.gate = nil
        list(host)
    }

    /// Addresses or routes have changed: whoever could not be reached is tried again at once (F049).
    func networkDidChange() {
        for host in hosts.values where host.connectivityFailures > 0 { openGate(of: host) }
    }

    func isSmall(_ piece: Piece) -> Bool {
        (piece.remaining ?? piece.transfer.request.limit) <= configuration.smallSize
    }
}

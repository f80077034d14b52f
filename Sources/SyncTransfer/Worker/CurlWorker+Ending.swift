import CCurl
import SyncCurl
import SyncPlugins

extension CurlWorker {
    /// Takes an exchange out of libcurl and decides about each of its pieces.
    func finish(_ exchange: Exchange, result: CURLcode) {
        guard running[ObjectIdentifier(exchange)] != nil else { return }
        let fault = fault(of: exchange, result: result)
        measure(exchange)
        release(exchange)
        account(exchange)
        endWholeObject(of: exchange)
        let host = exchange.host
        if exchange.isConnected { wasReached(host, byAnswer: exchange.isAccepted) }
        noteAnswer(of: exchange, fault)
        if fault == nil, exchange.verdict != .redirect {
            host.credential.refusals = 0
            noteRate(of: exchange)
            standings[host.origin].addSuccess(
                bytes: exchange.bodyBytes,
                time: now - exchange.plan.startedAt
            )
        }
        noteLoad(after: exchange, fault)

        let isPublic = exchange.answeredFromPublic || isPublicByName(exchange)
        if isPublic { host.isPublic = true }
        for (index, piece) in exchange.pieces.enumerated() where !piece.transfer.hasEnded {
            if !piece.isComplete { piece.sink.interrupted() }
            if isPublic { piece.transfer.isFromPublic = true }
            if exchange.verdict == .redirect {
                if index == 0 { followRedirect(piece, exchange, isPublic: isPublic) } else { enqueue(piece) }
            } else {
                conclude(piece, of: exchange, fault: fault)
            }
        }
        exchange.pieces = []
        list(host)
    }

    /// Something is there: it may get more than one to find that out. Where a log-in page stood it takes an answer.
    func wasReached(_ host: HostState, byAnswer: Bool) {
        if byAnswer { host.lastFault = nil }
        guard host.lastFault?.kind != .captivePortal else { return }
        guard host.connectivityFailures > 0 else { return }
        host.connectivityFailures = 0
        list(host)
    }

    /// Decides about one piece of an answer that is no redirect.
    private func conclude(_ piece: Piece, of exchange: Exchange, fault: Fault?) {
        let own = piece.fault
        piece.fault = nil
        let chain = exchange.plan.chain
        if let own {
            settle(piece, fault: own, chain: chain)
        } else if let fault, !(piece.isComplete && exchange.isAccepted && fault.kind != .tooLarge) {
            settle(piece, fault: fault, chain: chain)
        } else if piece.isComplete || piece.end == nil {
            learn(from: exchange)
            end(piece)
        } else if exchange.offset == exchange.bodyEnd,
            piece.position - piece.positionAtFailure >= configuration.retry.progress
        {
            // The server gives less at a time than was asked for, as it may: RFC 9110 §15.3.7.
            piece.failures = 0
            piece.positionAtFailure = piece.position
            piece.chain = chain
            enqueue(piece, isUrgent: true)
        } else {
            settle(piece, fault: Fault(.broken, "the body ended early"), chain: chain)
        }
    }

    /// Takes pieces out of running exchanges that want nothing more of them.
    func reap() {
        guard !reapable.isEmpty else { return }
        let exchanges = reapable
        reapable = []
        for exchange in exchanges where running[ObjectIdentifier(exchange)] != nil {
            let done = exchange.pieces.filter(\.isServed)
            exchange.pieces.removeAll { $0.isServed }
            // The last one ends with the exchange.
            if exchange.pieces.isEmpty { exchange.pieces = done.last.map { [$0] } ?? [] }
            if let next = exchange.pieces.first, next.transfer !== exchange.lead {
                account(exchange)  // What came so far is the leader's; the rest is the next one's.
                exchange.lead = next.transfer
            }
            for piece in done where !exchange.pieces.contains(where: { $0 === piece }) {
                conclude(piece, of: exchange, fault: nil)
            }
        }
    }

    /// Called by an exchange inside libcurl: nothing happens before libcurl has returned.
    func reap(_ exchange: Exchange) {
        if reapable.last !== exchange { reapable.append(exchange) }
    }

    /// Keeps where redirects have led, once: as soon as something good comes from there.
    func learn(from exchange: Exchange) {
        guard !exchange.hasTaught else { return }
        exchange.hasTaught = true
        learn(exchange.plan.chain)
    }

    func learn(_ chain: RedirectChain) {
        guard chain.hops > 0, !chain.isRecalled, let status = chain.firstStatus else { return }
        memory.learn(
            chain.entry,
            isAt: chain.current,
            status: status,
            originIsPublic: chain.isFromPublic,
            life: chain.life,
            now: configuration.clock.unixTime()
        )
    }

    /// Gives back the slot and the handle. libcurl closes a connection that was in the middle of a body.
    func release(_ exchange: Exchange) {
        guard running.removeValue(forKey: ObjectIdentifier(exchange)) != nil else { return }
        let host = exchange.host
        host.running -= 1
        host.idleSince = now
        if exchange.plan.isSmall { host.runningSmall -= 1 }
        _ = curl_multi_remove_handle(multi, exchange.easy.raw)
        do {
            try exchange.easy.attach(nil)
            if idleHandles < 2 * configuration.connections {
                idleHandles += 1
                host.handles[exchange.plan.kind, default: []].append(exchange.easy)
            }
        } catch {
            // A handle that refuses a pointer is not used again.
        }
    }

    /// Counts what an exchange has sent and received for the transfer it began with.
    func account(_ exchange: Exchange) {
        exchange.lead.requests += exchange.requests
        exchange.lead.bytesReceived += exchange.received
        exchange.requests = 0
        exchange.received = 0
    }

    private func followRedirect(_ piece: Piece, _ exchange: Exchange, isPublic: Bool) {
        var chain = exchange.plan.chain
        if isPublic { chain.isFromPublic = true }
        let from = chain.current
        let headers = exchange.headers
        let life = LinkExpiry.life(
            cacheControl: headers.cacheControl,
            expires: headers.expires,
            fallback: RedirectMemory.longestLife,
            now: configuration.clock.unixTime()
        )
        var rule = 0
        let step = chain.redirected(
            to: headers.location,
            status: headers.status,
            life: life,
            policy: configuration.redirects,
            rewrite: { target in
                rules.apply(to: target).map {
                    rule = $0.rule
                    return $0.url
                }
            }
        )
        if exchange.plan.chain.hops == 0 { standings[from.origin].redirects = true }
        switch step {
        case .refuse(let refusal): settle(piece, fault: refusal.fault, chain: exchange.plan.chain)
        case .follow(let target, let rewritten):
            if rewritten == nil, chain.isFromPublic,
                configuration.redirects.refusesByName(target.origin)
            {
                let detail = "a redirect from a public server to the private address \(target.origin.host)"
                return settle(piece, fault: Fault(.policy, detail), chain: exchange.plan.chain)
            }
            tell(.redirect(headers.status), from: from, to: target, of: piece, hop: chain.hops)
            if let rewritten {
                tell(.rewrite(.rule(rule)), from: target, to: rewritten, of: piece, hop: chain.hops)
            }
            piece.chain = chain
            if !resolvers.isEmpty { piece.unresolvedRedirect = headers.status }
            enqueue(piece, isUrgent: true)
        }
    }

    /// Why a document from a server may not name the first URL of a chain. What a rule or a resolver of the user's has
    /// chosen is the user's own wish.
    func refusal(of chain: RedirectChain, for transfer: Transfer) -> Fault? {
        guard let referrer = transfer.referrer, chain.entry == chain.original else { return nil }
        return configuration.redirects.refusal(
            of: chain.entry.origin,
            namedBy: referrer.origin,
            isFromPublic: isFromPublic(chain.entry, for: transfer)
        )
    }

    /// Whether a URL is named by a document from a public address: its own host may be private where it always was.
    func isFromPublic(_ url: CurlURL, for transfer: Transfer) -> Bool {
        guard let referrer = transfer.referrer else { return false }
        if url.origin.host == referrer.origin.host { return hosts[referrer.origin]?.isPublic == true }
        return referrer.isPublic ?? !referrer.origin.isLocalByName
    }

    /// Behind a proxy the connected address says nothing; then the name has to.
    private func isPublicByName(_ exchange: Exchange) -> Bool {
        exchange.plan.isProxied && !exchange.plan.chain.current.origin.isLocalByName
    }
}

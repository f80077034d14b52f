import CCurl
import SyncModel
import SyncPlugins
import SyncSystem

/// Handles answers: what follows from each for its host and for each of its pieces. ``PieceMachine`` decides, and its
/// actions are carried out here.
extension Dispatcher {
    // MARK: - The answer

    /// Decides about each piece of an exchange that libcurl has finished.
    func finish(_ exchange: Exchange, fault: Fault?) {
        let host = exchange.host
        noteAnswer(of: exchange, fault)
        let isBroken = fault != nil && exchange.isAccepted && exchange.bodyBytes > 0
        if isBroken || exchange.verdict == .redirect && host.credential.isByChallenge { host.credential.wasAccepted() }
        if fault == nil, exchange.verdict != .redirect {
            host.credential.wasAccepted()
            let time = now - exchange.plan.startedAt
            if exchange.bodyBytes >= configuration.minimumSplit, time > .zero {
                host.load.noteFree(rate: Double(exchange.bodyBytes) / (time / .seconds(1)))
            }
            health[host.origin].addSuccess(bytes: exchange.bodyBytes, time: time)
        }
        noteLoad(after: exchange, fault)

        // Behind a proxy the connected address says nothing, so the host's name decides.
        let isPublic =
            exchange.answeredFromPublic || exchange.plan.isProxied && !exchange.plan.chain.current.origin.isLocalByName
        if isPublic { router.notePublic(host.origin) }
        for (index, piece) in exchange.pieces.enumerated() where !piece.transfer.hasEnded {
            if !piece.isComplete { piece.sink.interrupted() }
            if isPublic { piece.transfer.report.isPublic = true }
            if exchange.verdict == .redirect {
                if index == 0 { followRedirect(piece, exchange, isPublic: isPublic) } else { enqueue(piece) }
            } else {
                conclude(piece, of: exchange, fault: fault)
            }
        }
        exchange.pieces = []
    }

    /// Records what the end of an exchange says about its host.
    private func noteAnswer(of exchange: Exchange, _ fault: Fault?) {
        let host = exchange.host
        obeyRateLimit(of: host)
        if exchange.verdict == .redirect {
            // A redirect from a host that was behind a log-in page proves nothing.
            if !host.isOutOfReach { host.silence.restart(isAsked: host.running > 0, now: now) }
        } else if exchange.isAccepted, fault == nil || exchange.bodyBytes > 0 {
            silence.delivered(host, now: now)
            if exchange.plan.chain.hops > 0, let entry = hosts[exchange.plan.chain.entry.origin] {
                wasReached(entry, byAnswer: true)
                entry.silence.restart(isAsked: entry.running > 0, now: now)
            }
        } else if exchange.isAnswered, let fault, fault.kind != .captivePortal {
            silence.refused(host, fault)
        }
    }

    /// Pauses a host that states how many requests it accepts, once no more are left than are under way, so that it
    /// need not refuse any.
    func obeyRateLimit(of host: HostState) {
        guard let allowance = host.allowance, allowance.isUsedUp, let until = allowance.until, until > now else {
            return
        }
        hold(host, until: until)
        host.silence.exclude(until: until)
        announcePause(of: host)
    }

    /// A shorter pause is not announced.
    private static let longPause = Duration.seconds(5)

    /// Announces a pause of a host that accepts no more requests at present, once, if a transfer waits for its end.
    func announcePause(of host: HostState) {
        guard let allowance = host.allowance, allowance.isUsedUp, let until = allowance.until,
            until != host.announcedPause, until - now >= Self.longPause, let (piece, ticket) = host.queue.first,
            piece.machine.isQueued(since: ticket), let chain = try? router.route(of: piece),
            chain.current.origin == host.origin
        else { return }
        host.announcedPause = until
        piece.transfer.isReported = false
        configuration.events(
            .waitingForConnectivity(
                piece.transfer.id, url: redacted(chain.current), reason: Self.pause, after: until - now, patience: nil))
    }

    /// What a host does that lets requests wait without a fault.
    static let pause = "the server asks for a pause"

    /// Halves the number of connections when the server or the path objects (429, 503, reset, silence).
    ///
    /// Only the first failure of an object counts: further ones say something about the object, not about the load.
    private func noteLoad(after exchange: Exchange, _ fault: Fault?) {
        guard let fault, exchange.pieces.contains(where: { $0.machine.failures == 0 }) else { return }
        // A server that names a time has said what helps (RFC 9110 section 10.2.3).
        guard fault.retryAfter == nil else { return }
        switch fault.kind {
        case .status(429), .status(503), .idle, .slow, .broken:
            exchange.host.load.penalise(now: now)
            keepProven(of: exchange.host)
        default: break
        }
    }

    /// Decides about one piece after an answer that is not a redirect.
    func conclude(_ piece: Piece, of exchange: Exchange, fault: Fault?) {
        do throws(Fault) {
            let isComplete = try piece.ended(
                fault, isAccepted: exchange.isAccepted, isFullLength: exchange.offset == exchange.bodyEnd,
                isTooSlow: isTooSlow(piece, since: exchange.plan.startedAt))
            if isComplete {
                router.learn(from: exchange)
                complete(piece)
            } else {
                piece.chain = exchange.plan.chain
                enqueue(piece, isUrgent: true)
            }
        } catch {
            // Another part of the object has found that out meanwhile.
            let isKnown = error.kind == .wrongRange && piece.source.wholeOnly
            let isOld = isKnown && exchange.plan.question.first != nil
            let told = isOld ? Fault(.superseded, error.detail) : error
            recover(piece, fault: told, chain: exchange.plan.chain)
        }
    }

    private func followRedirect(_ piece: Piece, _ exchange: Exchange, isPublic: Bool) {
        let former = exchange.plan.chain
        if former.hops == 0 { health[former.current.origin].redirects = true }
        do throws(Fault) {
            piece.chain = try router.follow(exchange.headers, from: former, isPublic: isPublic, for: piece)
            if resolving.isOpen { piece.unresolvedRedirect = exchange.headers.status }
            enqueue(piece, isUrgent: true)
        } catch { recover(piece, fault: error, chain: former) }
    }

    // MARK: - A fault

    /// Decides how to go on after a fault: again, at another source, later, or not at all.
    func recover(_ piece: Piece, fault: Fault, chain: RedirectChain) {
        guard !piece.transfer.hasEnded else { return }
        endScouting(piece)
        let actions = piece.failed(failure(of: piece, fault: fault, chain: chain))
        // The wait that ``PieceAction/backOff(times:)`` determined.
        var wait = Duration.zero
        for action in actions { perform(action, on: piece, fault: fault, chain: chain, &wait) }
        if fault.status != nil { checkSilentSources(piece.transfer) }
    }

    private func failure(of piece: Piece, fault: Fault, chain: RedirectChain) -> PieceFailure {
        let sources = piece.transfer.sources
        let others = sources.indices.filter { $0 != piece.sourceIndex && !sources[$0].isSpent }
        return PieceFailure(
            fault: fault, position: piece.position, hasMoved: chain.hasMoved,
            isCredentialRenewed: credentials.renew(
                after: fault, of: piece, chain: chain, at: hosts[chain.current.origin],
                isPublic: router.isPublic(chain.current.origin)),
            strikes: piece.source.strikes, isSourceSpent: piece.source.isSpent, hasOtherSource: !others.isEmpty,
            isOtherSourceReady: others.contains { index in
                !health.isPenalised(sources[index].url.text, now: now)
                    && hosts[sources[index].url.origin]?.notBefore == nil
            }, isOnlySource: sources.count == 1, isTooSlow: isTooSlow(piece), attempts: configuration.retry.attempts)
    }

    /// Whether a piece has been too slow as often as it may fail.
    ///
    /// - Parameter start: The start of the attempt that has just ended; `nil` if that attempt has been recorded.
    private func isTooSlow(_ piece: Piece, since start: Duration? = nil) -> Bool {
        if let start {
            var pace = piece.pace ?? Pace(at: start, position: piece.start)
            pace.attemptEnded(
                position: piece.position, now: now, least: configuration.speedLimit,
                over: configuration.speedTime)
            piece.pace = pace
        }
        return (piece.pace?.slowTimes ?? 0) >= configuration.retry.attempts
    }

    private func perform(
        _ action: PieceAction, on piece: Piece, fault: Fault, chain: RedirectChain, _ wait: inout Duration
    ) {
        let (transfer, index) = (piece.transfer, piece.sourceIndex)
        switch action {
        case .joinOther:
            piece.chain = chain
            if !wholeObjects.join(piece) { enqueue(piece, isUrgent: true) }
        case .ask(let anew):
            piece.chain = anew ? nil : chain
            enqueue(piece, isUrgent: true)
        case .retry(let anew, let delay):
            piece.chain = anew || !chain.isGood(at: agenda.unixTime) ? nil : chain
            let time = time(of: delay, piece, backOff: wait)
            // The host causes this wait, so its silence goes on.
            hosts[chain.current.origin]?.silence.isBusy(until: now + time)
            announceRetry(of: piece, fault, after: time)
            agenda.add(.requeue(piece, ticket: piece.take(.postponed(.until(now + time)))), at: now + time)
        case .awaitConnectivity: awaitConnectivity(piece, fault: fault, chain: chain)
        case .fail:
            let others = piece.source.isSpent ? [] : [(url: transfer.report.currentURL, detail: fault.detail)]
            abandon(transfer, transfer.error(fault, configuration.advise, others: others))
        case .forgetRedirect: router.forget(chain.entry)
        case .expireResolution: resolving.expire(&transfer.sources[index], chain, after: fault)
        case .strike(let strike):
            transfer.sources[index].strikes.insert(strike)
            // All parts of a divided object then come from one body.
            if strike == .onceWithoutRange, transfer.pieces.count > 1 {
                wholeObjects.note(rangeless: piece.source.url.text)
            }
        case .postponeSource: penalise(chain.original)
        case .penaliseSource: penalise(piece, fault: fault, source: chain.original)
        case .dropSource: transfer.sources[index].left = (fault, chain.current.text)
        case .recordHostFault: host(for: chain.current.origin).lastFault = fault
        case .backOff(let times): wait = backOff(at: chain.current.origin, times)
        case .holdHost(let seconds):
            let wait = configuration.retry.wait(retryAfter: seconds)
            announceRetry(of: piece, fault, after: wait)
            let host = host(for: chain.current.origin)
            hold(host, until: now + wait)
            host.silence.exclude(until: now + wait)
        }
    }

    private func time(of delay: PieceDelay, _ piece: Piece, backOff: Duration) -> Duration {
        switch delay {
        case .none: .zero
        case .own: configuration.retry.wait(failures: piece.machine.failures, random: configuration.random())
        case .backOff: backOff
        }
    }

    private func announceRetry(of piece: Piece, _ fault: Fault, after wait: Duration) {
        piece.transfer.isReported = false
        configuration.events(
            .retrying(
                piece.transfer.id, url: redacted(url: piece.transfer.report.currentURL), reason: fault.detail,
                attempt: piece.machine.failures + 1, after: wait))
    }

    /// The wait before the next attempt at a failing host, see ``HostBackoff``.
    private func backOff(at origin: Origin, _ times: Int) -> Duration {
        let host = host(for: origin)
        let time = host.backoff.failed(
            times, now: now, policy: configuration.retry, random: configuration.random)
        if host.backoff.isShut { hold(host, until: host.backoff.until) }
        return time - now
    }

    /// Handles a fault by which nothing was reached, or only a log-in page. It does not count as an attempt: only
    /// patience and the deadline end the transfer.
    private func awaitConnectivity(_ piece: Piece, fault: Fault, chain: RedirectChain) {
        // Ask the URL that led to the log-in page, not the page.
        let isPortal = fault.kind == .captivePortal
        let host = host(for: isPortal ? chain.entry.origin : chain.current.origin)
        let isKnown = host.notBefore.map { $0 > now } ?? false
        host.lastFault = fault
        // Out of patience, the host is not held either, so that its other pieces fail at once.
        guard !isOutOfPatience(piece.transfer) else { return giveUp(piece.transfer) }
        if !isKnown {
            host.connectivityFailures += 1
            let wait = configuration.retry.connectivityWait(
                failures: host.connectivityFailures, random: configuration.random())
            hold(host, until: now + max(wait, .milliseconds(10)))
        }
        if piece.transfer.sources.count > 1 {
            penalise(piece, fault: fault, source: chain.original)
        } else {
            piece.transfer.isReported = false
            configuration.events(
                .waitingForConnectivity(
                    piece.transfer.id, url: redacted(chain.current), reason: fault.detail,
                    after: max(.zero, (host.notBefore ?? now) - now),
                    patience: silence.left(of: host, now: now)))
        }
        piece.chain = nil
        enqueue(piece, isUrgent: true)
    }

    private func penalise(_ piece: Piece, fault: Fault, source: CurlURL) {
        penalise(source)
        if fault.isOfHost { health[source.origin].addFailure() }
        // With a single source there is none to prefer, and the failure itself is reported.
        if piece.transfer.sources.count > 1 {
            configuration.events(.sourcePenalised(piece.transfer.id, url: redacted(source), reason: fault.detail))
        }
    }
}

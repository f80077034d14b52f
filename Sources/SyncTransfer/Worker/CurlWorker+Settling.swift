import SyncCurl
import SyncModel
import SyncPlugins

extension CurlWorker {
    /// Decides after a fault: again, elsewhere, later, or not at all.
    func settle(_ piece: Piece, fault: Fault, chain: RedirectChain) {
        let transfer = piece.transfer
        guard !transfer.hasEnded else { return }
        piece.leaveQueue()
        endScouting(piece)
        if fault.kind == .superseded {
            piece.chain = chain
            if !joinWholeObject(piece) { enqueue(piece, isUrgent: true) }
            return
        }
        piece.lastFault = fault
        let progress = piece.position - min(piece.positionAtFailure, piece.position)
        if progress >= leastProgress(despite: fault) { piece.failures = 0 }
        if progress > 0 { piece.refusals = 0 }
        piece.positionAtFailure = piece.position
        let isInterruption = (fault.kind == .broken || fault.kind == .idle) && progress > 0
        if chain.hasMoved, !isInterruption, fault.kind != .stopped { memory.forget(chain.entry) }

        if renewCredential(after: fault, of: piece, chain: chain) {
            piece.chain = nil
            return enqueue(piece, isUrgent: true)
        }
        let source = piece.sourceIndex
        switch RetryTable.remedy(for: fault.kind, redirected: chain.hasMoved) {
        case .waitForConnectivity: waitForConnectivity(piece, fault: fault, chain: chain)
        case .again where isInterruption:
            let isFirst = !piece.wasTakenUp
            piece.wasTakenUp = true
            let wait = isFirst ? .zero : backOff(at: chain.current.origin, 0)
            retry(piece, fault: fault, from: fresh(chain), after: wait)
        case .again: retryElsewhereOrLater(piece, fault: fault, chain: chain)
        case .againFromOriginal where piece.refusals < Self.mostRefusals:
            piece.refusals += 1
            expireResolution(of: piece, fault: fault)
            retry(piece, fault: fault, from: nil, after: piece.refusals == 1 ? .zero : nil)
        case .onceWithoutRange where transfer.sources[source].strikes.insert(.withoutRange).inserted:
            transfer.sources[source].wholeOnly = true
            retry(piece, fault: fault, from: nil)
        case .onceUncached where transfer.sources[source].strikes.insert(.uncached).inserted:
            transfer.sources[source].uncached = true
            retry(piece, fault: fault, from: nil)
        case .once where transfer.sources[source].strikes.insert(.again).inserted:
            retry(piece, fault: fault, from: nil)
        case .onceWithoutRange, .onceUncached, .once, .againFromOriginal, .nextSource:
            leaveSource(piece, fault: fault, chain: chain)
        case .fail, .joinOther: fail(piece, fault: fault)
        }
    }

    /// New **bytes** since the last failure that make it the first one again. What is merely too slow brings some, too.
    private func leastProgress(despite fault: Fault) -> UInt64 {
        guard fault.kind == .slow else { return configuration.retry.progress }
        let slow = Double(configuration.speedLimit) * (configuration.speedTime / .seconds(1))
        return max(configuration.retry.progress, UInt64(exactly: slow.rounded(.up)) ?? .max)
    }

    /// Times in a row that a fresh redirect is asked for when its target refuses: once for a link that has expired,
    /// once for clocks and caches. A target that refuses a third time does so for a reason.
    private static let mostRefusals = 2

    /// A chain to go on with, unless its end has expired (S74).
    private func fresh(_ chain: RedirectChain) -> RedirectChain? {
        guard let end = LinkExpiry.ofURL(chain.current), chain.hasMoved else { return chain }
        return end > configuration.clock.unixTime() ? chain : nil
    }

    /// How long whoever has failed at a host waits before the next try there, see ``HostBackoff``.
    private func backOff(at origin: Origin, _ times: Int) -> Duration {
        let host = host(for: origin)
        let policy = configuration.retry
        let time = host.backoff.failed(times, now: now, policy: policy, random: configuration.random)
        if host.backoff.isShut { closeGate(of: host, until: host.backoff.until) }
        return time - now
    }

    /// Asks again after a wait; `nil` for one of the piece's own, where the fault says nothing about the host's health.
    private func retry(
        _ piece: Piece,
        fault: Fault,
        from chain: RedirectChain?,
        after time: Duration? = nil
    ) {
        piece.failures += 1
        guard piece.failures < configuration.retry.attempts else { return fail(piece, fault: fault) }
        piece.chain = chain
        let policy = configuration.retry
        let wait = time ?? policy.wait(failures: piece.failures, random: configuration.random())
        announceRetry(piece, fault, wait)
        piece.state = .waiting
        piece.dueAt = now + wait
        timers.insert(Timer(at: now + wait, action: .requeue(piece, ticket: piece.ticket)))
    }

    private func announceRetry(_ piece: Piece, _ fault: Fault, _ wait: Duration) {
        configuration.events(
            .retrying(
                piece.transfer.id,
                url: SyncModel.redacted(url: piece.transfer.lastURL),
                reason: fault.detail,
                attempt: piece.failures + 1,
                after: wait
            )
        )
    }

    /// Another source at once if there is one that is not set back; else this one after a wait.
    private func retryElsewhereOrLater(_ piece: Piece, fault: Fault, chain: RedirectChain) {
        let sources = piece.transfer.sources
        let hasOther = sources.indices.contains { index in
            index != piece.sourceIndex && !sources[index].isSpent
                && !standings.isSetBack(sources[index].url.text, now: now)
                && hosts[sources[index].url.origin]?.gate == nil
        }
        if sources.count > 1 { setBack(piece, fault: fault, chain: chain) }
        if hasOther {
            piece.failures += 1
            guard piece.failures < configuration.retry.attempts else { return fail(piece, fault: fault) }
            piece.chain = nil
            return enqueue(piece, isUrgent: true)
        }
        guard let seconds = fault.retryAfter else {
            host(for: chain.current.origin).lastFault = fault
            let wait = backOff(at: chain.current.origin, piece.failures + 1)
            return retry(piece, fault: fault, from: fresh(chain), after: wait)
        }

        // The server named a time: nobody else bothers it before then either.
        piece.failures += 1
        guard piece.failures < configuration.retry.attempts else { return fail(piece, fault: fault) }
        let wait = configuration.retry.wait(retryAfter: seconds)
        announceRetry(piece, fault, wait)
        piece.chain = chain
        let host = host(for: chain.current.origin)
        closeGate(of: host, until: now + wait)
        if let since = host.silentSince { host.silentSince = max(since, now + wait) }
        enqueue(piece, isUrgent: true)
    }

    /// Nothing was reached, or only somebody who stands before it. That is no attempt: patience and the deadline alone
    /// end the waiting (S51).
    private func waitForConnectivity(_ piece: Piece, fault: Fault, chain: RedirectChain) {
        // Whoever leads to a log-in page is asked again, not the page.
        let isPortal = fault.kind == .captivePortal
        let host = host(for: isPortal ? chain.entry.origin : chain.current.origin)
        let isKnown = host.gate.map { $0 > now } ?? false
        host.lastFault = fault
        // Without patience there is no gate either: whoever else waits for this host finds out at once.
        guard !isOutOfPatience(piece.transfer) else { return giveUp(piece.transfer) }
        if !isKnown {
            host.connectivityFailures += 1
            let wait = configuration.retry.connectivityWait(
                failures: host.connectivityFailures,
                random: configuration.random()
            )
            closeGate(of: host, until: now + max(wait, .milliseconds(10)))
        }
        if piece.transfer.sources.count > 1 {
            setBack(piece, fault: fault, chain: chain)
        } else {
            configuration.events(
                .waitingForConnectivity(
                    piece.transfer.id,
                    url: redacted(chain.current),
                    reason: fault.detail,
                    after: max(.zero, (host.gate ?? now) - now),
                    patience: patienceLeft(with: host)
                )
            )
        }
        piece.chain = nil
        enqueue(piece, isUrgent: true)
    }

    private func leaveSource(_ piece: Piece, fault: Fault, chain: RedirectChain) {
        let transfer = piece.transfer
        if fault.kind == .noRanges {
            standings.setBack(chain.original.text, until: now + configuration.setBack, now: now)
        } else {
            transfer.sources[piece.sourceIndex].isSpent = true
            setBack(piece, fault: fault, chain: chain)
        }
        guard transfer.sources.contains(where: { !$0.isSpent }) else { return fail(piece, fault: fault) }
        piece.chain = nil
        enqueue(piece, isUrgent: true)
    }

    private func setBack(_ piece: Piece, fault: Fault, chain: RedirectChain) {
        standings.setBack(chain.original.text, until: now + configuration.setBack, now: now)
        standings[chain.original.origin].addFailure()
        // With one source there is nothing to prefer: the failure itself tells what happened.
        guard piece.transfer.sources.count > 1 else { return }
        configuration.events(
            .sourceSetBack(piece.transfer.id, url: redacted(chain.original), reason: fault.detail)
        )
    }

    private func fail(_ piece: Piece, fault: Fault) {
        abandon(piece.transfer, code: fault.code, detail: fault.told, cause: fault.cause)
    }
}

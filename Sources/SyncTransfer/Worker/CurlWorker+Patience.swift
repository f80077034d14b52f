import SyncCurl
import SyncModel
import SyncPlugins

/// Ends what waits for servers that give nothing, see ``Patience``. A host is looked at by one timer, whatever is asked
/// of it; nothing here is done for each byte.
extension CurlWorker {
    private var limit: Duration? { configuration.patience.map { hasContact ? $0.silence : $0.firstContact } }

    /// A host is about to be asked.
    func watchSilence(of host: HostState) {
        guard let patience = configuration.patience, let limit else { return }
        // Whoever was not asked for long was not silent.
        let idle = now - max(host.idleSince, host.backoff.until)
        let wasIdle = host.running == 0 && idle >= max(patience.firstContact, .seconds(1))
        if host.silentSince == nil || wasIdle { host.silentSince = now }
        guard !host.isWatched, let since = host.silentSince else { return }
        host.isWatched = true
        timers.insert(Timer(at: max(now, since + limit), action: .patience(host)))
    }

    /// A host has given some of what it was asked for.
    func gaveSomething(_ host: HostState) {
        hasContact = true
        host.backoff.succeeded()
        host.silentSince = host.running > 0 ? now : nil
    }

    /// An exchange has ended: what its end says about who answers there.
    func noteAnswer(of exchange: Exchange, _ fault: Fault?) {
        let host = exchange.host
        if exchange.verdict == .redirect {
            // Where a log-in page is led to, a redirect is no answer.
            if !host.isOutOfReach { host.silentSince = host.running > 0 ? now : nil }
        } else if exchange.isAccepted, fault == nil || exchange.bodyBytes > 0 {
            gaveSomething(host)
            if exchange.plan.chain.hops > 0, let entry = hosts[exchange.plan.chain.entry.origin] {
                wasReached(entry, byAnswer: true)
                entry.silentSince = entry.running > 0 ? now : nil
            }
        } else if exchange.isAnswered, let fault, fault.kind != .captivePortal {
            hasContact = true
            // A server in trouble gives nothing; any other answer is its last word.
            if RetryTable.remedy(for: fault.kind, redirected: false) != .again { host.silentSince = nil }
        }
    }

    /// A host's time may be up.
    func lookAtSilence(of host: HostState) {
        host.isWatched = false
        guard let limit, let since = host.silentSince else { return }
        guard since + limit <= now else {
            host.isWatched = true
            timers.insert(Timer(at: since + limit, action: .patience(host)))
            return
        }
        for transfer in Array(transfers.values) where isOutOfPatience(transfer) { giveUp(transfer) }
    }

    /// Whether all that could bring a transfer have given nothing for as long as anybody waits.
    func isOutOfPatience(_ transfer: Transfer) -> Bool {
        guard configuration.patience != nil else { return false }
        return transfer.sources.allSatisfy { source in
            source.isSpent || source.asked.map(isSilent) == true || isSilent(entry(of: source).origin)
        }
    }

    /// When a host's time is up, from now; `nil` for never.
    func patienceLeft(with host: HostState) -> Duration? {
        guard let limit, let since = host.silentSince else { return nil }
        return max(.zero, since + limit - now)
    }

    private func isSilent(_ origin: Origin) -> Bool {
        guard let limit, let since = hosts[origin]?.silentSince else { return false }
        return now - since >= limit
    }

    /// The URL that the first request for a source goes to.
    private func entry(of source: Source) -> CurlURL {
        source.resolution?.replacement?.url ?? rules.apply(to: source.url)?.url ?? source.url
    }

    /// Nobody waits any longer for what brings a transfer.
    func giveUp(_ transfer: Transfer) {
        let fault = lastFault(of: transfer)
        let tried = transfer.sources.filter { !$0.isSpent }.map { $0.asked ?? entry(of: $0).origin }
        var names: [String] = []
        for origin in tried where !names.contains(origin.description) { names.append(origin.description) }
        let time = (limit ?? .zero).components.seconds
        let what = fault.map { $0.kind == .captivePortal ? $0.told : $0.detail } ?? "no answer"
        let shown = names.prefix(3).joined(separator: ", ") + (names.count > 3 ? ", …" : "")
        abandon(
            transfer,
            code: fault?.code ?? .timedOut,
            detail: time > 0 ? "\(what); nothing came from \(shown) for \(time) s" : what,
            cause: fault?.cause
        )
    }

    /// What kept a transfer last.
    func lastFault(of transfer: Transfer) -> Fault? {
        transfer.pieces.lazy.compactMap(\.lastFault).first
            ?? transfer.pieces.first.flatMap { hosts[route(of: $0).current.origin]?.lastFault }
    }
}

import CCurl
import SyncModel
import SyncPlugins
import SyncSystem

/// The statuses of unfinished transfers.
extension Dispatcher {
    private static let mostLookedAt = 4096
    /// A connection without a byte for this long has stalled.
    private static let stall: Duration = .seconds(5)

    /// Transfers with running requests first, then some of the others.
    func statuses(limit: Int, at time: WallTime) -> CurlTransport.Statuses {
        var told: [RequestStatus] = []
        var seen: Set<TransferID> = []
        for exchange in pool.running.values {
            for piece in exchange.pieces where told.count < limit && seen.insert(piece.transfer.id).inserted {
                told.append(status(of: piece.transfer, at: time))
            }
        }
        // There may be a hundred thousand transfers; these are enough for a display.
        for (id, transfer) in transfers.prefix(Self.mostLookedAt) where told.count < limit && !seen.contains(id) {
            told.append(status(of: transfer, at: time))
        }
        told.sort { ($0.state.rank, $0.transfer) < ($1.state.rank, $1.transfer) }
        return (told, transfers.count - min(told.count, transfers.count))
    }

    private func status(of transfer: Transfer, at time: WallTime) -> RequestStatus {
        var (best, lead): (RequestStatus?, Piece?) = (nil, nil)
        for piece in transfer.pieces where piece.state != .ended {
            let status = status(of: piece, at: time)
            if let best, best.state.rank <= status.state.rank { continue }
            (best, lead) = (status, piece)
        }
        var status = best ?? blank(transfer, at: time)
        status.received = transfer.pieces.reduce(0) { $0 &+ ($1.position - min($1.start, $1.position)) }
        if transfer.request.isFirstRange, let end = lead?.end {
            status.range = [lead?.start ?? 0, max(lead?.start ?? 0, end)]
        } else {
            status.range = transfer.request.range?.bounds
        }
        if status.range == nil, let end = transfer.request.objectSize ?? lead?.end { status.range = [0, end] }
        return status
    }

    private func blank(_ transfer: Transfer, at time: WallTime) -> RequestStatus {
        let url = transfer.sources[0].url
        return RequestStatus(
            transfer: transfer.id.rawValue, original: redacted(url), source: url.origin.description,
            attempts: configuration.retry.attempts, since: time)
    }

    private func status(of piece: Piece, at time: WallTime) -> RequestStatus {
        let original = piece.source.url
        let current = piece.chain?.current ?? router.rewritten(original)
        let since = piece.since ?? now
        piece.since = since
        var status = blank(piece.transfer, at: time)
        status.original = redacted(original)
        status.current = redacted(current)
        status.source = current.origin.description
        status.hops = piece.trail.map { RequestStatus.Hop(from: $0.from, to: $0.to, reason: $0.reason) }
        status.attempt = piece.machine.failures + 1
        status.since = time.moved(by: since - now)
        switch piece.state {
        case .queued, .parked, .ended: describeQueued(current.origin, &status, at: time)
        case .waiting(.until(let due)) where due > now:
            status.state = .waiting
            status.until = time.moved(by: due - now)
            status.reason = piece.machine.lastFault?.detail
        case .waiting(.record): status.state = .queued
        // Waits for a resolver or a scout.
        case .waiting: status.state = resolving.isOpen ? .resolving : .queued
        case .running(let id): if let exchange = pool.running[id] { describe(exchange, &status, at: time) }
        }
        return status
    }

    private func describeQueued(_ origin: Origin, _ status: inout RequestStatus, at time: WallTime) {
        guard let host = hosts[origin] else { return }
        if let due = host.notBefore, due > now {
            status.state = .waiting
            status.until = time.moved(by: due - now)
            // A pause that the server asked for is not silence.
            if let since = host.silence.since, since < now { status.since = time.moved(by: since - now) }
            status.reason = host.lastFault?.detail ?? Self.pause
        } else if host.credential.isAsked {
            status.reason = "waiting for credentials"
        } else if host.running > 0 {
            status.reason = "behind \(host.running) at \(origin)"
        } else if !pool.running.isEmpty {
            status.reason = "behind \(pool.running.count) at other servers"
        }
    }

    private func describe(_ exchange: Exchange, _ status: inout RequestStatus, at time: WallTime) {
        status.since = time.moved(by: exchange.plan.startedAt - now)
        let silence = now - exchange.activeAt
        if exchange.isConnected, silence >= Self.stall, !exchange.isPaused, !exchange.isThrottled {
            status.state = .stalled
            status.since = time.moved(by: exchange.activeAt - now)
        } else if exchange.isAnswered {
            status.state = .receiving
        } else {
            let isResolved = exchange.isConnected || exchange.easy.offset(CURLINFO_NAMELOOKUP_TIME_T) > 0
            status.state = isResolved ? .connecting : .resolving
        }
    }
}

extension Range<UInt64> {
    /// As ``RequestStatus/range`` has it.
    var bounds: [UInt64] { [lowerBound, upperBound] }
}

extension RequestState {
    /// Lower ranks come first.
    fileprivate var rank: Int {
        switch self {
        case .receiving: 0
        case .stalled: 1
        case .connecting: 2
        case .resolving: 3
        case .waiting: 4
        case .queued: 5
        }
    }
}

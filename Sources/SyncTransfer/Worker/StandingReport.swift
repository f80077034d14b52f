import CCurl
import SyncCurl
import SyncModel
import SyncPlugins

/// What transfers are at, for whoever asks.
struct StandingReport {
    let transfers: [TransferID: Transfer]
    let running: [ExchangeID: Exchange]
    let hosts: [Origin: HostState]
    let router: Router
    /// Whether resolvers may be what a piece waits for.
    let hasResolvers: Bool
    /// Attempts that a transfer has.
    let attempts: Int
    let now: Duration

    private static let mostLookedAt = 4096
    /// Without a byte for so long a connection that is there stalls.
    private static let stall: Duration = .seconds(5)

    /// Those on the wire first, then some of the others.
    func told(limit: Int) -> CurlTransport.Standing {
        var told: [TransferStanding] = []
        var seen: Set<TransferID> = []
        for exchange in running.values {
            for piece in exchange.pieces where told.count < limit && seen.insert(piece.transfer.id).inserted {
                told.append(standing(of: piece.transfer))
            }
        }
        // A hundred thousand wait at times: those that are looked at are enough for people.
        for (id, transfer) in transfers.prefix(Self.mostLookedAt)
        where told.count < limit && !seen.contains(id) {
            told.append(standing(of: transfer))
        }
        told.sort { ($0.state.rank, $0.id.rawValue) < ($1.state.rank, $1.id.rawValue) }
        return CurlTransport.Standing(
            transfers: told,
            more: transfers.count - min(told.count, transfers.count)
        )
    }

    private func standing(of transfer: Transfer) -> TransferStanding {
        var (best, lead): (TransferStanding?, Piece?) = (nil, nil)
        for piece in transfer.pieces where piece.state != .ended {
            let standing = standing(of: piece)
            if let best, best.state.rank <= standing.state.rank { continue }
            (best, lead) = (standing, piece)
        }
        var standing = best ?? blank(transfer)
        standing.received = transfer.pieces.reduce(0) { $0 &+ ($1.position - min($1.start, $1.position)) }
        standing.range = transfer.request.range
        if standing.range == nil, let end = transfer.request.objectSize ?? lead?.end {
            standing.range = 0..<end
        }
        return standing
    }

    private func blank(_ transfer: Transfer) -> TransferStanding {
        let url = transfer.sources[0].url
        return TransferStanding(
            id: transfer.id,
            original: redacted(url),
            source: url.origin.description,
            attempts: attempts
        )
    }

    private func standing(of piece: Piece) -> TransferStanding {
        let original = piece.source.url
        let current = piece.chain?.current ?? router.rewritten(original)?.url ?? original
        let since = piece.since ?? now
        piece.since = since
        var standing = blank(piece.transfer)
        standing.original = redacted(original)
        standing.current = redacted(current)
        standing.source = current.origin.description
        standing.hops = piece.trail
        standing.attempt = piece.life.failures + 1
        standing.age = now - since
        switch piece.state {
        case .queued, .parked, .ended: describeQueued(current.origin, &standing)
        case .waiting(.until(let due)) where due > now:
            standing.state = .waiting
            standing.wait = due - now
            standing.reason = piece.life.lastFault?.detail
        // A resolver thinks, or a scout is under way.
        case .waiting: standing.state = hasResolvers ? .resolving : .queued
        case .running(let id):
            if let exchange = running[id] { describe(exchange, &standing) }
        }
        return standing
    }

    private func describeQueued(_ origin: Origin, _ standing: inout TransferStanding) {
        guard let host = hosts[origin] else { return }
        if let time = host.notBefore, time > now {
            standing.state = .waiting
            standing.wait = time - now
            // During a pause that the server asked for, the silence begins only at its end.
            if let since = host.silence.since, since < now { standing.age = now - since }
            standing.reason = host.lastFault?.detail ?? "the server asks for a pause"
        } else if host.credential.isAsked {
            standing.reason = "asks for credentials"
        } else if host.running > 0 {
            standing.reason = "behind \(host.running) at \(origin)"
        } else if !running.isEmpty {
            standing.reason = "behind \(running.count) at other servers"
        }
    }

    private func describe(_ exchange: Exchange, _ standing: inout TransferStanding) {
        standing.age = now - exchange.plan.startedAt
        let silence = now - exchange.activeAt
        if exchange.isConnected, silence >= Self.stall, !exchange.isPaused, !exchange.isThrottled {
            standing.state = .stalled
            standing.age = silence
        } else if exchange.isAnswered {
            standing.state = .receiving
        } else {
            let isResolved = exchange.isConnected || exchange.easy.offset(CURLINFO_NAMELOOKUP_TIME_T) > 0
            standing.state = isResolved ? .connecting : .resolving
        }
    }
}

extension RequestState {
    /// What is told first.
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

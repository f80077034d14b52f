import CCurl
import SyncCurl
import SyncModel
import SyncPlugins

/// Why a piece goes from one URL to the next.
enum HopReason {
    /// Another of the transfer's URLs.
    case mirror
    /// A rule or a resolver of the user's.
    case rewrite(TransferEvent.Rewriter)
    /// An answer with this status.
    case redirect(Int)
    /// What an answer with this status taught an earlier request.
    case memory(Int)

    /// As ``TransferStanding/Hop/reason``.
    var words: String {
        switch self {
        case .mirror: "mirror"
        case .rewrite(.rule(let place)): "rewrite, rule \(place)"
        case .rewrite(.resolver(let name)): "rewrite, plugin \(escaped(name))"
        case .redirect(let status): "redirect \(status)"
        case .memory(let status): "redirect \(status), remembered"
        }
    }
}

// What the worker says of its transfers: each hop before the next request, and on request where all of them are.
extension CurlWorker {
    /// Tells a hop, and keeps it for whoever asks where the piece is.
    func tell(_ reason: HopReason, from: CurlURL, to: CurlURL, of piece: Piece, hop: Int) {
        let id = piece.transfer.id
        let (from, to) = (redacted(from), redacted(to))
        piece.trail.append(TransferStanding.Hop(from: from, to: to, reason: reason.words))
        switch reason {
        case .mirror: configuration.events(.mirrored(id, from: from, to: to))
        case .rewrite(let by): configuration.events(.rewritten(id, from: from, to: to, by: by, hop: hop))
        case .redirect(let status), .memory(let status):
            configuration.events(.redirected(id, status: status, from: from, to: to, hop: hop))
        }
    }

    /// What transfers are at: those on the wire first, then some of the others.
    func describe(limit: Int) -> CurlTransport.Standing {
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

    private static let mostLookedAt = 4096
    /// Without a byte for so long a connection that is there stalls.
    private static let stall: Duration = .seconds(5)

    private func standing(of transfer: Transfer) -> TransferStanding {
        var (best, lead): (TransferStanding?, Piece?) = (nil, nil)
        for piece in transfer.pieces {
            if case .ended = piece.state { continue }
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
            attempts: configuration.retry.attempts
        )
    }

    private func standing(of piece: Piece) -> TransferStanding {
        let transfer = piece.transfer
        let original = transfer.sources[piece.sourceIndex].url
        let current = piece.chain?.current ?? rules.apply(to: original)?.url ?? original
        let since = piece.since ?? now
        piece.since = since
        var standing = blank(transfer)
        standing.original = redacted(original)
        standing.current = redacted(current)
        standing.source = current.origin.description
        standing.hops = piece.trail
        standing.attempt = piece.failures + 1
        standing.age = now - since
        switch piece.state {
        case .queued, .parked, .ended: describeQueued(current.origin, &standing)
        case .waiting:
            guard let due = piece.dueAt, due > now else {
                // A resolver thinks, or a scout is under way.
                standing.state = resolvers.isEmpty ? .queued : .resolving
                break
            }
            standing.state = .waiting
            standing.wait = due - now
            standing.reason = piece.lastFault?.detail
        case .running(let exchange): describe(exchange, &standing)
        }
        return standing
    }

    private func describeQueued(_ origin: Origin, _ standing: inout TransferStanding) {
        guard let host = hosts[origin] else { return }
        if let gate = host.gate, gate > now {
            standing.state = .waiting
            standing.wait = gate - now
            standing.age = now - (host.silentSince ?? now - standing.age)
            standing.reason = host.lastFault?.detail ?? "the server asks for a pause"
        } else if case .asking = host.credential.state {
            standing.reason = "asks for credentials"
        } else if host.running > 0 {
            standing.reason = "behind \(host.running) at \(origin)"
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
            var time: curl_off_t = 0
            let isResolved =
                exchange.isConnected
                || sa_curl_get_offset(exchange.easy.raw, CURLINFO_NAMELOOKUP_TIME_T, &time) == CURLE_OK
                    && time > 0
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

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

    /// As ``TransferStatus/Hop/reason``.
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

/// Announces what is about to happen to transfers, without secrets.
struct Announcer {
    let events: @Sendable (TransferEvent) -> Void

    /// Announces a hop, and keeps it for ``TransferStatus``.
    func hop(_ reason: HopReason, from: CurlURL, to: CurlURL, of piece: Piece, _ number: Int) {
        let id = piece.transfer.id
        let (from, to) = (redacted(from), redacted(to))
        piece.trail.append(TransferStatus.Hop(from: from, to: to, reason: reason.words))
        piece.hasNewHop = true
        switch reason {
        case .mirror: events(.mirrored(id, from: from, to: to))
        case .rewrite(let by): events(.rewritten(id, from: from, to: to, by: by, hop: number))
        case .redirect(let status), .memory(let status):
            events(.redirected(id, status: status, from: from, to: to, hop: number))
        }
    }

    /// Announces the hops that lead to the first request of a chain: another source, a rule, a resolver, memory.
    func beginning(of chain: RedirectChain, for piece: Piece, _ router: Router) {
        piece.trail = []
        let asked = piece.askedSource ?? 0
        if asked != piece.sourceIndex {
            hop(.mirror, from: piece.transfer.sources[asked].url, to: chain.original, of: piece, 0)
        }
        piece.askedSource = piece.sourceIndex
        let byRule = router.rewritten(chain.original)
        if let (target, rule) = byRule { hop(.rewrite(.rule(rule)), from: chain.original, to: target, of: piece, 0) }
        if let replacement = piece.source.resolution?.replacement, replacement.url == chain.entry {
            let by = TransferEvent.Rewriter.resolver(replacement.resolver)
            hop(.rewrite(by), from: byRule?.url ?? chain.original, to: replacement.url, of: piece, 0)
        }
        if chain.isRecalled, let status = chain.firstStatus {
            hop(.memory(status), from: chain.entry, to: chain.current, of: piece, 1)
        }
    }

    /// Announces once that a request of the transfer is about to go out.
    func asking(for transfer: Transfer) {
        guard !transfer.isTold else { return }
        transfer.isTold = true
        events(.asked(transfer.id))
    }

    func retry(of piece: Piece, _ fault: Fault, after wait: Duration) {
        piece.transfer.isTold = false
        events(
            .retrying(
                piece.transfer.id, url: SyncModel.redacted(url: piece.transfer.lastURL), reason: fault.detail,
                attempt: piece.life.failures + 1, after: wait))
    }

    func waiting(_ piece: Piece, _ fault: Fault, at url: CurlURL, after wait: Duration, patience: Duration?) {
        piece.transfer.isTold = false
        events(
            .waitingForConnectivity(
                piece.transfer.id, url: redacted(url), reason: fault.detail, after: wait, patience: patience))
    }

    func penalty(_ piece: Piece, _ fault: Fault, of source: CurlURL) {
        events(.sourcePenalised(piece.transfer.id, url: redacted(source), reason: fault.detail))
    }
}

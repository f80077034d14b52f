import SyncCurl
import SyncPlugins

/// Objects that a server gives only whole, and who still wants some of them.
///
/// A server without ranges must not cost the object once for each span of it: one body serves every piece that
/// wants something behind its current offset; the others wait for the next.
struct WholeObjects {
    /// URLs that answered 200 to a range.
    private var rangeless: Set<String> = []
    private var bodies: [String: Exchange] = [:]
    private var parked: [String: [Piece]] = [:]
    /// Open pieces that want a range, by each of their sources' URLs.
    private var wanting: [String: [ObjectIdentifier: Piece]] = [:]

    /// Whether the server of a URL gives whole objects only.
    func isKnown(_ url: String) -> Bool { rangeless.contains(url) }

    mutating func add(_ piece: Piece) {
        for source in piece.transfer.sources {
            wanting[source.url.text, default: [:]][ObjectIdentifier(piece)] = piece
        }
    }

    mutating func forget(_ transfer: Transfer) {
        for piece in transfer.pieces {
            for source in transfer.sources {
                let url = source.url.text
                wanting[url]?[ObjectIdentifier(piece)] = nil
                if wanting[url]?.isEmpty == true { wanting[url] = nil }
            }
        }
    }

    /// A request without a range goes out.
    mutating func begin(_ exchange: Exchange, of url: String) {
        if rangeless.count >= 4096 { rangeless = [] }  // Learnt again at the price of one answer each.
        rangeless.insert(url)
        bodies[url] = exchange
    }

    /// An answer has the whole object. Called inside libcurl, so no other handle is touched.
    ///
    /// When a range was asked, everyone who waits for a range of the object is served from this body. When
    /// another exchange has the object already, or too much would be wasted while others have ranges, the
    /// exchange gets a fault.
    ///
    /// - Parameter isHealthy: Whether a source is not asked only after the others.
    mutating func bodyBegins(_ exchange: Exchange, isHealthy: (String) -> Bool) {
        let url = exchange.plan.chain.original.text
        let isRefusal = exchange.plan.question.first != nil && !exchange.plan.isBoundToVersion
        guard let piece = exchange.pieces.first, bodies[url] === exchange || isRefusal else { return }
        if let other = bodies[url], other !== exchange {
            exchange.fault = Fault(.superseded, "the whole object is coming already")
            return
        }
        if !piece.acceptsWaste, Self.isWasteful(piece), hasOtherSource(piece, isHealthy) {
            piece.acceptsWaste = true
            exchange.fault = Fault(.noRanges, "the server ignores ranges")
            return
        }
        begin(exchange, of: url)
        for other in wanting[url].map({ Array($0.values) }) ?? [] {
            switch other.state {
            case .queued, .waiting, .parked: serve(other, by: exchange, url: url)
            case .running, .ended: break
            }
        }
    }

    /// Much more to skip than to use: four times as much, and beyond a few megabytes.
    private static func isWasteful(_ piece: Piece) -> Bool {
        let (quadruple, overflow) = (piece.remaining ?? 0).multipliedReportingOverflow(by: 4)
        return !overflow && piece.position > max(quadruple, 4 << 20)
    }

    /// Whether a piece can be brought by a source that may have ranges.
    private func hasOtherSource(_ piece: Piece, _ isHealthy: (String) -> Bool) -> Bool {
        let sources = piece.transfer.sources
        return sources.indices.contains { index in
            let url = sources[index].url.text
            return index != piece.sourceIndex && !sources[index].isSpent && !isKnown(url) && isHealthy(url)
        }
    }

    /// Serves a piece from a body under way, if the server of its source gives whole objects only.
    ///
    /// - Returns: `false` when the piece has to ask for itself.
    mutating func join(_ piece: Piece) -> Bool {
        guard !bodies.isEmpty else { return false }
        let url = piece.source.url.text
        guard let exchange = bodies[url], piece.transfer.request.range != nil || piece.position > 0
        else { return false }
        if exchange.fault == nil, !exchange.isServed, exchange.offset <= piece.position {
            serve(piece, by: exchange, url: url)
        } else {
            piece.move(to: .parked)
            parked[url, default: []].append(piece)
        }
        return true
    }

    private func serve(_ piece: Piece, by exchange: Exchange, url: String) {
        let sources = piece.transfer.sources
        if let index = sources.indices.first(where: { sources[$0].url.text == url }) {
            piece.sourceIndex = index
        }
        piece.chain = exchange.plan.chain
        piece.trail = exchange.pieces.first?.trail ?? piece.trail
        exchange.attach(piece)
    }

    /// A body has ended.
    ///
    /// - Returns: Whoever it could not serve.
    mutating func end(_ exchange: Exchange) -> [Piece] {
        let url = exchange.plan.chain.original.text
        guard bodies[url] === exchange else { return [] }
        bodies[url] = nil
        return (parked.removeValue(forKey: url) ?? []).filter { $0.state == .parked }
    }
}

import SyncPlugins
import SyncSystem

/// Objects that a server sends only whole, and the pieces that want parts of them.
///
/// Without ranges, the object must not be fetched once per span. One body serves every piece that wants bytes behind
/// its current offset; the other pieces wait for the next body.
struct WholeObjects {
    /// URLs that answered 200 to a range.
    private var rangeless: Set<String> = []
    /// Running exchanges with whole objects. Some of the servers may support ranges but have not been asked for one.
    private var bodies: [String: Exchange] = [:]
    private var parked: [String: [Piece]] = [:]
    /// Open pieces that want a range, by each of their sources' URLs.
    private var wanting: [String: [ObjectIdentifier: Piece]] = [:]

    /// Whether the server of a URL is known not to support ranges.
    func isKnown(_ url: String) -> Bool { rangeless.contains(url) }

    mutating func add(_ piece: Piece) {
        for source in piece.transfer.sources { wanting[source.url.text, default: [:]][ObjectIdentifier(piece)] = piece }
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

    /// Notes a request without a range that is being sent.
    mutating func begin(_ exchange: Exchange, of url: String) {
        note(rangeless: url)
        bodies[url] = exchange
    }

    /// Notes that the server of a URL does not support ranges, or gets them wrong.
    mutating func note(rangeless url: String) {
        if rangeless.count >= 4096 { rangeless = [] }  // Learnt again for one answer each.
        rangeless.insert(url)
    }

    /// Handles an answer with the whole object. Called inside libcurl, so it touches no other handle.
    ///
    /// If a range was requested, this body serves every piece that waits for a range of the object. If another
    /// exchange already receives the object, or too much would be wasted while other sources support ranges, the
    /// exchange gets a fault.
    ///
    /// - Parameter isHealthy: Whether the source with a URL is not penalised.
    mutating func bodyBegins(_ exchange: Exchange, isHealthy: (String) -> Bool) {
        let url = exchange.plan.chain.original.text
        guard let piece = exchange.pieces.first else { return }
        if exchange.plan.question.first == nil, bodies[url] !== exchange {
            // A tail may be cut off this piece, and the server may then send that tail only with this body.
            if bodies[url] == nil, piece.sink is any SplittableSink { bodies[url] = exchange }
            return
        }
        if let version = exchange.plan.version, exchange.headers.ifRange != version {
            return answersOtherVersion(exchange, piece)
        }
        if let other = bodies[url], other !== exchange {
            note(rangeless: url)
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

    /// Handles an object that has changed, or whose servers disagree on its version. If much would have to be skipped,
    /// the rest is requested again in the new version: in the end the digest decides.
    private func answersOtherVersion(_ exchange: Exchange, _ piece: Piece) {
        guard piece.position > 4 << 20, piece.sink is any SplittableSink else { return }
        piece.ifRange = nil
        exchange.fault = Fault(.superseded, "the object has another version than before")
    }

    /// Whether much more has to be skipped than is used: four times as much, and more than 4 MiB.
    private static func isWasteful(_ piece: Piece) -> Bool {
        let (quadruple, overflow) = (piece.remaining ?? 0).multipliedReportingOverflow(by: 4)
        return !overflow && piece.position > max(quadruple, 4 << 20)
    }

    /// Whether a piece has another source that may support ranges.
    private func hasOtherSource(_ piece: Piece, _ isHealthy: (String) -> Bool) -> Bool {
        let sources = piece.transfer.sources
        return sources.indices.contains { index in
            let url = sources[index].url.text
            return index != piece.sourceIndex && !sources[index].isSpent && !isKnown(url) && isHealthy(url)
        }
    }

    /// Serves a piece from a running body if its source sends only whole objects. Returns `false` if the piece needs a
    /// request of its own.
    mutating func join(_ piece: Piece) -> Bool {
        guard !bodies.isEmpty else { return false }
        let url = piece.source.url.text
        guard isKnown(url), let exchange = bodies[url], piece.transfer.request.range != nil || piece.position > 0 else {
            return false
        }
        if exchange.fault == nil, !exchange.isServed, exchange.offset <= piece.position {
            serve(piece, by: exchange, url: url)
        } else {
            piece.take(.missed)
            parked[url, default: []].append(piece)
        }
        return true
    }

    private func serve(_ piece: Piece, by exchange: Exchange, url: String) {
        let sources = piece.transfer.sources
        if let index = sources.indices.first(where: { sources[$0].url.text == url }) { piece.sourceIndex = index }
        piece.isIndivisible = true
        piece.chain = exchange.plan.chain
        piece.trail = exchange.pieces.first?.trail ?? piece.trail
        exchange.attach(piece)
    }

    /// Ends a body; returns the pieces that it could not serve.
    mutating func end(_ exchange: Exchange) -> [Piece] {
        let url = exchange.plan.chain.original.text
        guard bodies[url] === exchange else { return [] }
        bodies[url] = nil
        return (parked.removeValue(forKey: url) ?? []).filter { $0.state == .parked }
    }
}

import SyncCurl
import SyncPlugins

extension CurlWorker {
    /// An answer has the whole object. Called inside libcurl, so no other handle is touched.
    ///
    /// When a range was asked, everyone who waits for a range of the object is served from this body. When
    /// another exchange has the object already, or too much would be wasted while others have ranges, the
    /// exchange gets a fault.
    func wholeBodyBegins(_ exchange: Exchange) {
        guard let piece = exchange.pieces.first, isSharing(exchange) || isRefusal(exchange) else { return }
        let url = exchange.plan.chain.original.text
        if let other = wholeObjects.body(of: url), other !== exchange {
            exchange.fault = Fault(.superseded, "the whole object is coming already")
            return
        }
        if !piece.acceptsWaste, isWasteful(piece), hasOtherSource(piece) {
            piece.acceptsWaste = true
            exchange.fault = Fault(.noRanges, "the server ignores ranges")
            return
        }
        wholeObjects.begin(exchange, of: url)
        for other in wholeObjects.pieces(wanting: url) {
            switch other.state {
            case .queued, .waiting, .parked: serve(other, by: exchange, url: url)
            case .running, .ended: break
            }
        }
    }

    /// Whether a range was asked for and refused.
    private func isRefusal(_ exchange: Exchange) -> Bool {
        exchange.plan.question.first != nil && !exchange.plan.isBoundToVersion
    }

    private func isSharing(_ exchange: Exchange) -> Bool {
        wholeObjects.body(of: exchange.plan.chain.original.text) === exchange
    }

    /// Much more to skip than to use: four times as much, and beyond a few megabytes.
    private func isWasteful(_ piece: Piece) -> Bool {
        let (quadruple, overflow) = (piece.remaining ?? 0).multipliedReportingOverflow(by: 4)
        return !overflow && piece.position > max(quadruple, 4 << 20)
    }

    private func hasOtherSource(_ piece: Piece) -> Bool {
        let sources = piece.transfer.sources
        return sources.indices.contains { index in
            index != piece.sourceIndex && !sources[index].isSpent
                && !wholeObjects.isKnown(sources[index].url.text)
                && !standings.isSetBack(sources[index].url.text, now: now)
        }
    }

    /// Serves a piece from a body under way, if the server of its source gives whole objects only.
    ///
    /// - Returns: `false` when the piece has to ask for itself.
    func joinWholeObject(_ piece: Piece) -> Bool {
        let url = piece.transfer.sources[piece.sourceIndex].url.text
        guard let exchange = wholeObjects.body(of: url),
            piece.transfer.request.range != nil || piece.position > 0
        else { return false }
        if exchange.fault == nil, !exchange.isServed, exchange.offset <= piece.position {
            serve(piece, by: exchange, url: url)
        } else {
            piece.leaveQueue()
            piece.state = .parked
            wholeObjects.park(piece, until: url)
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

    /// A body has ended: whoever it could not serve asks now.
    func endWholeObject(of exchange: Exchange) {
        for piece in wholeObjects.end(exchange, of: exchange.plan.chain.original.text) {
            if case .parked = piece.state { enqueue(piece) }
        }
    }
}

import SyncPlugins

extension CurlWorker {
    /// When connections idle and nothing waits, the ends of the slowest pieces are given to other connections.
    func splitSlowest() {
        guard throttle.rate == nil, startable.isEmpty else { return }
        var room = configuration.connections - running.count
        while room > 0, let (exchange, piece, sink) = slowest(), split(piece, of: exchange, sink) {
            room -= 1
        }
    }

    private func slowest() -> (Exchange, Piece, any SplittableSink)? {
        var slowest: (exchange: Exchange, piece: Piece, sink: any SplittableSink, left: Duration)?
        for exchange in running.values {
            let host = exchange.host
            guard host.running + host.queue.count < limit(of: host), let (piece, sink) = splittable(exchange),
                let left = timeLeft(exchange, piece)
            else { continue }
            if left > slowest?.left ?? Self.worthwhile { slowest = (exchange, piece, sink, left) }
        }
        return slowest.map { ($0.exchange, $0.piece, $0.sink) }
    }

    /// - Returns: `false` when the sink has no place for a cut.
    private func split(_ piece: Piece, of exchange: Exchange, _ sink: any SplittableSink) -> Bool {
        guard let end = piece.end else { return false }
        let least = configuration.minimumSplit
        let middle = piece.position + (end - piece.position) / 2
        let range = (piece.position + least)...(end - least)
        guard let (cut, tail) = sink.splitTail(near: middle, in: range), range.contains(cut) else {
            piece.isIndivisible = true
            return false
        }
        let transfer = piece.transfer
        piece.end = cut
        let other = Piece(transfer: transfer, sink: tail, start: cut, end: end)
        other.sourceIndex = piece.sourceIndex
        other.askedSource = piece.askedSource
        other.originIsPublic = piece.originIsPublic
        other.ifRange = piece.ifRange
        other.ifRangeSource = piece.ifRangeSource
        other.chain = exchange.plan.chain
        transfer.pieces.append(other)
        transfer.openPieces += 1
        wholeObjects.add(other)
        enqueue(other, isUrgent: true)
        return true
    }

    /// Whether the end of what an exchange brings could be given away, and by which sink.
    func splittable(_ exchange: Exchange) -> (Piece, any SplittableSink)? {
        guard exchange.pieces.count == 1, let piece = exchange.pieces.first, piece.fault == nil,
            !piece.isIndivisible, !exchange.isPaused, hasRanges(exchange), let remaining = piece.remaining,
            remaining / 2 >= configuration.minimumSplit, let sink = piece.sink as? any SplittableSink
        else { return nil }
        return (piece, sink)
    }

    /// Whether the server has shown, or says, that it gives ranges of this object.
    private func hasRanges(_ exchange: Exchange) -> Bool {
        let headers = exchange.headers
        return headers.status == 206 || headers.status == 200 && headers.acceptRanges?.lowercased() == "bytes"
    }

    /// - Returns: `nil` while a connection is still speeding up: its rate so far says nothing about the rest.
    private func timeLeft(_ exchange: Exchange, _ piece: Piece) -> Duration? {
        let time = now - exchange.plan.startedAt
        guard let remaining = piece.remaining, time >= Self.worthwhile else { return nil }
        let rate = Double(exchange.bodyBytes) / (time / .seconds(1))
        guard rate > 0, rate.isFinite else { return nil }
        return .seconds(Double(remaining) / rate)
    }

    /// A cut costs a new connection and what is under way behind it: some round trips, and bytes that come in vain.
    private static let worthwhile: Duration = .milliseconds(750)
}

import SyncCurl
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

    /// At the very end, when nothing waits and connections idle: what a slow one would need some round trips for goes to
    /// one that was fast, but for what it brings itself meanwhile.
    ///
    /// On a full far link the fast connections end first; those that are left have learnt how little there was for each, and
    /// need a second or more to find out that the link is theirs (BBR, draft-cardwell-iccrg-bbr-congestion-control).
    func handOver() {
        guard throttle.rate == nil, startable.isEmpty else { return }
        var room = configuration.connections - running.count
        let least = configuration.minimumSplit / 8
        for exchange in Array(running.values) where room > 0 {
            let host = exchange.host
            let patience = max(.milliseconds(200), (host.firstByte ?? .seconds(1)) * 5)
            guard host.queue.isEmpty, host.running < limit(of: host),
                let (piece, sink) = splittable(exchange, least: least),
                exchange.rate > 0, exchange.rate * 1.5 < host.bestRate,
                now - exchange.plan.startedAt >= patience,
                let end = piece.end, let remaining = piece.remaining,
                Double(remaining) / exchange.rate > patience / .seconds(1)
            else { continue }
            let share = Double(remaining) * exchange.rate / (exchange.rate + host.bestRate)
            let kept = min(max(2 * least, UInt64(share)), remaining - least)
            let range = (piece.position + least)...(end - least)
            if divide(piece, near: piece.position + kept, in: range, sink, chain: exchange.plan.chain) {
                room -= 1
            }
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
        return divide(piece, near: middle, in: range, sink, chain: exchange.plan.chain)
    }

    /// Cuts a piece before it is asked for, where its end would be waited for while other connections idle: the last
    /// pieces become ever shorter, so that all connections end together, and none has to be broken off.
    func shorten(_ piece: Piece, on host: HostState) {
        guard host.givesRanges, throttle.rate == nil, !piece.isIndivisible, let end = piece.end,
            let remaining = piece.remaining, let sink = piece.sink as? any SplittableSink,
            !wholeObjects.isKnown(piece.transfer.sources[piece.sourceIndex].url.text)
        else { return }
        let connections = UInt64(max(1, limit(of: host)))
        let unasked = host.queue.bytes.addingReportingOverflow(remaining).partialValue
        func bytes(_ count: Double) -> UInt64 { UInt64(exactly: count.rounded()) ?? .max }
        let share: UInt64
        if let rate = host.freeRates.popLast(), host.goodput > 0 {
            // Most likely it goes to the connection that has just become free.
            let part = bytes(Double(unasked) * min(1, rate / host.goodput) / 2)
            let least = max(configuration.minimumSplit, bytes(rate * (Self.shortest / .seconds(1))))
            share = max(least, min(part, bytes(rate * (Self.longest / .seconds(1)))))
        } else {
            let rate = host.goodput / Double(connections) * (Self.shortest / .seconds(1))
            share = max(configuration.minimumSplit, bytes(rate), unasked / connections / 4)
        }
        guard remaining / 2 >= share else { return }
        let range = (piece.position + configuration.minimumSplit)...(end - configuration.minimumSplit)
        _ = divide(piece, near: piece.position + share, in: range, sink, chain: piece.chain)
    }

    /// Gives the end of a piece to a piece of its own.
    private func divide(
        _ piece: Piece,
        near offset: UInt64,
        in range: ClosedRange<UInt64>,
        _ sink: any SplittableSink,
        chain: RedirectChain?
    ) -> Bool {
        guard let (cut, tail) = sink.splitTail(near: offset, in: range), range.contains(cut) else {
            piece.isIndivisible = true
            return false
        }
        let transfer = piece.transfer
        let other = Piece(transfer: transfer, sink: tail, start: cut, end: piece.end)
        piece.end = cut
        other.sourceIndex = piece.sourceIndex
        other.askedSource = piece.askedSource
        other.ifRange = piece.ifRange
        other.ifRangeSource = piece.ifRangeSource
        other.chain = chain
        other.trail = piece.trail
        transfer.pieces.append(other)
        transfer.openPieces += 1
        wholeObjects.add(other)
        enqueue(other, isUrgent: true)
        return true
    }

    /// Whether the end of what an exchange brings could be given away, and by which sink.
    func splittable(_ exchange: Exchange, least: UInt64? = nil) -> (Piece, any SplittableSink)? {
        guard exchange.pieces.count == 1, let piece = exchange.pieces.first, piece.fault == nil,
            !piece.isIndivisible, !exchange.isPaused, hasRanges(exchange), let remaining = piece.remaining,
            remaining / 2 >= least ?? configuration.minimumSplit, let sink = piece.sink as? any SplittableSink
        else { return nil }
        return (piece, sink)
    }

    /// Whether the server has shown, or says, that it gives ranges of this object.
    func hasRanges(_ exchange: Exchange) -> Bool {
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
    /// A request of its own costs its connection a round trip: the piece should take some times as long.
    private static let shortest: Duration = .milliseconds(500)
    /// Longer ones would be waited for.
    private static let longest: Duration = .milliseconds(1500)
}

import SyncPlugins
import SyncSystem

/// Cuts tails off pieces for other connections, so that all connections end together. Each tail is a piece of its own.
/// The functions return `nil` where there is no good place for a cut.
extension Dispatcher {
    /// Least **bytes** of a tail.
    private var leastTail: UInt64 { configuration.minimumSplit }

    /// A cut costs a new connection and the bytes in flight behind it. The piece must need longer than this to its end,
    /// and its rate must have been measured for as long.
    private static let worthwhile: Duration = .milliseconds(750)
    /// A request costs its connection a round trip, so a piece should take several times as long.
    private static let shortestPart: Duration = .milliseconds(500)
    /// Other connections would have to wait for pieces that take longer.
    private static let longestPart: Duration = .milliseconds(1500)

    /// **Bytes** of a part of an object larger than any span of a pack. Its parts are requested in order, so that an
    /// early part is still in memory when it is its turn to be hashed.
    private static let window: UInt64 = 32 << 20

    /// Cuts the piece that takes longest in the middle, or earlier if it is large. For when connections idle and
    /// nothing is queued.
    func cutSlowest() -> Piece? {
        var slowest: (exchange: Exchange, piece: Piece, sink: any SplittableSink, left: Double)?
        for exchange in pool.running.values {
            let host = exchange.host
            guard host.running + host.queue.count < host.limit, let (piece, sink) = splittable(exchange),
                let left = timeLeft(exchange, piece)
            else { continue }
            if left > slowest?.left ?? Self.worthwhile / .seconds(1) { slowest = (exchange, piece, sink, left) }
        }
        guard let (exchange, piece, sink, left) = slowest, let end = piece.end else { return nil }
        let remaining = end - piece.position
        let part = Self.part(of: remaining, atRate: Double(remaining) / left)
        let middle = piece.position + min(remaining / 2, part)
        let range = (piece.position + leastTail)...(end - leastTail)
        return cut(piece, sink, near: middle, in: range, exchange.plan.chain)
    }

    /// Hands the rest of a slow connection that would need several round trips for it to a fast connection, except what
    /// the slow one delivers meanwhile. For the very end, when connections idle and nothing is queued.
    ///
    /// On a full far link the fast connections end first. The others have adapted to a small share, and take a second
    /// or more to notice that the link is free (BBR, draft-cardwell-iccrg-bbr-congestion-control).
    func handOver(_ exchange: Exchange) -> Piece? {
        let (host, least) = (exchange.host, leastTail / 8)
        let patience = max(.milliseconds(200), (host.firstByte ?? .seconds(1)) * 5)
        guard host.queue.isEmpty, host.running < host.limit, let (piece, sink) = splittable(exchange, least: least),
            exchange.rate > 0, exchange.rate * 1.5 < host.load.bestRate, now - exchange.plan.startedAt >= patience,
            let end = piece.end, let remaining = piece.remaining,
            Double(remaining) / exchange.rate > patience / .seconds(1)
        else { return nil }
        let share = Double(remaining) * exchange.rate / (exchange.rate + host.load.bestRate)
        let kept = min(max(2 * least, UInt64(share)), remaining - least)
        let range = (piece.position + least)...(end - least)
        return cut(piece, sink, near: piece.position + kept, in: range, exchange.plan.chain)
    }

    /// **Bytes** of a large rest for one request: more if a request would otherwise end at once.
    private static func part(of remaining: UInt64, atRate rate: Double) -> UInt64 {
        let length = UInt64(exactly: (rate * (longestPart / .seconds(1))).rounded()) ?? .max
        return remaining > window ? max(window, length) : remaining
    }

    /// Shortens a piece that is about to be requested if idle connections would have to wait for its end. The
    /// last pieces become ever shorter, so that all connections end together and none has to be interrupted.
    func shorten(_ piece: Piece, on host: HostState) -> Piece? {
        guard host.givesRanges, !piece.isIndivisible, let end = piece.end, let remaining = piece.remaining,
            let sink = piece.sink as? any SplittableSink
        else { return nil }
        let connections = UInt64(max(1, host.limit))
        let unasked = host.queue.bytes.addingReportingOverflow(remaining).partialValue
        func bytes(_ count: Double) -> UInt64 { UInt64(exactly: count.rounded()) ?? .max }
        let share: UInt64
        if let rate = host.load.takeFreeRate(), host.load.goodput > 0 {
            // The piece most likely goes to the connection that has just become idle.
            let part = bytes(Double(unasked) * min(1, rate / host.load.goodput) / 2)
            let least = max(leastTail, bytes(rate * (Self.shortestPart / .seconds(1))))
            let length = bytes(rate * (Self.longestPart / .seconds(1)))
            // No connection waits for a part while there are plenty.
            let plenty = remaining > Self.window ? min(Self.window, unasked / connections / 4) : 0
            share = max(least, min(part, length), plenty)
        } else {
            let rate = host.load.goodput / Double(connections)
            let least = max(leastTail, bytes(rate * (Self.shortestPart / .seconds(1))), unasked / connections / 4)
            share = min(least, Self.part(of: remaining, atRate: rate))
        }
        guard remaining / 2 >= share else { return nil }
        let range = (piece.position + leastTail)...(end - leastTail)
        return cut(piece, sink, near: piece.position + share, in: range, piece.chain)
    }

    /// - Parameter chain: The chain of the tail's first request.
    private func cut(
        _ piece: Piece, _ sink: any SplittableSink, near: UInt64, in range: ClosedRange<UInt64>, _ chain: RedirectChain?
    ) -> Piece? {
        guard let (offset, tail) = sink.splitTail(near: near, in: range), range.contains(offset) else {
            piece.isIndivisible = true
            return nil
        }
        return piece.cut(at: offset, tail: tail, chain: chain)
    }

    /// The piece of an exchange whose tail could be given to another connection.
    func splittable(_ exchange: Exchange, least: UInt64? = nil) -> (Piece, any SplittableSink)? {
        guard exchange.pieces.count == 1, let piece = exchange.pieces.first, piece.fault == nil, !piece.isIndivisible,
            !exchange.isPaused, exchange.hasRanges, let remaining = piece.remaining,
            remaining / 2 >= least ?? leastTail, let sink = piece.sink as? any SplittableSink
        else { return nil }
        return (piece, sink)
    }

    /// - Returns: **Seconds** to the end of the piece; `nil` while its connection is still speeding up, since the rate
    ///   says nothing yet.
    private func timeLeft(_ exchange: Exchange, _ piece: Piece) -> Double? {
        let time = now - exchange.plan.startedAt
        guard let remaining = piece.remaining, time >= Self.worthwhile else { return nil }
        let rate = Double(exchange.bodyBytes) / (time / .seconds(1))
        return rate > 0 ? Double(remaining) / rate : nil
    }
}

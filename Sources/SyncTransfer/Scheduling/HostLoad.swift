/// The load of one host, and how many connections serve it well. Does no I/O and reads no clock.
struct HostLoad {
    private var adaptive: AdaptiveLimit
    private let ceiling: Int
    private let isAdaptive: Bool
    /// Body **bytes** since ``measuredSince``.
    private var bytes: UInt64 = 0
    private var measuredSince: Duration = .zero
    /// ``bytes`` at the last call of ``measure(running:hasMore:isFree:now:)``, and when that was.
    private var seen: (bytes: UInt64, at: Duration) = (0, .zero)
    /// **Bytes** a second at the last measurement.
    private(set) var goodput = 0.0
    /// **Bytes** a second of its best connections recently.
    private(set) var bestRate = 0.0
    /// **Bytes** a second of connections that have ended a request and are idle, the latest last.
    private var freeRates: [Double] = []
    /// Whether all connections were busy with more waiting, ever since the last measurement.
    private var wasSaturated = false

    /// - Parameter isAdaptive: Whether the number follows the goodput; else it is the ceiling.
    init(start: Int, ceiling: Int, isAdaptive: Bool) {
        adaptive = AdaptiveLimit(start: start, ceiling: ceiling)
        self.ceiling = ceiling
        self.isAdaptive = isAdaptive
    }

    /// How many connections may be open while `running` are busy.
    func connections(running: Int) -> Int {
        guard isAdaptive else { return ceiling }
        // When one connection ends, the others need seconds to use its share. One that has just become free stays if it
        // is faster than average, and a slower one ends instead (cubic's K, RFC 9438 section 4.2).
        let (limit, share) = (adaptive.limit, goodput / Double(running + 1))
        guard running >= limit, running < adaptive.fastLimit, let rate = freeRates.last, rate > share else {
            return limit
        }
        return running + 1
    }

    /// The number of connections that proved worthwhile; `nil` if it is the user's cap and that is below `initial`,
    /// since more may be better.
    func proven(initial: Int) -> Int? {
        adaptive.proven < ceiling || adaptive.proven >= initial ? adaptive.proven : nil
    }

    mutating func add(_ count: UInt64) { bytes += count }

    /// Notes the rate of a connection that has ended its request and is idle.
    mutating func noteFree(rate: Double) {
        bestRate = max(bestRate * 0.9, rate)
        freeRates.append(rate)
        if freeRates.count > ceiling { freeRates.removeFirst() }
    }

    /// The rate of the connection that became idle last, which is most likely the next one used.
    mutating func takeFreeRate() -> Double? { freeRates.popLast() }

    /// Takes a measurement once an interval.
    ///
    /// - Parameters:
    ///   - hasMore: Whether more connections would have work.
    ///   - isFree: Whether nothing but the path holds bytes back.
    /// - Returns: Whether the number of connections may have changed.
    mutating func measure(running: Int, hasMore: Bool, isFree: Bool, now: Duration) -> Bool {
        let isSaturated = running >= adaptive.limit && hasMore
        if !isSaturated { wasSaturated = false }
        if isSaturated, wasSaturated, now > seen.at {
            let new = bytes - min(seen.bytes, bytes)
            adaptive.record(goodput: Double(new) / ((now - seen.at) / .seconds(1)))
        }
        seen = (bytes, now)
        let time = now - measuredSince
        guard time >= AdaptiveLimit.interval else { return false }
        goodput = Double(bytes) / (time / .seconds(1))
        let counts = isAdaptive && wasSaturated && isFree
        if counts { adaptive.measured(goodput: goodput, now: now) }
        (bytes, seen.bytes) = (0, 0)
        measuredSince = now
        wasSaturated = isSaturated
        return counts
    }

    /// Halves the number of connections, since the server or the path objects.
    mutating func penalise(now: Duration) { adaptive.penalise(now: now) }
}

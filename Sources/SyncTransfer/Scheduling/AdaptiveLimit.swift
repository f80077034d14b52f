/// How many connections to one origin: more while goodput grows, half when the server or the path objects.
///
/// Additive increase, multiplicative decrease, as TCP shares a link (RFC 5681), with a doubling start, because a run of
/// a few seconds has no time for single steps. Does no I/O and reads no clock.
package struct AdaptiveLimit: Sendable {
    /// Connections that may be open now.
    package private(set) var limit: Int
    /// The number of connections that proved worthwhile: the next start value.
    package var proven: Int { retreat?.limit ?? before?.limit ?? limit }
    /// Connections that may be open while the additional ones are fast: during a retreat the slow ones are closed
    /// first.
    package var fastLimit: Int { retreat?.from ?? limit }
    private let ceiling: Int
    private var isDoubling = true
    /// The best recent goodput, in **bytes** a second. Without it, a doubling measured during a dip would look like a
    /// gain. The first dip comes early: connections that start together lose packets together once they have filled the
    /// path (the overshoot of slow start, RFC 9406), and deliver less for the next second.
    private var best = 0.0
    /// The highest goodput since the last measurement, in **bytes** a second.
    private var peak = 0.0
    /// Goodput and limit before the last step, in **bytes** a second; `nil` before any step.
    private var before: (goodput: Double, limit: Int)?
    /// The retreat from a useless step, by an eighth a second: when many connections leave at once, the rest need a
    /// second or more to fill the link.
    private var retreat: (from: Int, limit: Int, next: Duration)?
    /// Whether new connections are still speeding up. Until two measurements agree, they say nothing about how many are
    /// needed.
    private var isSettling = true
    /// The last measurement while settling, in **bytes** a second.
    private var last: Double?
    private var holdUntil: Duration = .zero
    private var holds = 0
    private var penalisedAt: Duration?

    /// - Parameter start: The first value, such as a remembered one; cut to 1 … `ceiling`.
    package init(start: Int, ceiling: Int) {
        limit = min(max(1, start), ceiling)
        self.ceiling = ceiling
    }

    /// Notes the goodput of a time shorter than ``interval``, as proof that the connections can deliver that much:
    /// **bytes** a second over all connections to the origin.
    package mutating func record(goodput: Double) { peak = max(goodput, peak) }

    /// Notes the goodput over one interval in which all allowed connections were busy.
    package mutating func measured(goodput: Double, now: Duration) {
        // A burst after a pause is more than the path delivers.
        best = max(goodput, min(peak, goodput * 1.1), best * Self.fading)
        peak = 0
        if retreat != nil { return stepBack(now: now) }
        guard now >= holdUntil, goodput > 0 else { return }
        if isSettling {
            defer { last = goodput }
            guard let last, goodput < last * 1.1 else { return }
            isSettling = false
        }
        last = nil
        if let before {
            let step = Double(limit - before.limit) / Double(before.limit)
            // An eighth more connections must bring 3 %, twice as many 5 %: on a lossy path a doubling brings some 8 %,
            // on a full one nothing.
            guard goodput >= before.goodput * (1 + max(0.03, step / 20)) else {
                return takeBack(before.limit, now: now)
            }
            holds = 0
            self.before = nil  // The step has proved worth it.
        }
        guard limit < ceiling else { return }
        before = (best, limit)
        limit = min(ceiling, isDoubling ? limit * 2 : limit + max(1, limit / 8))
        isSettling = true
    }

    private mutating func takeBack(_ earlier: Int, now: Duration) {
        isDoubling = false
        before = nil
        retreat = (limit, earlier, now)
        stepBack(now: now)
    }

    private mutating func stepBack(now: Duration) {
        guard let (from, earlier, next) = retreat, now >= next else { return }
        limit = max(earlier, limit - max(1, limit / 8))
        retreat = (from, earlier, now + Self.interval * 4)
        guard limit == earlier else { return }
        retreat = nil
        holds = min(holds + 1, 5)
        holdUntil = now + Self.interval * (2 << holds)  // Tried again, ever more rarely.
    }

    /// Halves the limit: the server answered 429 or 503, or a connection was reset or fell silent. Counts at most once
    /// in two intervals.
    package mutating func penalise(now: Duration) {
        if let penalisedAt, now - penalisedAt < Self.interval * 2 { return }
        penalisedAt = now
        limit = max(1, limit / 2)
        isDoubling = false
        before = nil
        retreat = nil
        best = 0
        holdUntil = now + Self.interval * 8
    }

    /// The decay of the best from one measurement to the next: half after six seconds.
    private static let fading = 0.97

    /// How long one measurement takes: several round trips of a far server.
    package static let interval: Duration = .milliseconds(250)
}

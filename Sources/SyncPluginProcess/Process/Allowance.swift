/// What may be used up at once, and comes back with time: a token bucket. Pure; times are since any start.
struct Allowance: Sendable {
    private let most: Double
    private let perSecond: Double
    private var left: Double
    private var last = Duration.zero

    /// - Parameters:
    ///   - most: Used at once.
    ///   - perSecond: Comes back each **second**.
    init(most: Int, perSecond: Int) {
        self.most = Double(most)
        self.perSecond = Double(perSecond)
        left = self.most
    }

    /// Uses some; `false`, and nothing used, when there is not so much left.
    mutating func use(_ amount: Int, at now: Duration) -> Bool {
        if now > last {
            left = min(most, left + (now - last).secondsValue * perSecond)
            last = now
        }
        guard Double(amount) <= left else { return false }
        left -= Double(amount)
        return true
    }
}

extension Duration {
    /// **Seconds**.
    var secondsValue: Double {
        Double(components.seconds) + Double(components.attoseconds) / 1_000_000_000_000_000_000
    }

    /// Whole **milliseconds**, rounded up, so that waiting for it does not end before it.
    var pollMilliseconds: Int32 {
        guard self > .zero else { return 0 }
        let (seconds, attoseconds) = components
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000)
        if overflow { return .max }
        return Int32(clamping: whole &+ attoseconds / 1_000_000_000_000_000 &+ 1)
    }
}

import SyncSystem

/// When a plugin that ended is started again, and when no more. Pure; times are since any start.
package struct RestartPolicy: Sendable {
    /// Ends within ``window`` after which it is given up.
    package var mostEnds = 5
    /// How long an end counts.
    package var window = Duration.seconds(300)
    /// From the first end to the next start; doubled for each end that counts.
    package var firstDelay = Duration.milliseconds(100)
    package var longestDelay = Duration.seconds(30)
    /// After this time one that was given up may be started again; `nil` never. For plugins that outlive a run.
    package var rest: Duration?

    private var ends: [Duration] = []
    private(set) var notBefore = Duration.zero
    private(set) var isGivenUp = false
    private var givenUpAt = Duration.zero

    package init() {}

    /// The plugin ended although nobody asked it to.
    mutating func ended(at now: Duration) {
        ends.removeAll { now - $0 > window }
        ends.append(now)
        if ends.count >= mostEnds { giveUp(at: now) }
        var delay = firstDelay
        for _ in 1..<max(1, ends.count) { delay = min(longestDelay, delay * 2) }
        notBefore = now + delay
    }

    /// It could never work: another protocol, no such program.
    mutating func giveUp(at now: Duration) {
        if !isGivenUp { givenUpAt = now }
        isGivenUp = true
    }

    /// Forgets what was, when it has been given up for long enough; says whether it did.
    mutating func recovered(at now: Duration) -> Bool {
        guard isGivenUp, let rest, givenUpAt + rest <= now else { return false }
        isGivenUp = false
        ends = []
        return true
    }
}

/// What may be used up at once, and comes back with time: a token bucket. Pure; times are since any start.
package struct Allowance: Sendable {
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
    var secondsValue: Double { self / .seconds(1) }

    /// Whole **milliseconds**, rounded up, so that waiting for it does not end before it; a day at most.
    var pollMilliseconds: Int32 { self > .zero ? Int32(clamping: min(self, .seconds(86_400)).milliseconds + 1) : 0 }
}

import SyncSystem

/// Decides when a plugin that ended is restarted, and when not. Pure; times are since any fixed start.
package struct RestartPolicy: Sendable {
    /// Number of ends within ``window`` after which it is abandoned.
    package var mostEnds = 5
    /// How long an end counts.
    package var window = Duration.seconds(300)
    /// From the first end to the next start; doubled for each further end that counts.
    package var firstDelay = Duration.milliseconds(100)
    package var longestDelay = Duration.seconds(30)
    /// After this time an abandoned plugin may be started again; `nil` for never. For plugins that outlive a run.
    package var rest: Duration?

    private var ends: [Duration] = []
    private(set) var notBefore = Duration.zero
    private(set) var isGivenUp = false
    private var givenUpAt = Duration.zero

    package init() {}

    /// Handles an unrequested end of the plugin.
    mutating func ended(at now: Duration) {
        ends.removeAll { now - $0 > window }
        ends.append(now)
        if ends.count >= mostEnds { giveUp(at: now) }
        var delay = firstDelay
        for _ in 1..<max(1, ends.count) { delay = min(longestDelay, delay * 2) }
        notBefore = now + delay
    }

    /// Abandons a plugin, for good reason: too many ends, another protocol, no such program.
    mutating func giveUp(at now: Duration) {
        if !isGivenUp { givenUpAt = now }
        isGivenUp = true
    }

    /// Resets the policy if the plugin has been abandoned for long enough; returns whether it did.
    mutating func recovered(at now: Duration) -> Bool {
        guard isGivenUp, let rest, givenUpAt + rest <= now else { return false }
        isGivenUp = false
        ends = []
        return true
    }
}

/// A token bucket: an amount that may be used at once and is refilled over time. Pure; times are since any fixed start.
package struct Allowance: Sendable {
    private let most: Double
    private let perSecond: Double
    private var left: Double
    private var last = Duration.zero

    /// - Parameters:
    ///   - most: Capacity.
    ///   - perSecond: Refill per **second**.
    init(most: Int, perSecond: Int) {
        self.most = Double(most)
        self.perSecond = Double(perSecond)
        left = self.most
    }

    /// Uses an amount; `false`, and nothing used, if less is left.
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

    /// Whole **milliseconds**, rounded up, so that a wait does not end early; a day at most.
    var pollMilliseconds: Int32 { self > .zero ? Int32(clamping: min(self, .seconds(86_400)).milliseconds + 1) : 0 }
}

/// Delays runs that hooks request, for longer each time, so that a chain of small runs does not keep a machine busy.
/// Apple's background sessions start at 60 s and double at each relaunch.
package struct LaunchLimiter: Sendable, Equatable {
    /// Delay of the next run that a hook requests, in **milliseconds**; 0 at rest.
    package private(set) var delay: Int64
    /// When the delay was last raised, in **milliseconds** since 1970; `nil` at rest.
    package private(set) var raised: Int64?

    /// The first delay, **milliseconds**.
    package static let first: Int64 = 60_000
    /// The longest delay, **milliseconds**.
    package static let longest: Int64 = 3_600_000

    /// Continues from the state of an earlier process.
    package init(delay: Int64 = 0, raised: Int64? = nil) {
        self.delay = min(max(0, delay), Self.longest)
        self.raised = raised
    }

    /// Raises the delay before a hook starts unattended.
    ///
    /// - Parameter isChained: Whether it ends a run that a hook requested: such a run has waited for the whole delay,
    ///   and the chain still continues.
    package mutating func raise(now: Int64, isChained: Bool) {
        if !isChained { relax(now: now) }
        delay = delay == 0 ? Self.first : min(delay * 2, Self.longest)
        raised = now
    }

    /// Resets the delay, because a person is present.
    package mutating func reset() {
        delay = 0
        raised = nil
    }

    /// Resets the delay if it has passed without another hook. A clock that was set back does not prolong it.
    package mutating func relax(now: Int64) {
        guard let since = raised else { return }
        if now.saturatingSubtract(since) >= delay { reset() } else if now < since { raised = now }
    }

    /// When a run that a hook requests now may start, in **milliseconds** since 1970; `nil` for at once.
    package func earliestStart(now: Int64) -> Int64? {
        var limiter = self
        limiter.relax(now: now)
        return limiter.delay == 0 ? nil : now + limiter.delay
    }
}

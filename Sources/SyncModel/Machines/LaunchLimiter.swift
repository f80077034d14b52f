/// Holds back work that hooks ask for, longer each time, so that a chain of small runs does not keep a machine busy.
/// Apple's background sessions start at 60 s and double at each relaunch.
package struct LaunchLimiter: Sendable, Equatable {
    /// How long the next run that a hook asks for waits, **milliseconds**; 0 at rest.
    package private(set) var delay: Int64
    /// When it was raised last, **milliseconds** since 1970; `nil` at rest.
    package private(set) var raised: Int64?

    /// The first delay, **milliseconds**.
    package static let first: Int64 = 60_000
    /// The longest delay, **milliseconds**.
    package static let longest: Int64 = 3_600_000

    /// Takes up where an earlier process stopped.
    package init(delay: Int64 = 0, raised: Int64? = nil) {
        self.delay = min(max(0, delay), Self.longest)
        self.raised = raised
    }

    /// A hook is about to be started, and nobody watches. Told before the hook is.
    ///
    /// - Parameter isChained: Whether it ends a run that a hook asked for: such a run has waited for the whole delay, and the
    ///   chain goes on all the same.
    package mutating func raise(now: Int64, isChained: Bool) {
        if !isChained { relax(now: now) }
        delay = delay == 0 ? Self.first : min(delay * 2, Self.longest)
        raised = now
    }

    /// A person is here.
    package mutating func reset() {
        delay = 0
        raised = nil
    }

    /// The delay has passed without another hook. A clock that went back does not prolong it.
    package mutating func relax(now: Int64) {
        guard let since = raised else { return }
        if now.saturatingSubtract(since) >= delay { reset() } else if now < since { raised = now }
    }

    /// When a run that a hook asks for now may start, **milliseconds** since 1970; `nil` for at once.
    package func earliestStart(now: Int64) -> Int64? {
        var limiter = self
        limiter.relax(now: now)
        return limiter.delay == 0 ? nil : now + limiter.delay
    }
}

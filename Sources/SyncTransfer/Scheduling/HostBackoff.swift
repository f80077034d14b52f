/// When those that have failed at one host ask again: together, after waits that double until something comes from
/// there. Pure.
package struct HostBackoff: Sendable, Equatable {
    /// Times in a row that asking again did not help.
    package private(set) var setbacks = 0
    /// Until when those wait that have failed.
    package private(set) var until: Duration = .zero

    /// Nothing has failed.
    package init() {}

    /// Whether the host has failed again after a wait: then nobody else needs to find that out meanwhile.
    package var isShut: Bool { setbacks > 1 }

    /// Notes a failure.
    ///
    /// - Parameters:
    ///   - times: How often in a row the same thing has failed; 0 when it was brought further.
    ///   - random: Uniformly distributed.
    /// - Returns: When to ask for it again.
    package mutating func failed(
        _ times: Int,
        now: Duration,
        policy: RetryPolicy,
        random: () -> UInt64
    ) -> Duration {
        if until <= now {
            setbacks += 1
            until = now + policy.wait(failures: setbacks, random: random())
        }
        guard times > setbacks else { return until }
        // It fails again and again where other things come: it has a wait of its own.
        return max(until, now + policy.wait(failures: times, random: random()))
    }

    /// Something has come.
    package mutating func succeeded() { setbacks = 0 }
}

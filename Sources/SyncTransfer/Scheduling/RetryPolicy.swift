/// How often a transfer is tried again, and after what waits. A pure schedule.
package struct RetryPolicy: Sendable, Equatable {
    /// The attempts in a row that received not one byte, or were too slow (``Pace``), before a transfer fails.
    package var attempts = 8
    /// Upper end of the first wait.
    package var base: Duration = .seconds(1)
    /// Upper end of any wait between attempts.
    package var cap: Duration = .seconds(300)
    /// Upper end of the wait for an unreachable host; short, so that its return is noticed soon.
    package var connectivityCap: Duration = .seconds(5)
    /// Longest `Retry-After` that is obeyed.
    package var retryAfterCap: Duration = .seconds(300)

    package init() {}

    /// The wait after `failures` failures in a row: full jitter, uniform in 0 … min(cap, base · 2^(failures − 1)).
    ///
    /// Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog 2015: full jitter does the least work.
    package func wait(failures: Int, random: UInt64) -> Duration {
        jittered(failures: failures, cap: cap, random: random)
    }

    /// The wait before an unreachable host is tried again.
    package func connectivityWait(failures: Int, random: UInt64) -> Duration {
        jittered(failures: failures, cap: connectivityCap, random: random)
    }

    /// The wait that a server requests with `Retry-After`, at most the cap.
    package func wait(retryAfter seconds: Int64) -> Duration { min(.seconds(max(0, seconds)), retryAfterCap) }

    private func jittered(failures: Int, cap: Duration, random: UInt64) -> Duration {
        let doublings = min(max(failures, 1) - 1, 30)
        let limit = min(cap, base * (1 << doublings))
        return limit * (Double(random >> 11) / Double(UInt64(1) << 53))  // 53 bits: exact in a Double.
    }
}

/// When failed requests to one host are retried: all together, after waits that double until the host delivers
/// something. Pure.
package struct HostBackoff: Sendable, Equatable {
    /// Rounds of retries in a row that received nothing.
    package private(set) var failedRounds = 0
    /// The time until which failed requests wait.
    package private(set) var until: Duration = .zero

    package init() {}

    /// Whether the host has failed again after a wait, so that no other request need try it now.
    package var isShut: Bool { failedRounds > 1 }

    /// Notes that a request has failed `times` times in a row, 0 if it made progress.
    ///
    /// - Returns: When to retry the request.
    package mutating func failed(_ times: Int, now: Duration, policy: RetryPolicy, random: () -> UInt64) -> Duration {
        if until <= now {
            failedRounds += 1
            until = now + policy.wait(failures: failedRounds, random: random())
        }
        guard times > failedRounds else { return until }
        // The request keeps failing where others succeed, so it gets its own wait.
        return max(until, now + policy.wait(failures: times, random: random()))
    }

    /// Notes that something was received.
    package mutating func succeeded() { failedRounds = 0 }
}

/// Whether many attempts together are fast enough: one byte is progress, but not for ever. Pure.
///
/// A transfer that keeps failing is measured once per ``TransportConfiguration/speedTime``, waits included.
package struct Pace: Sendable {
    private var start: (time: Duration, position: UInt64)
    /// Measurements in a row below the least rate.
    package private(set) var slowTimes = 0

    /// - Parameter position: The next wanted **byte** at this time.
    package init(at time: Duration, position: UInt64) { start = (time, position) }

    /// Notes the end of an attempt.
    ///
    /// - Parameters:
    ///   - least: The least **bytes** a second; 0 for no bound.
    ///   - interval: The time over which they are measured.
    package mutating func attemptEnded(position: UInt64, now: Duration, least: UInt64, over interval: Duration) {
        let time = now - start.time
        guard time >= interval else { return }
        let isSlow = Double(position - min(start.position, position)) < Double(least) * (time / .seconds(1))
        slowTimes = isSlow ? slowTimes + 1 : 0
        start = (now, position)
    }
}

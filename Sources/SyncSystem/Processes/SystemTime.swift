import CPosix

/// What time the system says it is.
package enum SystemTime {
    /// **Milliseconds** since 1970, rounded down. clock_gettime(2), CLOCK_REALTIME
    package static func milliseconds() -> Int64 {
        var now = timespec()
        guard clock_gettime(CLOCK_REALTIME, &now) == 0 else { return 0 }
        return Int64(now.tv_sec) &* 1_000 &+ Int64(now.tv_nsec) / 1_000_000
    }
}

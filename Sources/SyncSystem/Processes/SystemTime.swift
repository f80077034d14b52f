import CPosix
import SyncModel

/// The system's time.
package enum SystemTime {
    /// **Milliseconds** since 1970, rounded down. clock_gettime(2), CLOCK_REALTIME
    package static func milliseconds() -> Int64 {
        var now = timespec()
        guard clock_gettime(CLOCK_REALTIME, &now) == 0 else { return 0 }
        return Int64(now.tv_sec) &* 1_000 &+ Int64(now.tv_nsec) / 1_000_000
    }

    /// The time as file systems record it, with the same precision: **nanoseconds** since 1970. clock_gettime(2),
    /// CLOCK_REALTIME_COARSE
    package static var ofFiles: Int64 {
        var now = timespec()
        guard clock_gettime(CLOCK_REALTIME_COARSE, &now) == 0 else { return 0 }
        return Int64(now.tv_sec) &* 1_000_000_000 &+ Int64(now.tv_nsec)
    }

    /// How many **seconds** this machine's local time is ahead of UTC at **seconds** since 1970, by its current time
    /// zone: tzset(3) detects changes. 0 if unknown. localtime_r(3)
    package static func localOffset(at seconds: Int64) -> Int64 {
        tzset()
        var time = time_t(seconds)
        var parts = tm()
        guard localtime_r(&time, &parts) != nil else { return 0 }
        return Int64(parts.tm_gmtoff)
    }

    /// This machine's local time of day, `02:05:10`, at **milliseconds** since 1970.
    package static func timeOfDay(at milliseconds: Int64) -> String {
        let offset = localOffset(at: milliseconds / 1_000)
        return String(timestamp(milliseconds: milliseconds.saturatingAdd(offset * 1_000)).dropFirst(11).prefix(8))
    }
}

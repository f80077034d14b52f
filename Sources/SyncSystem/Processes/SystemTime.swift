import CPosix
import SyncModel

/// What time the system says it is.
package enum SystemTime {
    /// **Milliseconds** since 1970, rounded down. clock_gettime(2), CLOCK_REALTIME
    package static func milliseconds() -> Int64 {
        var now = timespec()
        guard clock_gettime(CLOCK_REALTIME, &now) == 0 else { return 0 }
        return Int64(now.tv_sec) &* 1_000 &+ Int64(now.tv_nsec) / 1_000_000
    }

    /// The time that file systems write, as exact as that: **nanoseconds** since 1970. clock_gettime(2), CLOCK_REALTIME_COARSE
    package static var ofFiles: Int64 {
        var now = timespec()
        guard clock_gettime(CLOCK_REALTIME_COARSE, &now) == 0 else { return 0 }
        return Int64(now.tv_sec) &* 1_000_000_000 &+ Int64(now.tv_nsec)
    }

    /// How many **seconds** this machine's clock on the wall is ahead of UTC at **seconds** since 1970, by its time zone as
    /// it is now: tzset(3) looks whether it has been changed. 0 where that is unknown. localtime_r(3)
    package static func localOffset(at seconds: Int64) -> Int64 {
        tzset()
        var time = time_t(seconds)
        var parts = tm()
        guard localtime_r(&time, &parts) != nil else { return 0 }
        return Int64(parts.tm_gmtoff)
    }

    /// What this machine's clock on the wall shows, `02:05:10`, at **milliseconds** since 1970.
    package static func timeOfDay(at milliseconds: Int64) -> String {
        let offset = localOffset(at: milliseconds / 1_000)
        return String(timestamp(milliseconds: milliseconds.saturatingAdd(offset * 1_000)).dropFirst(11).prefix(8))
    }
}

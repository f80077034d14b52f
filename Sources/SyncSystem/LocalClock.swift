import Glibc

/// What this machine's clock on the wall shows, `02:05:10`, at **milliseconds** since 1970; localtime_r(3).
package func clockTime(milliseconds: Int64) -> String {
    var time = time_t(milliseconds / 1_000)
    var parts = tm()
    tzset()
    guard localtime_r(&time, &parts) != nil else { return "" }
    return [parts.tm_hour, parts.tm_min, parts.tm_sec].map { $0 < 10 ? "0\($0)" : "\($0)" }.joined(
        separator: ":"
    )
}

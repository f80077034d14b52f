import SyncModel

/// The time of the report in the reader's time zone, and the assignment of moments to nights.
///
/// A night lasts from noon to noon and has the date of its morning.
package struct ReportClock: Sendable {
    /// **Milliseconds** since 1970.
    package let now: Int64
    private let offset: @Sendable (_ time: Int64) -> Int

    /// - Parameter offset: How many **seconds** local time is ahead of UTC at a time in **milliseconds** since 1970.
    package init(now: Int64, offset: @escaping @Sendable (_ time: Int64) -> Int) {
        (self.now, self.offset) = (now, offset)
    }

    private static let day: Int64 = 86_400_000

    private func local(_ time: Int64) -> Int64 { time.saturatingAdd(Int64(offset(time)) * 1_000) }

    /// `2026-11-21`.
    package func date(_ time: Int64) -> String { String(timestamp(milliseconds: local(time)).prefix(10)) }

    /// `02:07`.
    package func timeOfDay(_ time: Int64) -> String {
        String(timestamp(milliseconds: local(time)).dropFirst(11).prefix(5))
    }

    /// `2026-11-21 02:07`.
    package func moment(_ time: Int64) -> String { "\(date(time)) \(timeOfDay(time))" }

    /// `2026-11-21 02:07 to 02:19`, the second date only if it differs; one moment if both are in the same minute.
    package func span(_ from: Int64, _ to: Int64) -> String {
        if moment(from) == moment(to) { return moment(from) }
        return "\(moment(from)) to \(date(from) == date(to) ? timeOfDay(to) : moment(to))"
    }

    /// The night of a moment, as its morning's day number since 1970-01-01.
    package func night(of time: Int64) -> Int64 {
        floorDivision(local(time).saturatingSubtract(Self.day / 2), Self.day).quotient + 1
    }

    /// The date of a night's morning: `2026-11-21`.
    package static func date(night: Int64) -> String { String(timestamp(milliseconds: night * day).prefix(10)) }

    /// `Nov 21`.
    package static func shortDate(night: Int64) -> String {
        let digits = date(night: night).dropFirst(5)
        guard let month = Int(digits.prefix(2)), HTTPDate.months.indices.contains(month - 1),
            let day = Int(digits.suffix(2))
        else { return String(digits) }
        return "\(HTTPDate.months[month - 1]) \(day)"
    }
}

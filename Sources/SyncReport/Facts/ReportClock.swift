import SyncModel

/// What time it is where the report is read, and which night a moment belongs to.
///
/// A night goes from noon to noon and bears the date of its morning.
package struct ReportClock: Sendable {
    /// **Milliseconds** since 1970.
    package let now: Int64
    private let offset: @Sendable (_ time: Int64) -> Int

    /// - Parameter offset: How many **seconds** local time is ahead of UTC at a time in **milliseconds** since 1970.
    package init(now: Int64, offset: @escaping @Sendable (_ time: Int64) -> Int) {
        self.now = now
        self.offset = offset
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

    /// `2026-11-21 02:07 to 02:19`, the second date only where it is another; one moment where it is the same minute.
    package func span(_ from: Int64, _ to: Int64) -> String {
        if moment(from) == moment(to) { return moment(from) }
        return "\(moment(from)) to \(date(from) == date(to) ? timeOfDay(to) : moment(to))"
    }

    /// The night of a moment, as the number of its morning's day since 1970-01-01.
    package func night(of time: Int64) -> Int64 {
        let noon = local(time).saturatingSubtract(Self.day / 2)
        let (days, rest) = noon.quotientAndRemainder(dividingBy: Self.day)
        return (rest < 0 ? days - 1 : days) + 1
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

/// How numbers are written for people.
package enum Figures {
    /// `20,000`.
    package static func grouped(_ number: some BinaryInteger) -> String {
        let digits = String(number.magnitude)
        var text = ""
        for (place, digit) in digits.enumerated() {
            if place > 0, (digits.count - place) % 3 == 0 { text.append(",") }
            text.append(digit)
        }
        return number < 0 ? "-" + text : text
    }

    /// `1 file`, `1,204 files`.
    package static func count(_ number: some BinaryInteger, _ one: String, _ many: String? = nil) -> String {
        "\(grouped(number)) \(number == 1 ? one : many ?? one + "s")"
    }

    /// `0.6 s`, `40 s`, `3 min 12 s`, `3 h 12 min`, `2 d 3 h`.
    package static func period(_ milliseconds: Int64) -> String {
        let seconds = max(0, milliseconds) / 1_000
        func pair(_ large: Int64, _ largeUnit: String, _ small: Int64, _ smallUnit: String) -> String {
            small == 0 ? "\(large) \(largeUnit)" : "\(large) \(largeUnit) \(small) \(smallUnit)"
        }
        switch seconds {
        case ..<10: return "\(seconds).\(max(0, milliseconds) / 100 % 10) s"
        case ..<120: return "\(seconds) s"
        case ..<3_600: return pair(seconds / 60, "min", seconds % 60, "s")
        case ..<172_800: return pair(seconds / 3_600, "h", seconds % 3_600 / 60, "min")
        default: return pair(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h")
        }
    }

    /// `1.85 MiB/s`; `nil` when nothing came or it took no time.
    package static func rate(_ bytes: UInt64, _ milliseconds: Int64) -> String? {
        guard bytes > 0, milliseconds > 0 else { return nil }
        let rate = Double(bytes) * 1_000 / Double(milliseconds)
        return UInt64(exactly: rate.rounded()).map { "\(ByteCount($0))/s" }
    }
}

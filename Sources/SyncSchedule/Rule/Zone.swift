import Foundation
package import SyncModel
import SyncSystem

/// How a place sets its clocks: wall-clock time from instants, and back.
package struct Zone: Sendable {
    /// An IANA name such as `Europe/Berlin`; `nil` for the machine's zone.
    package let name: String?
    private let offset: @Sendable (Int64) -> Int64

    /// A zone given by the **seconds** its clocks are ahead of UTC at **seconds** since 1970.
    package init(name: String?, offset: @escaping @Sendable (Int64) -> Int64) {
        (self.name, self.offset) = (name, offset)
    }

    /// The machine's zone, as it is at the time of each call.
    package static let machine = Zone(name: nil, offset: SystemTime.localOffset)

    /// The zone with an IANA name; `nil` if the system's zone data does not have it.
    package static func named(_ name: String) -> Zone? {
        // Foundation would accept abbreviations, which have no rules for summer time.
        guard name == "UTC" || name.contains("/"), let zone = TimeZone(identifier: name) else { return nil }
        return Zone(name: name) { seconds in
            Int64(zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(seconds))))
        }
    }

    /// The zone of a schedule: its own, or the machine's.
    ///
    /// - Throws: ``ScheduleError`` with code `invalid` for an unknown name.
    package static func of(_ name: String?) throws(ScheduleError) -> Zone {
        guard let name else { return machine }
        guard let zone = named(name) else {
            throw ScheduleError(
                .invalid,
                "There is no time zone '\(escaped(name))' on this machine; "
                    + "names look like Europe/Berlin. Without one the machine's zone applies.")
        }
        return zone
    }

    /// The **seconds** its clocks are ahead of UTC at **seconds** since 1970.
    package func offset(at seconds: Int64) -> Int64 { offset(seconds) }

    /// The wall-clock day and time at an instant.
    ///
    /// - Parameter seconds: Since 1970.
    /// - Returns: The day, and **seconds** after midnight as the clock shows them.
    package func local(_ seconds: Int64) -> (day: CivilDay, second: Int64) {
        let (day, second) = floorDivision(seconds + offset(seconds), 86_400)
        return (CivilDay(number: day), second)
    }

    /// The first instant at which the wall clock shows a time, or a later one, of that day.
    ///
    /// For a time that a clock change skips, it is the instant at which clocks are put forward; for one that comes
    /// twice, the first of the two.
    ///
    /// - Parameters:
    ///   - second: **Seconds** after midnight as the clock shows them; may exceed the length of a day.
    ///   - day: The day.
    /// - Returns: **Seconds** since 1970.
    package func first(_ second: Int64, of day: CivilDay) -> Int64 {
        let naive = day.number * 86_400 + second
        // Clocks are between 12 hours behind and 14 hours ahead of UTC.
        let (low, high) = (naive - 15 * 3_600, naive + 13 * 3_600)
        let (before, after) = (offset(low), offset(high))
        let candidates = [naive - before, naive - after].sorted()
        if let found = candidates.first(where: { $0 + offset($0) == naive }) { return found }
        return change(from: low, to: high)
    }

    /// Whether the zone has that day: Samoa went from 29 to 31 December 2011.
    package func has(_ day: CivilDay) -> Bool { local(first(0, of: day)).day == day }

    /// **Seconds** ahead of UTC on a day; `nil` if clocks change on it, or within one day before or two days after.
    func steadyOffset(around day: CivilDay) -> Int64? {
        let before = offset((day.number - 1) * 86_400)
        return before == offset((day.number + 3) * 86_400) ? before : nil
    }

    /// The first instant in `low...high` whose offset differs from that of `low`.
    private func change(from low: Int64, to high: Int64) -> Int64 {
        let old = offset(low)
        var (low, high) = (low, high)
        while high - low > 1 {
            let middle = low + (high - low) / 2
            if offset(middle) == old { low = middle } else { high = middle }
        }
        return high
    }
}

extension Zone {
    /// The wall-clock time at a moment, `2026-11-20 03:00:00`, and its offset from UTC, `+01:00`.
    ///
    /// - Parameter milliseconds: Since 1970; clamped to the years 0 to 9999.
    package func stamp(_ milliseconds: Int64) -> String {
        let minutes = offset(at: Self.seconds(milliseconds)) / 60
        let size = abs(minutes)
        return "\(clockTime(milliseconds)) \(minutes < 0 ? "-" : "+")\(padded(size / 60, 2)):\(padded(size % 60, 2))"
    }

    /// The wall-clock time at a moment: `2026-11-20 03:00:00`.
    ///
    /// - Parameter milliseconds: As in ``stamp(_:)``.
    package func clockTime(_ milliseconds: Int64) -> String {
        let seconds = Self.seconds(milliseconds)
        let local = timestamp(milliseconds: (seconds + offset(at: seconds)) * 1_000)
        return String(local.prefix(19)).replacing("T", with: " ")
    }

    private static func seconds(_ milliseconds: Int64) -> Int64 {
        floorDivision(min(max(milliseconds, -62_167_219_200_000), 253_402_300_799_999), 1_000).quotient
    }
}

/// Times as people give them, on the wall clock. As with schedules, one that a clock change skips is the moment at
/// which clocks are put forward, and one that comes twice is the first of the two.
extension Zone {
    /// Parses a day and a time, `2026-11-20 02:00` or `2026-11-20T02:00:30`, or a day alone, which means its midnight.
    ///
    /// - Returns: **Milliseconds** since 1970; `nil` for anything else, and for an invalid day or hour.
    package func moment(_ text: String) -> Int64? {
        let given = text.replacing(" ", with: "T", maxReplacements: 1)
        // Missing parts are 0: a day's midnight, a minute's first second.
        guard [10, 16, 19].contains(given.utf8.count),
            let naive = parseTimestamp(given + "0000-00-00T00:00:00Z".dropFirst(given.utf8.count))
        else { return nil }
        let (day, second) = floorDivision(naive / 1_000, 86_400)
        return first(second, of: CivilDay(number: day)) * 1_000
    }

    /// The next moment at which the wall clock shows a time of day.
    ///
    /// - Parameters:
    ///   - minute: **Minutes** after midnight.
    ///   - now: **Milliseconds** since 1970.
    /// - Returns: **Milliseconds** since 1970, after `now`.
    package func next(minute: Int, after now: Int64) -> Int64 {
        var day = local(floorDivision(now, 1_000).quotient).day
        while true {
            let moment = first(Int64(minute) * 60, of: day) * 1_000
            if moment > now { return moment }
            day = day.adding(1)
        }
    }
}

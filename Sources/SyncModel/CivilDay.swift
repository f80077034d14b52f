/// A day of the calendar, whatever the clocks do on it.
///
/// Days to date and back after H. Hinnant, "chrono-Compatible Low-Level Date Algorithms".
package struct CivilDay: Sendable, Hashable, Comparable {
    /// **Days** since 1970-01-01.
    package let number: Int64

    /// The day so many **days** after 1970-01-01.
    package init(number: Int64) { self.number = number }

    /// The day of a date of the Gregorian calendar; month 1...12, day 1...31 as the month has them.
    package init(year: Int64, month: Int64, day: Int64) {
        let shifted = month <= 2 ? year - 1 : year
        let era = floorDivision(shifted, 400).quotient
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        number = era * 146_097 + dayOfEra - 719_468
    }

    /// Year, month and day of the Gregorian calendar.
    package var date: (year: Int64, month: Int64, day: Int64) {
        let shifted = number + 719_468
        let era = floorDivision(shifted, 146_097).quotient
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        return (year, month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
    }

    /// The day of the week; 1970-01-01 was a Thursday.
    package var weekday: Weekday {
        Weekday.allCases[Int(floorDivision(number + 3, 7).remainder)]
    }

    /// The day so many **days** later.
    package func adding(_ days: Int64) -> CivilDay { CivilDay(number: number + days) }

    /// Earlier first.
    package static func < (a: CivilDay, b: CivilDay) -> Bool { a.number < b.number }
}

extension CivilDay: CustomStringConvertible {
    /// `2026-11-21`. ISO 8601.
    package var description: String {
        let (year, month, day) = date
        return "\(padded(year, 4))-\(padded(month, 2))-\(padded(day, 2))"
    }
}

/// A day of the week, by the names that systemd.time(7) and crontab(5) use, in lower case.
package enum Weekday: String, Sendable, CaseIterable, Codable {
    case mon, tue, wed, thu, fri, sat, sun

    /// The weekday so many **days** later.
    package func adding(_ days: Int) -> Weekday {
        let all = Self.allCases
        let index = (all.firstIndex(of: self) ?? 0) + days
        return all[(index % 7 + 7) % 7]
    }
}

/// Division that rounds down, so that times before 1970 come out right.
package func floorDivision(_ a: Int64, _ b: Int64) -> (quotient: Int64, remainder: Int64) {
    let (quotient, remainder) = a.quotientAndRemainder(dividingBy: b)
    return remainder < 0 ? (quotient - 1, remainder + b) : (quotient, remainder)
}

/// A number with leading zeros.
package func padded(_ number: some BinaryInteger, _ width: Int) -> String {
    let text = String(number)
    return String(repeating: "0", count: max(0, width - text.utf8.count)) + text
}

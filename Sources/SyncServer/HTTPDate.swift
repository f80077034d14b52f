/// A time of HTTP, in whole seconds. RFC 9110 §5.6.7.
struct HTTPDate: Equatable, Comparable, Sendable {
    /// **Seconds** since 1970-01-01 UTC.
    let seconds: Int64

    init(seconds: Int64) { self.seconds = seconds }

    /// Reads the preferred form, `Sun, 06 Nov 1994 08:49:37 GMT`; `nil` for anything else.
    ///
    /// The two obsolete forms count as no date: a condition that is ignored costs bytes, never correctness.
    init?(_ text: String) {
        let fields = text.split(separator: " ", omittingEmptySubsequences: false)
        guard fields.count == 6, fields[0].count == 4, fields[0].last == ",", fields[5] == "GMT",
            let day = Self.number(fields[1], digits: 2), (1...31).contains(day),
            let month = Self.months.firstIndex(of: String(fields[2])),
            let year = Self.number(fields[3], digits: 4)
        else { return nil }
        let clock = fields[4].split(separator: ":", omittingEmptySubsequences: false)
        guard clock.count == 3,
            let hour = Self.number(clock[0], digits: 2), hour < 24,
            let minute = Self.number(clock[1], digits: 2), minute < 60,
            let second = Self.number(clock[2], digits: 2), second <= 60
        else { return nil }
        let days = Self.days(year: year, month: Int64(month) + 1, day: day)
        seconds = days * 86_400 + hour * 3600 + minute * 60 + second
    }

    static func < (a: HTTPDate, b: HTTPDate) -> Bool { a.seconds < b.seconds }

    private static let weekdays = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    private static func number(_ text: Substring, digits: Int) -> Int64? {
        guard text.utf8.count == digits, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return nil
        }
        return Int64(text)
    }

    /// Days since 1970-01-01; after H. Hinnant, "chrono-Compatible Low-Level Date Algorithms"
    /// (`days_from_civil`).
    private static func days(year: Int64, month: Int64, day: Int64) -> Int64 {
        let shiftedYear = month <= 2 ? year - 1 : year
        let era = (shiftedYear >= 0 ? shiftedYear : shiftedYear - 399) / 400
        let yearOfEra = shiftedYear - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}

extension HTTPDate: CustomStringConvertible {
    /// The preferred form.
    var description: String {
        let (days, second) = Self.divide(seconds, by: 86_400)
        let shifted = days + 719_468
        let (era, dayOfEra) = Self.divide(shifted, by: 146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)

        let weekday = Self.weekdays[Int(Self.divide(days, by: 7).remainder)]
        let clock = [second / 3600, second / 60 % 60, second % 60].map { Self.padded($0, 2) }
        return "\(weekday), \(Self.padded(day, 2)) \(Self.months[Int(month) - 1]) \(Self.padded(year, 4)) "
            + clock.joined(separator: ":") + " GMT"
    }

    private static func padded(_ number: Int64, _ width: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, width - text.utf8.count)) + text
    }

    /// Division that rounds down, so that times before 1970 come out right.
    private static func divide(_ number: Int64, by divisor: Int64) -> (quotient: Int64, remainder: Int64) {
        let (quotient, remainder) = number.quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }
}

/// RFC 3339 in UTC with milliseconds: `2026-11-20T02:00:00.000Z`.
///
/// - Parameter milliseconds: Since 1970-01-01 UTC; clamped to the years 0000 to 9999.
public func timestamp(milliseconds: Int64) -> String {
    let milliseconds = min(max(milliseconds, -62_167_219_200_000), 253_402_300_799_999)
    let (seconds, millis) = floorDivision(milliseconds, 1000)
    let (days, second) = floorDivision(seconds, 86_400)
    let (year, month, day) = CivilDay(number: days).date
    return String(unsafeUninitializedCapacity: 24) { text in
        var end = 0
        put(year, 4, then: "-", to: text, &end)
        put(month, 2, then: "-", to: text, &end)
        put(day, 2, then: "T", to: text, &end)
        put(second / 3600, 2, then: ":", to: text, &end)
        put(second / 60 % 60, 2, then: ":", to: text, &end)
        put(second % 60, 2, then: ".", to: text, &end)
        put(millis, 3, then: "Z", to: text, &end)
        return end
    }
}

/// Parses RFC 3339, with or without fractions of a second, in any offset: **milliseconds** since 1970-01-01 UTC.
///
/// - Returns: `nil` for anything else, and for an invalid day or hour.
package func parseTimestamp(_ text: String) -> Int64? {
    var text = text
    return text.withUTF8 { bytes in
        guard bytes.count >= 20, var seconds = civilSeconds(bytes) else { return nil }
        var rest = bytes[19...]
        var thousandths: Int64 = 0
        if rest.first == UInt8(ascii: ".") {
            let digits = rest.dropFirst().prefix { $0 &- 0x30 <= 9 }
            guard (1...18).contains(digits.count) else { return nil }
            // Rounded to the nearest.
            for (place, digit) in zip([100, 10, 1] as [Int64], digits) { thousandths += place * Int64(digit - 0x30) }
            if let next = digits.dropFirst(3).first, next >= UInt8(ascii: "5") { thousandths += 1 }
            rest = rest[digits.endIndex...]
        }
        guard let sign = rest.first else { return nil }
        rest = rest.dropFirst()
        if sign == UInt8(ascii: "Z") { return rest.isEmpty ? seconds * 1_000 + thousandths : nil }
        guard sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-") else { return nil }
        let colon = rest.count == 5 ? 1 : 0
        guard rest.count == 4 + colon, colon == 0 || rest[rest.startIndex + 2] == UInt8(ascii: ":"),
            let hours = decimal(rest.prefix(2)), let minutes = decimal(rest.suffix(2)), hours < 24, minutes < 60
        else { return nil }
        seconds -= (sign == UInt8(ascii: "-") ? -1 : 1) * (hours * 3_600 + minutes * 60)
        return seconds * 1_000 + thousandths
    }
}

/// Writes `width` digits and a separator at `end`.
private func put(
    _ number: Int64, _ width: Int, then separator: Unicode.Scalar, to text: UnsafeMutableBufferPointer<UInt8>,
    _ end: inout Int
) {
    var rest = number
    var place = end + width
    text[place] = UInt8(ascii: separator)
    while place > end {
        place -= 1
        text[place] = 0x30 + UInt8(truncatingIfNeeded: rest % 10)
        rest /= 10
    }
    end += width + 1
}

/// Parses RFC 3339 in UTC, `2026-11-20T02:00:00.000Z`, as in events and signed statements; the fraction may be missing.
///
/// - Returns: **Milliseconds** since 1970; `nil` for any other text.
package func parseTimestamp(utc text: String) -> Int64? {
    var text = text
    return text.withUTF8 { bytes in
        guard bytes.count == 20 || bytes.count == 24, bytes.last == 0x5A, bytes.count == 20 || bytes[19] == 0x2E,
            let seconds = civilSeconds(bytes, mostSeconds: 60),
            let fraction = bytes.count == 20 ? 0 : decimal(bytes[20..<23])
        else { return nil }
        return seconds * 1_000 + fraction
    }
}

/// Parses `2026-11-20T02:00:00` at the start of a text as UTC: **seconds** since 1970.
///
/// - Parameters:
///   - text: At least 19 bytes.
///   - mostSeconds: 60 to accept a leap second as the first second of the next minute.
/// - Returns: `nil` for anything else, and for an invalid day or hour.
func civilSeconds(_ text: UnsafeBufferPointer<UInt8>, mostSeconds: Int64 = 59) -> Int64? {
    guard text[4] == 0x2D, text[7] == 0x2D, text[10] == 0x54, text[13] == 0x3A, text[16] == 0x3A,
        let year = decimal(text[0..<4]), let month = decimal(text[5..<7]), let day = decimal(text[8..<10]),
        let hour = decimal(text[11..<13]), let minute = decimal(text[14..<16]), let second = decimal(text[17..<19]),
        (1...12).contains(month), hour < 24, minute < 60, second <= mostSeconds
    else { return nil }
    let date = CivilDay(year: year, month: month, day: day)
    guard date.date == (year, month, day) else { return nil }
    return date.number * 86_400 + hour * 3_600 + minute * 60 + second
}

/// Parses a few decimal digits; `nil` if there is anything else.
func decimal(_ digits: Slice<UnsafeBufferPointer<UInt8>>) -> Int64? {
    var value: Int64 = 0
    for byte in digits {
        guard byte &- 0x30 <= 9 else { return nil }
        value = value * 10 + Int64(byte - 0x30)
    }
    return value
}

/// A moment in the form of the control API: RFC 3339 in UTC with milliseconds, `2026-11-20T02:00:00.000Z`.
public struct WallTime: Sendable, Hashable, Comparable, Codable {
    /// **Milliseconds** since 1970-01-01 UTC.
    public var milliseconds: Int64

    /// Makes a moment from **milliseconds** since 1970-01-01 UTC.
    public init(milliseconds: Int64) { self.milliseconds = milliseconds }

    /// The moment as much later, or earlier if it is negative, in whole milliseconds.
    package func moved(by duration: Duration) -> WallTime {
        WallTime(milliseconds: milliseconds + Int64(duration / .milliseconds(1)))
    }

    /// Orders by time.
    public static func < (left: WallTime, right: WallTime) -> Bool { left.milliseconds < right.milliseconds }

    /// Decodes a time with or without fractions of a second, in any offset.
    ///
    /// - Throws: `DecodingError` for anything else.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        guard let milliseconds = parseTimestamp(text) else {
            throw DecodingError.dataCorruptedError(
                in: container, debugDescription: "not a time such as 2026-11-20T02:00:00Z")
        }
        self.milliseconds = milliseconds
    }

    /// Encodes the text form.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(timestamp(milliseconds: milliseconds))
    }
}

/// A day of the calendar, independent of clock changes.
///
/// Days to date and back after H. Hinnant, "chrono-Compatible Low-Level Date Algorithms".
package struct CivilDay: Sendable, Hashable, Comparable {
    /// **Days** since 1970-01-01.
    package let number: Int64

    /// The day this many **days** after 1970-01-01.
    package init(number: Int64) { self.number = number }

    /// The day of a Gregorian date; the month in 1...12, the day valid for the month.
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
    package var weekday: Weekday { Weekday.allCases[Int(floorDivision(number + 3, 7).remainder)] }

    /// The day this many **days** later.
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

/// A day of the week, with the names of systemd.time(7) and crontab(5), in lower case.
package enum Weekday: String, Sendable, CaseIterable, Codable {
    case mon, tue, wed, thu, fri, sat, sun

    /// The weekday this many **days** later.
    package func adding(_ days: Int) -> Weekday {
        let all = Self.allCases
        let index = (all.firstIndex(of: self) ?? 0) + days
        return all[(index % 7 + 7) % 7]
    }
}

/// Division that rounds down, for times before 1970.
package func floorDivision(_ a: Int64, _ b: Int64) -> (quotient: Int64, remainder: Int64) {
    let (quotient, remainder) = a.quotientAndRemainder(dividingBy: b)
    return remainder < 0 ? (quotient - 1, remainder + b) : (quotient, remainder)
}

/// A number with leading zeros.
package func padded(_ number: some BinaryInteger, _ width: Int, radix: Int = 10) -> String {
    let text = String(number, radix: radix)
    return String(repeating: "0", count: max(0, width - text.utf8.count)) + text
}

/// A time in HTTP, in whole seconds. RFC 9110 §5.6.7.
package struct HTTPDate: Hashable, Comparable, Sendable {
    /// **Seconds** since 1970-01-01 UTC.
    package let seconds: Int64

    package init(seconds: Int64) { self.seconds = seconds }

    /// Parses a header's date: IMF-fixdate, RFC 850 or `asctime`; `nil` for anything else.
    package init?(_ text: String) {
        let words = text.split { $0 == " " || $0 == "," || $0 == "-" }.map(String.init)
        guard let isAsctime = Self.isAsctime(text), words.count == (isAsctime ? 5 : 6) else { return nil }
        if !isAsctime { guard words[5] == "GMT" else { return nil } }
        guard let month = Self.months.firstIndex(of: isAsctime ? words[1] : words[2]),
            let day = Int64(isAsctime ? words[2] : words[1]), (1...31).contains(day),
            var year = Int64(isAsctime ? words[4] : words[3]), (0...9999).contains(year)
        else { return nil }
        if !isAsctime, words[3].utf8.count == 2 { year += year < 70 ? 2000 : 1900 }

        let time = (isAsctime ? words[3] : words[4]).split(separator: ":", omittingEmptySubsequences: false)
        guard time.count == 3, let hour = Int64(time[0]), let minute = Int64(time[1]), let second = Int64(time[2]),
            (0..<24).contains(hour), (0..<60).contains(minute), (0...60).contains(second)
        else { return nil }
        let date = CivilDay(year: year, month: Int64(month) + 1, day: day)
        seconds = date.number * 86_400 + hour * 3600 + minute * 60 + second
    }

    /// Distinguishes the forms by their pattern of digits, letters and punctuation; `nil` for none of the three. The
    /// day of the week may be any word: the date does not depend on it.
    private static func isAsctime(_ text: String) -> Bool? {
        let shape = String(
            text.map {
                ("0"..."9").contains($0) ? "0" : ("A"..."Z").contains($0) || ("a"..."z").contains($0) ? "a" : $0
            }
        ).drop { $0 == "a" }
        switch shape {
        case ", 00 aaa 0000 00:00:00 aaa", ", 00-aaa-00 00:00:00 aaa": return false
        case " aaa 00 00:00:00 0000", " aaa  0 00:00:00 0000": return true
        default: return nil
        }
    }

    package static func < (a: HTTPDate, b: HTTPDate) -> Bool { a.seconds < b.seconds }

    /// The months' names.
    package static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
}

extension HTTPDate: CustomStringConvertible {
    /// The preferred form, IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT`.
    package var description: String {
        let (days, second) = floorDivision(seconds, 86_400)
        let day = CivilDay(number: days)
        let (year, month, number) = day.date
        let clock = [second / 3600, second / 60 % 60, second % 60].map { padded($0, 2) }.joined(separator: ":")
        let weekday = day.weekday.rawValue
        return "\(weekday.prefix(1).uppercased())\(weekday.dropFirst()), \(padded(number, 2)) "
            + "\(Self.months[Int(month) - 1]) \(padded(year, 4)) \(clock) GMT"
    }
}

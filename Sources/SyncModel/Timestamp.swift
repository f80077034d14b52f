/// RFC 3339 in UTC with milliseconds: `2026-11-20T02:00:00.000Z`.
///
/// - Parameter milliseconds: Since 1970-01-01 UTC; before 0000 and after 9999 the first and the last that there are.
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

/// Reads RFC 3339, with or without fractions of a second, in any offset: **milliseconds** since 1970-01-01 UTC.
///
/// - Returns: `nil` for anything else, and for a day or an hour that there is not.
package func parseTimestamp(_ text: String) -> Int64? {
    let form =
        /([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,18}))?(?:Z|([+-])([0-9]{2}):?([0-9]{2}))/
    guard let match = text.wholeMatch(of: form),
        let year = Int64(match.1), let month = Int64(match.2), let day = Int64(match.3),
        let hour = Int64(match.4), let minute = Int64(match.5), let second = Int64(match.6),
        (1...12).contains(month), hour < 24, minute < 60, second < 60
    else { return nil }
    let date = CivilDay(year: year, month: month, day: day)
    guard date.date == (year, month, day) else { return nil }
    var seconds = date.number * 86_400 + hour * 3600 + minute * 60 + second
    if let sign = match.8, let hours = match.9.flatMap({ Int64($0) }),
        let minutes = match.10.flatMap({ Int64($0) })
    {
        guard hours < 24, minutes < 60 else { return nil }
        seconds -= (sign == "-" ? -1 : 1) * (hours * 3600 + minutes * 60)
    }
    // Rounded to the nearest.
    let digits = (match.7.map(String.init) ?? "") + "0000"
    let thousandths = Int64(digits.prefix(3)) ?? 0
    return seconds * 1000 + thousandths + (digits.dropFirst(3).first.map { $0 >= "5" } == true ? 1 : 0)
}

/// Puts `width` digits and a separator behind `end`.
private func put(
    _ number: Int64,
    _ width: Int,
    then separator: Unicode.Scalar,
    to text: UnsafeMutableBufferPointer<UInt8>,
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

/// Reads RFC 3339 in UTC, `2026-11-20T02:00:00.000Z`, as events and signed statements have it; the fraction may be missing.
///
/// - Returns: **Milliseconds** since 1970; `nil` for any other text.
package func parseTimestamp(utc text: String) -> Int64? {
    let bytes = Array(text.utf8)
    let marks: [(place: Int, byte: UInt8)] = [(4, 0x2D), (7, 0x2D), (10, 0x54), (13, 0x3A), (16, 0x3A)]
    guard bytes.count == 20 || bytes.count == 24, bytes.last == 0x5A,
        marks.allSatisfy({ bytes[$0.place] == $0.byte }), bytes.count == 20 || bytes[19] == 0x2E
    else { return nil }
    func number(_ range: Range<Int>) -> Int64? {
        var value: Int64 = 0
        for byte in bytes[range] {
            guard (0x30...0x39).contains(byte) else { return nil }
            value = value * 10 + Int64(byte - 0x30)
        }
        return value
    }
    guard let year = number(0..<4), let month = number(5..<7), let day = number(8..<10),
        let hour = number(11..<13), let minute = number(14..<16), let second = number(17..<19),
        let fraction = bytes.count == 24 ? number(20..<23) : 0,
        (1...12).contains(month), (1...31).contains(day), hour < 24, minute < 60, second < 61
    else { return nil }
    let days = CivilDay(year: year, month: month, day: day).number
    return ((days * 24 + hour) * 60 + minute) * 60_000 + second * 1_000 + fraction
}

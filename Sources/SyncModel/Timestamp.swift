/// RFC 3339 in UTC with milliseconds: `2026-11-20T02:00:00.000Z`.
///
/// Days to date after H. Hinnant, "chrono-Compatible Low-Level Date Algorithms" (`civil_from_days`).
///
/// - Parameter milliseconds: Since 1970-01-01 UTC; before 0000 and after 9999 the first and the last that there are.
public func timestamp(milliseconds: Int64) -> String {
    let milliseconds = min(max(milliseconds, -62_167_219_200_000), 253_402_300_799_999)
    let (seconds, millis) = milliseconds.quotientAndRemainder(floor: 1000)
    let (days, second) = seconds.quotientAndRemainder(floor: 86_400)
    let shifted = days &+ 719_468
    let era = shifted.quotientAndRemainder(floor: 146_097).quotient
    let dayOfEra = shifted &- era &* 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shiftedMonth = (5 * dayOfYear + 2) / 153
    let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
    let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
    let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
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

extension Int64 {
    /// Division that rounds down, so that times before 1970 come out right.
    fileprivate func quotientAndRemainder(floor divisor: Int64) -> (quotient: Int64, remainder: Int64) {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }
}

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

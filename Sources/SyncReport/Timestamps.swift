import SyncModel

/// Reads RFC 3339 in UTC, `2026-11-20T02:00:00.000Z`, as events have it; the fraction may be missing.
///
/// - Returns: **Milliseconds** since 1970; `nil` for any other text.
func parseTimestamp(_ text: String) -> Int64? {
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

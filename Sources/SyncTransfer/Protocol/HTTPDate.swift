/// Reads a date of an HTTP header: IMF-fixdate, RFC 850 or `asctime`. RFC 9110 §5.6.7.
///
/// - Returns: **Seconds** since 1970-01-01 UTC, or `nil` when it is none of the three.
package func httpDate(_ text: String) -> Int64? {
    let words = text.split { $0 == " " || $0 == "," || $0 == "-" }.map(String.init)
    // Sun 06 Nov 1994 08:49:37 GMT | Sunday 06 Nov 94 08:49:37 GMT | Sun Nov 6 08:49:37 1994
    guard words.count == 6 || words.count == 5 else { return nil }
    let isAsctime = words.count == 5
    if !isAsctime { guard words[5] == "GMT" || words[5] == "UTC" else { return nil } }
    guard let month = months.firstIndex(of: isAsctime ? words[1] : words[2]),
        let day = Int64(isAsctime ? words[2] : words[1]), (1...31).contains(day),
        var year = Int64(isAsctime ? words[4] : words[3]), (0...9999).contains(year)
    else { return nil }
    if !isAsctime, words[3].utf8.count == 2 { year += year < 70 ? 2000 : 1900 }

    let time = (isAsctime ? words[3] : words[4]).split(separator: ":", omittingEmptySubsequences: false)
    guard time.count == 3, let hour = Int64(time[0]), let minute = Int64(time[1]),
        let second = Int64(time[2]),
        (0..<24).contains(hour), (0..<60).contains(minute), (0...60).contains(second)
    else { return nil }
    return daysSince1970(year: year, month: Int64(month) + 1, day: day) * 86_400 + hour * 3600 + minute * 60
        + second
}

/// H. Hinnant, "chrono-Compatible Low-Level Date Algorithms" (`days_from_civil`), for years from 0.
package func daysSince1970(year: Int64, month: Int64, day: Int64) -> Int64 {
    let shifted = month <= 2 ? year - 1 : year
    let era = (shifted >= 0 ? shifted : shifted - 399) / 400
    let yearOfEra = shifted - era * 400
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
}

/// Reads `Retry-After`: a number of seconds or a date. RFC 9110 §10.2.3.
///
/// - Returns: **Seconds** from now, not below zero; `nil` for anything else, so that garbage is ignored (F029).
package func retryAfter(_ text: String, now: Int64) -> Int64? {
    if text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), !text.isEmpty {
        return Int64(text) ?? Int64.max  // More digits than fit: as long as can be; the policy caps it.
    }
    guard let date = httpDate(text) else { return nil }
    return max(0, date - now)
}

private let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

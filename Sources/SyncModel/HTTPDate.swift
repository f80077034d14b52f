/// A time of HTTP, in whole seconds. RFC 9110 §5.6.7.
package struct HTTPDate: Hashable, Comparable, Sendable {
    /// **Seconds** since 1970-01-01 UTC.
    package let seconds: Int64

    package init(seconds: Int64) { self.seconds = seconds }

    /// Reads a header's date: IMF-fixdate, RFC 850 or `asctime`; `nil` when it is none of the three.
    package init?(_ text: String) {
        let words = text.split { $0 == " " || $0 == "," || $0 == "-" }.map(String.init)
        // Sun 06 Nov 1994 08:49:37 GMT | Sunday 06 Nov 94 08:49:37 GMT | Sun Nov 6 08:49:37 1994
        guard words.count == 6 || words.count == 5 else { return nil }
        let isAsctime = words.count == 5
        if !isAsctime { guard words[5] == "GMT" || words[5] == "UTC" else { return nil } }
        guard let month = Self.months.firstIndex(of: isAsctime ? words[1] : words[2]),
            let day = Int64(isAsctime ? words[2] : words[1]), (1...31).contains(day),
            var year = Int64(isAsctime ? words[4] : words[3]), (0...9999).contains(year)
        else { return nil }
        if !isAsctime, words[3].utf8.count == 2 { year += year < 70 ? 2000 : 1900 }

        let time = (isAsctime ? words[3] : words[4]).split(separator: ":", omittingEmptySubsequences: false)
        guard time.count == 3, let hour = Int64(time[0]), let minute = Int64(time[1]),
            let second = Int64(time[2]),
            (0..<24).contains(hour), (0..<60).contains(minute), (0...60).contains(second)
        else { return nil }
        let date = CivilDay(year: year, month: Int64(month) + 1, day: day)
        seconds = date.number * 86_400 + hour * 3600 + minute * 60 + second
    }

    package static func < (a: HTTPDate, b: HTTPDate) -> Bool { a.seconds < b.seconds }

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
}

extension HTTPDate: CustomStringConvertible {
    /// The preferred form, IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT`.
    package var description: String {
        let (days, second) = floorDivision(seconds, 86_400)
        let day = CivilDay(number: days)
        let (year, month, number) = day.date
        let clock = [second / 3600, second / 60 % 60, second % 60].map { padded($0, 2) }.joined(
            separator: ":"
        )
        let weekday = day.weekday.rawValue
        return "\(weekday.prefix(1).uppercased())\(weekday.dropFirst()), \(padded(number, 2)) "
            + "\(Self.months[Int(month) - 1]) \(padded(year, 4)) \(clock) GMT"
    }
}

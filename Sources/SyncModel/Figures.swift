/// Formats numbers for people.
package enum Figures {
    /// `20,000`.
    package static func grouped(_ number: some BinaryInteger) -> String {
        let digits = String(number.magnitude)
        var text = ""
        for (place, digit) in digits.enumerated() {
            if place > 0, (digits.count - place) % 3 == 0 { text.append(",") }
            text.append(digit)
        }
        return number < 0 ? "-" + text : text
    }

    /// `1 file`, `1,204 files`.
    package static func count(_ number: some BinaryInteger, _ one: String, _ many: String? = nil) -> String {
        "\(grouped(number)) \(number == 1 ? one : many ?? one + "s")"
    }

    /// A length of time, in **milliseconds**: `0.06 s`, `1.2 s`, `40 s`, `3 min 12 s`, `3 h 12 min`, `2 d 3 h`.
    package static func period(_ milliseconds: Int64) -> String {
        let milliseconds = max(0, milliseconds)
        let seconds = milliseconds / 1_000
        if seconds == 0, milliseconds > 0 {
            // `0 s` would be a different statement.
            let hundredths = max(1, (milliseconds + 5) / 10)
            return hundredths < 100 ? "0.\(hundredths < 10 ? "0" : "")\(hundredths) s" : "1 s"
        }
        func pair(_ large: Int64, _ largeUnit: String, _ small: Int64, _ smallUnit: String) -> String {
            small == 0 ? "\(large) \(largeUnit)" : "\(large) \(largeUnit) \(small) \(smallUnit)"
        }
        switch seconds {
        case ..<10 where milliseconds % 1_000 != 0:
            let tenths = (milliseconds + 50) / 100
            return tenths % 10 == 0 ? "\(tenths / 10) s" : "\(tenths / 10).\(tenths % 10) s"
        case ..<60: return "\(seconds) s"
        case ..<3_600: return pair(seconds / 60, "min", seconds % 60, "s")
        case ..<172_800: return pair(seconds / 3_600, "h", seconds % 3_600 / 60, "min")
        default: return pair(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h")
        }
    }

    /// `1.85 MiB/s`; `nil` if nothing came or it took no time.
    package static func rate(_ bytes: UInt64, _ milliseconds: Int64) -> String? {
        guard bytes > 0, milliseconds > 0 else { return nil }
        let rate = Double(bytes) * 1_000 / Double(milliseconds)
        return UInt64(exactly: rate.rounded()).map { "\(ByteCount($0))/s" }
    }
}

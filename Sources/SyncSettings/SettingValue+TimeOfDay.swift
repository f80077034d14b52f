package import SyncModel

/// How parts of the day, and what holds in them, are written.
extension SettingValue {
    /// `22:00-06:00`, over midnight too, or `02:00+4h`; the machine's zone unless one follows, as in
    /// `22:00-06:00 Europe/Berlin`. Whether there is such a zone is not checked.
    package static func window(_ text: String) throws(SettingsError) -> DailyWindow {
        let words = text.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
        let zone = words.count > 1 ? String(words[1]) : nil
        let span = words.first ?? ""
        let problem = SettingsError(
            "'\(escaped(text))' is not a part of the day such as 22:00-06:00 or 02:00+4h"
        )
        guard let mark = span.firstIndex(where: { $0 == "-" || $0 == "+" }),
            let start = minute(span[..<mark]), start < 1_440, zone != ""
        else { throw problem }
        let rest = span[span.index(after: mark)...]
        var length: Int
        if span[mark] == "+" {
            let time = try duration(String(rest))
            length = Int(time / .seconds(60))
            guard .seconds(60 * length) == time else {
                throw SettingsError("'\(escaped(text))': a part of the day lasts whole minutes")
            }
        } else {
            guard let end = minute(rest) else { throw problem }
            // Who means all day says +24h: 22:00-22:00 may as well be a slip.
            guard end != start else {
                throw SettingsError("'\(escaped(text))' has no length; +24h is all day")
            }
            length = end > start ? end - start : end + 1_440 - start
        }
        let window = DailyWindow(startMinute: start, lengthMinutes: length, timeZone: zone)
        guard window.isValid else { throw SettingsError("'\(escaped(text))' is longer than a day") }
        return window
    }

    /// `08:00-18:00=2M`: most bytes a second at that time of day; `none` for no limit.
    package static func rateWindow(_ text: String) throws(SettingsError) -> RateWindow {
        guard let mark = text.lastIndex(of: "=") else {
            throw SettingsError(
                "'\(escaped(text))' is not a part of the day and a rate, such as 08:00-18:00=2M"
            )
        }
        let (window, rate) = (try window(String(text[..<mark])), text[text.index(after: mark)...])
        if rate == "none" { return RateWindow(window: window, limit: nil) }
        guard let limit = ByteCount(parsing: String(rate)), limit.bytes > 0 else {
            throw SettingsError(
                "'\(escaped(String(rate)))' is not a number of bytes a second such as 500K or 2M, and not 'none'"
            )
        }
        return RateWindow(window: window, limit: limit.bytes)
    }

    /// What a run may take on a metered network: `allow` is `nil`, `deny` 0, `budget=500M` so many **bytes**.
    package static func metered(_ text: String) throws(SettingsError) -> UInt64? {
        if text == "allow" { return nil }
        if text == "deny" { return 0 }
        let mark = "budget="
        guard text.hasPrefix(mark), let budget = ByteCount(parsing: String(text.dropFirst(mark.count))),
            budget.bytes > 0
        else { throw SettingsError("'\(escaped(text))' is not allow, deny or budget=500M") }
        return budget.bytes
    }

    /// `07:30` or `24:00`; **minutes** after midnight.
    private static func minute(_ text: Substring) -> Int? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, (1...2).contains(parts[0].utf8.count), parts[1].utf8.count == 2,
            parts.allSatisfy({ $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }),
            let hour = Int(parts[0]), let minute = Int(parts[1]), minute < 60, hour * 60 + minute <= 1_440
        else { return nil }
        return hour * 60 + minute
    }
}

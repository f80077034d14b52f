import SyncAssembly
import SyncModel
import Testing

@Suite(.timeLimit(.minutes(10)))
struct TimeOfDayTests {
    @Test(
        "A part of the day has a beginning and an end or a length",
        arguments: [
            ("22:00-06:00", 1_320, 480), ("02:00+4h", 120, 240), ("2:00+90m", 120, 90), ("0:00-24:00", 0, 1_440),
            ("18:00-24:00", 1_080, 360), ("18:00-0:00", 1_080, 360), ("23:59-00:00", 1_439, 1),
            ("12:00+24h", 720, 1_440), ("12:00+60s", 720, 1),
        ] as [(String, Int, Int)])
    func windows(text: String, start: Int, length: Int) throws {
        #expect(try SettingValue.window(text) == DailyWindow(startMinute: start, lengthMinutes: length))
        let zoned = try SettingValue.window(text + " Europe/Berlin")
        #expect(zoned.timeZone == "Europe/Berlin" && zoned.startMinute == start)
    }

    @Test(
        "Whatever else is written is refused with what to write",
        arguments: [
            "", "22:00", "22-06", "22:00-", "-06:00", "24:00-06:00", "22:60-06:00", "22:00-24:01", "22:00-22:00",
            "22:00+0h", "22:00+25h", "22:00+90s", "22:00 -06:00", "22:00-06:00 ", "+22:00-06:00", "22:00-6", "a:b-c:d",
            "022:00-06:00", "22:00–06:00",
        ])
    func noWindows(text: String) { #expect(throws: SettingsError.self) { try SettingValue.window(text) } }

    @Test("A rate by time of day is a part of the day and a limit")
    func rates() throws {
        let day = DailyWindow(startMinute: 480, lengthMinutes: 600)
        #expect(try SettingValue.rateWindow("08:00-18:00=2M") == RateWindow(window: day, limit: 2 << 20))
        #expect(try SettingValue.rateWindow("08:00+10h=none") == RateWindow(window: day, limit: nil))
        #expect(
            try SettingValue.rateWindow("08:00-18:00 UTC=1").window.timeZone == "UTC", "the zone belongs to the times")
        for text in ["", "08:00-18:00", "08:00-18:00=", "08:00-18:00=0", "08:00-18:00=fast", "=2M", "08:00=2M"] {
            #expect(throws: SettingsError.self) { try SettingValue.rateWindow(text) }
        }
    }

    @Test("Metered networks: any bytes, none, or a budget [S52]")
    func metered() throws {
        #expect(try SettingValue.metered("allow") == nil)
        #expect(try SettingValue.metered("deny") == 0)
        #expect(try SettingValue.metered("budget=500MB") == 500_000_000)
        for text in ["", "yes", "budget", "budget=", "budget=0", "budget=much", "Deny"] {
            #expect(throws: SettingsError.self) { try SettingValue.metered(text) }
        }
    }
}

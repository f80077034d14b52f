import SyncModel
import SyncSchedule
import Testing

private func instant(_ zone: Zone, _ day: String, _ clock: String) -> Int64 {
    let parts = day.split(separator: "-").compactMap { Int64($0) }
    let minutes = ScheduleTiming.minutes(clock) ?? 0
    return zone.first(Int64(minutes) * 60, of: CivilDay(year: parts[0], month: parts[1], day: parts[2])) * 1_000
}

private func cron(_ text: String) throws -> Recurrence { .cron(try CronExpression(text)) }

/// The next times after a moment, `2026-11-21 02:00`, by the clocks of a zone.
private func next(_ rule: Recurrence, _ count: Int, after day: String, _ clock: String, in name: String = "UTC") throws
    -> [String]
{
    let zone = try #require(Zone.named(name))
    let schedule = ScheduleClock(ScheduleTiming(rule), zone: zone, delay: 0)
    var (now, found) = (instant(zone, day, clock), [String]())
    while found.count < count, let next = schedule.next(after: now) {
        now = next.fire
        let (day, second) = zone.local(now / 1_000)
        found.append("\(day) \(ScheduleTiming.time(Int(second / 60)))")
    }
    return found
}

@Suite("Rules of schedules", .timeLimit(.minutes(10)))
struct RecurrenceTests {
    @Test(
        "The next times of a rule",
        arguments: [
            ("0 3 * * 1-5", ["2026-11-23 03:00", "2026-11-24 03:00"]),
            ("0 3 * * mon-FRI", ["2026-11-23 03:00", "2026-11-24 03:00"]),
            ("*/20 9 * * *", ["2026-11-22 09:00", "2026-11-22 09:20"]),
            ("@hourly", ["2026-11-21 13:00", "2026-11-21 14:00"]),
            ("@daily", ["2026-11-22 00:00", "2026-11-23 00:00"]),
            ("@weekly", ["2026-11-22 00:00", "2026-11-29 00:00"]),
            ("@monthly", ["2026-12-01 00:00", "2027-01-01 00:00"]),
            ("@yearly", ["2027-01-01 00:00", "2028-01-01 00:00"]),
            ("0 0 29 2 *", ["2028-02-29 00:00", "2032-02-29 00:00"]),
            // Friday, or the 13th.
            ("0 0 13 * 5", ["2026-11-27 00:00", "2026-12-04 00:00", "2026-12-11 00:00", "2026-12-13 00:00"]),
            // Odd days that are Mondays.
            ("0 0 */2 * 1", ["2026-11-23 00:00", "2026-12-07 00:00"]),
            ("30 23 31 * *", ["2026-12-31 23:30", "2027-01-31 23:30", "2027-03-31 23:30"]),
            ("0 6 * * 7", ["2026-11-22 06:00", "2026-11-29 06:00"]),
            ("0 6 * * 5-7", ["2026-11-22 06:00", "2026-11-27 06:00"]),
            ("5-10/5,50 12 * jan,dec *", ["2026-12-01 12:05", "2026-12-01 12:10", "2026-12-01 12:50"]),
        ])
    func times(text: String, expected: [String]) throws {
        #expect(try next(cron(text), expected.count, after: "2026-11-21", "12:30") == expected)
    }

    @Test("Every so often is counted from midnight, every week has its days")
    func others() throws {
        #expect(
            try next(.every(minutes: 360), 3, after: "2026-11-21", "12:30") == [
                "2026-11-21 18:00", "2026-11-22 00:00", "2026-11-22 06:00",
            ])
        #expect(
            try next(.daily(at: 180, on: [.sun, .wed]), 3, after: "2026-11-21", "12:30") == [
                "2026-11-22 03:00", "2026-11-25 03:00", "2026-11-29 03:00",
            ])
    }

    @Test(
        "A time that does not exist is the first moment after it, once; one that exists twice is the first [S132 F100]")
    func summerTime() throws {
        let spring = try next(.every(minutes: 30), 4, after: "2027-03-28", "01:00", in: "Europe/Berlin")
        #expect(spring == ["2027-03-28 01:30", "2027-03-28 03:00", "2027-03-28 03:30", "2027-03-28 04:00"])
        let autumn = try next(.every(minutes: 30), 4, after: "2026-10-25", "01:30", in: "Europe/Berlin")
        #expect(autumn == ["2026-10-25 02:00", "2026-10-25 02:30", "2026-10-25 03:00", "2026-10-25 03:30"])
        let fixed = try next(cron("15,45 2 * * *"), 3, after: "2027-03-28", "00:00", in: "Europe/Berlin")
        #expect(fixed == ["2027-03-28 03:00", "2027-03-29 02:15", "2027-03-29 02:45"])
    }

    @Test("A day of every rule: each time is due once, in order, whatever the zone")
    func each() throws {
        for name in ["Europe/Berlin", "Australia/Lord_Howe"] {
            let zone = try #require(Zone.named(name))
            let clock = ScheduleClock(ScheduleTiming(.every(minutes: 30)), zone: zone, delay: 400)
            var (now, handled) = (instant(zone, "2026-11-20", "12:00"), Slot?.none)
            let end = instant(zone, "2027-11-20", "12:00")
            var fired: [Slot] = []
            while now < end {
                let outlook = clock.outlook(at: now, handled: handled)
                if let due = outlook.due { fired.append(due.slot) }
                handled = outlook.handled
                now = try #require(outlook.next)
            }
            #expect(fired == Set(fired).sorted(), "\(name)")
            // An hour is left out in spring and another counts once in autumn; half an hour of each at Lord Howe.
            #expect((365 * 48 - 4...365 * 48).contains(fired.count), "\(name): \(fired.count)")
        }
    }

    @Test("A machine that slept: the last time only, or none where that is said; within ten minutes it is not late")
    func sleeping() throws {
        let utc = try #require(Zone.named("UTC"))
        var timing = ScheduleTiming(.every(minutes: 60))
        let handled = Slot(day: CivilDay(year: 2026, month: 11, day: 21), minute: 60)
        func due(_ clock: String, started: Slot? = nil) -> String? {
            let schedule = ScheduleClock(timing, zone: utc, delay: 0)
            return schedule.outlook(at: instant(utc, "2026-11-21", clock), handled: handled, started: started).due?.slot
                .description
        }
        #expect(due("08:30") == "2026-11-21 08:00")
        timing.catchesUp = false
        #expect(due("08:30") == nil && due("08:09") == "2026-11-21 08:00" && due("08:10") == nil)
        let started = Slot(day: handled.day, minute: 480)
        #expect(due("08:30", started: started) == "2026-11-21 08:00")
    }

    @Test(
        "What cannot be, and what timers cannot say, is refused with what would do",
        arguments: [
            ("0 3 * *", "five"), ("0 0 3 * * *", "five"), ("60 * * * *", "minute"), ("0 24 * * *", "hour"),
            ("0 0 0 * *", "day of the month"), ("0 0 * 13 *", "month"), ("0 0 * * 8", "day of the week"),
            ("5/15 * * * *", "5-59/15"), ("*/0 * * * *", "minute"), ("0 0 * * fri-mon", "counts down"),
            ("0 0 L * *", "not cron syntax"), ("0 0 ? * 1#2", "not cron syntax"), ("@reboot", "--catch-up"),
            ("@often", "@hourly"), ("TZ=UTC 0 3 * * *", "--time-zone"), ("0 0 * * someday", "sun to sat"), ("", "five"),
            ("0,,5 * * * *", "minute"), ("1-2-3 * * * *", "minute"), ("0 0 * * \u{1B}[31m", "day of the week"),
        ])
    func refused(text: String, word: String) {
        do throws(ScheduleError) {
            _ = try CronExpression(text)
            Issue.record("not refused")
        } catch {
            #expect(error.code == .invalid && error.description.contains(word), "\(error)")
            #expect(!error.description.contains("\u{1B}"))
        }
    }

    @Test("Rules that would never run, uneven ones, and options that do not fit one are refused")
    func misfits() throws {
        func complaint(_ rule: Recurrence, _ change: (inout ScheduleTiming) -> Void = { _ in }) -> String {
            var timing = ScheduleTiming(rule)
            change(&timing)
            do throws(ScheduleError) {
                try timing.check()
                return ""
            } catch { return error.description }
        }
        #expect(complaint(try cron("0 0 30 2 *")).contains("never run"))
        #expect(complaint(try cron("0 0 31 4,6 *")).contains("never run"))
        #expect(complaint(try cron("0 0 30 2 1")) == "")
        #expect(complaint(.every(minutes: 300)).contains("288m or 6h"))
        #expect(complaint(.every(minutes: 2_880)).contains("--weekly"))
        #expect(complaint(.every(minutes: 0)).contains("1m"))
        #expect(complaint(.every(minutes: 60), { $0.window = 30 }).contains("--window"))
        #expect(complaint(.every(minutes: 60), { $0.readyBy = 30 }).contains("--ready-by"))
        #expect(complaint(.every(minutes: 60), { $0.switchAt = 30 }).contains("--switch-at"))
        #expect(complaint(.daily(at: 60, on: []), { $0.switchAt = 60 }).contains("--switch-at"))
        #expect(complaint(.daily(at: 60, on: []), { ($0.window, $0.switchAt) = (60, 120) }).contains("--switch-at"))
        #expect(complaint(.daily(at: 60, on: []), { ($0.window, $0.switchAt) = (60, 119) }) == "")
        #expect(complaint(.every(minutes: 60), { $0.jitter = 3_600 }).contains("--jitter"))
        #expect(complaint(.every(minutes: 60), { $0.jitter = 3_599 }) == "")
        #expect(complaint(try cron("0 23 1 * *"), { $0.jitter = 3_600 }).contains("past midnight"))
        #expect(complaint(try cron("0 3 * * 1-5"), { $0.window = 30 }) == "")
    }

    @Test(
        "Rules in words",
        arguments: [
            ("0 3 * * 1-5", "every mon-fri 03:00"), ("0 3,15 * * *", "every day 03:00, 15:00"),
            ("*/15 * * * *", "every 15 min"), ("5 * * * *", "every hour from 00:05"),
            ("0 8-18/2 * * 1-5", "every mon-fri, every 2 h from 08:00 to 18:00"),
            ("0 0 1 * *", "on day 1 of the month 00:00"), ("0 0 13 * 5", "every fri or day 13 of the month 00:00"),
            ("0 0 */15 jan 1", "every mon that is day 1,16,31 of the month in jan 00:00"),
            ("1,7,9 1,2 * * *", "6 times a day from 01:01 to 02:09"),
        ])
    func words(text: String, words: String) throws { #expect(try cron(text).description == words) }

    @Test("The other rules in words")
    func moreWords() {
        #expect(Recurrence.daily(at: 120, on: []).words(until: 300) == "every night 02:00-07:00")
        #expect(Recurrence.daily(at: 180, on: [.sun]).description == "every sun 03:00")
        #expect(Recurrence.daily(at: 180, on: [.mon, .wed]).description == "every mon,wed 03:00")
        #expect(
            [1, 60, 90, 360].map { Recurrence.every(minutes: $0).description } == [
                "every minute", "every hour", "every 1 h 30 min", "every 6 h",
            ])
    }
}

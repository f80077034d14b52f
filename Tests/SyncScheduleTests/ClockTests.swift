import SyncModel
import SyncSchedule
import Testing

/// A zone by name, and an instant on its clocks in **milliseconds** since 1970.
private func zone(_ name: String) throws -> Zone { try #require(Zone.named(name)) }

private func instant(_ zone: Zone, _ year: Int64, _ month: Int64, _ day: Int64, _ clock: String) -> Int64 {
    let minutes = ScheduleTiming.minutes(clock) ?? 0
    return zone.first(Int64(minutes) * 60, of: CivilDay(year: year, month: month, day: day)) * 1_000
}

private func timing(_ nightly: String, window: Int? = nil, days: Set<Weekday> = []) -> ScheduleTiming {
    var timing = ScheduleTiming(.daily(at: ScheduleTiming.minutes(nightly) ?? -1, on: days))
    timing.window = window
    return timing
}

/// A machine with a clock, and what it fires.
private struct Machine {
    let clock: ScheduleClock
    var now: Int64
    var handled: Slot?
    var fired: [(night: Occurrence, at: Int64)] = []
    var missed: [Occurrence] = []

    init(_ clock: ScheduleClock, from now: Int64) {
        self.clock = clock
        self.now = now
        handled = clock.outlook(at: now, handled: nil).handled
    }

    /// Looks at the clock as the agent does.
    ///
    /// - Returns: When it would look again.
    mutating func look() -> Int64 {
        let outlook = clock.outlook(at: now, handled: handled)
        if let due = outlook.due { fired.append((due, now)) }
        if let night = outlook.missed, night != missed.last { missed.append(night) }
        handled = outlook.handled
        return outlook.next ?? .max
    }
}

@Suite("The schedule's clock", .timeLimit(.minutes(10)))
struct ClockTests {
    private static let zones = [
        "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia", "UTC",
        "Africa/Cairo", "America/Nuuk", "America/Santiago",
    ]

    @Test("Days become dates and come back, weekdays included")
    func days() {
        #expect(CivilDay(year: 1970, month: 1, day: 1).number == 0)
        #expect(CivilDay(number: 0).weekday == .thu)
        #expect(CivilDay(year: 2026, month: 11, day: 21).description == "2026-11-21")
        #expect(CivilDay(year: 2026, month: 11, day: 21).weekday == .sat)
        #expect(CivilDay(year: 1969, month: 12, day: 31).weekday == .wed)
        for number in stride(from: Int64(-200_000), to: 200_000, by: 37) {
            let (year, month, day) = CivilDay(number: number).date
            #expect(CivilDay(year: year, month: month, day: day).number == number)
        }
    }

    @Test(
        "A time that summer time leaves out is the first moment after it; one that comes twice is the first [S132 F100]",
        arguments: [
            ("Europe/Berlin", (2027, 3, 28), "02:30", "2027-03-28 01:00"),
            ("Europe/Berlin", (2026, 10, 25), "02:30", "2026-10-25 00:30"),
            ("America/New_York", (2027, 3, 14), "02:30", "2027-03-14 07:00"),
            ("America/New_York", (2026, 11, 1), "01:30", "2026-11-01 05:30"),
            ("Australia/Lord_Howe", (2026, 10, 4), "02:10", "2026-10-03 15:30"),
            ("Australia/Lord_Howe", (2027, 4, 4), "01:45", "2027-04-03 14:45"),
            ("Africa/Cairo", (2027, 4, 30), "00:30", "2027-04-29 22:00"),
            ("Asia/Kolkata", (2027, 3, 28), "02:30", "2027-03-27 21:00"),
        ] as [(String, (Int64, Int64, Int64), String, String)])
    func summerTime(
        name: String, date: (Int64, Int64, Int64), clock: String, utc: String
    ) throws {
        let found = instant(try zone(name), date.0, date.1, date.2, clock)
        let parts = utc.split(separator: " ")
        let day = parts[0].split(separator: "-").compactMap { Int64($0) }
        let expected = instant(try zone("UTC"), day[0], day[1], day[2], String(parts[1]))
        #expect(found == expected)
    }

    @Test("A day that a place does not have has no night")
    func missingDay() throws {
        let apia = try zone("Pacific/Apia")
        let nights = (28...31).map { day in
            timing("02:00").occurrences(on: CivilDay(year: 2011, month: 12, day: day), in: apia, delay: 0)
        }
        #expect(nights.map(\.isEmpty) == [false, false, true, false])
    }

    @Test(
        "A year of nights: none early, none missed, none twice [S132]", arguments: zones,
        ["00:00", "01:30", "02:30", "23:45"])
    func year(name: String, clock: String) throws {
        let zone = try zone(name)
        let first = CivilDay(year: 2026, month: 11, day: 21)
        let schedule = ScheduleClock(timing(clock, window: 240), zone: zone, delay: 1_337)
        var machine = Machine(schedule, from: instant(zone, 2026, 11, 20, "12:00"))
        let end = instant(zone, 2027, 11, 21, "12:00")
        while machine.now < end {
            let next = machine.look()
            // As the agent sleeps: until the next night, and six hours at the longest here.
            machine.now = min(next, machine.now + 21_600_000)
        }
        let begin = instant(zone, 2026, 11, 20, "12:00")
        let wanted = (-2...367).map { first.adding($0) }.filter { day in
            let fire = zone.first(Int64(schedule.timing.recurrence.times[0]) * 60 + 1_337, of: day) * 1_000
            return fire > begin && fire < end
        }
        #expect(machine.fired.count == 366)
        #expect(machine.fired.map(\.night.slot.day) == wanted)
        #expect(machine.missed == [])
        for (night, at) in machine.fired {
            #expect(at == night.fire && at >= night.begin, "woken at the moment itself")
            // On the wall it is the wanted time, or the first one there is.
            let (wall, before) = (zone.local(night.begin / 1_000), zone.local(night.begin / 1_000 - 1))
            let clock = Int64(schedule.timing.recurrence.times[0]) * 60
            let isGap = (before.day, before.second) < (night.slot.day, clock) && wall.second > clock
            #expect(wall.second == clock || isGap || wall.day > night.slot.day)
        }
    }

    @Test("Clocks that jump back and forth: none early, none twice, none missed while its window was seen [S46 S132]")
    func jumps() throws {
        for (index, name) in Self.zones.enumerated() {
            let zone = try zone(name)
            var random = Random(seed: UInt64(index + 1))
            let schedule = ScheduleClock(timing("02:30", window: 300), zone: zone, delay: 600)
            var machine = Machine(schedule, from: instant(zone, 2026, 11, 20, "12:00"))
            var seen: Set<CivilDay> = []
            var (truth, error) = (machine.now, Int64(0))
            for _ in 0..<20_000 {
                machine.now = truth + error
                let next = machine.look()
                if let night = schedule.latest(at: machine.now), let end = night.end, machine.now < end {
                    seen.insert(night.slot.day)
                }
                truth = min(next - error, truth + 1_800_000)
                // Now and then the clock is wrong by up to eleven hours, and right again later.
                switch random.next() % 40 {
                case 0: error = Int64(random.next() % 79_200_000) - 39_600_000
                case 1: error = 0
                default: break
                }
            }
            let nights = machine.fired.map(\.night.slot.day)
            #expect(Set(nights).count == nights.count, "\(name): none twice")
            #expect(machine.fired.allSatisfy { $0.at >= $0.night.fire && $0.at < $0.night.end ?? .max })
            #expect(seen.subtracting(nights).filter { $0 > nights[0] } == [], "\(name): none missed")
            #expect(nights.count > 200)
        }
    }

    @Test("A clock that was years ahead is forgotten, and nights go on")
    func wrongYear() throws {
        let utc = try zone("UTC")
        var machine = Machine(
            ScheduleClock(timing("02:00"), zone: utc, delay: 0), from: instant(utc, 2099, 5, 5, "12:00"))
        machine.now = instant(utc, 2099, 5, 6, "02:00")
        _ = machine.look()
        machine.now = instant(utc, 2026, 11, 21, "12:00")
        #expect(machine.look() == instant(utc, 2026, 11, 22, "02:00"))
        machine.now = instant(utc, 2026, 11, 22, "02:00")
        _ = machine.look()
        #expect(machine.fired.map(\.night.slot.day.description) == ["2099-05-06", "2026-11-22"])
    }

    @Test("After a week off, one night is caught up; none when its window is over [S132 F102]")
    func missedRuns() throws {
        let utc = try zone("UTC")
        func wake(_ clock: String, window: Int?) -> Machine {
            var machine = Machine(
                ScheduleClock(timing("02:00", window: window), zone: utc, delay: 0),
                from: instant(utc, 2026, 11, 13, "12:00"))
            machine.now = instant(utc, 2026, 11, 21, clock)
            _ = machine.look()
            machine.now += 1_000
            _ = machine.look()
            return machine
        }
        #expect(wake("09:00", window: nil).fired.map(\.night.slot.day.description) == ["2026-11-21"])
        #expect(wake("01:00", window: nil).fired.map(\.night.slot.day.description) == ["2026-11-20"])
        #expect(wake("05:59", window: 240).fired.map(\.night.slot.day.description) == ["2026-11-21"])
        let late = wake("06:00", window: 240)
        #expect(late.fired.isEmpty && late.missed.map(\.slot.day.description) == ["2026-11-21"])
    }

    @Test("A new schedule makes up no night of the past")
    func new() throws {
        let utc = try zone("UTC")
        let clock = ScheduleClock(timing("02:00", window: 240), zone: utc, delay: 0)
        let outlook = clock.outlook(at: instant(utc, 2026, 11, 21, "03:00"), handled: nil)
        #expect(outlook.due == nil && outlook.next == instant(utc, 2026, 11, 22, "02:00"))
    }

    @Test("Another zone on the way: no night twice, the next one by the new clocks")
    func travel() throws {
        let timing = timing("02:00", window: 240)
        let (berlin, york) = (try zone("Europe/Berlin"), try zone("America/New_York"))
        let now = instant(berlin, 2026, 11, 21, "02:00")
        let fired = ScheduleClock(timing, zone: berlin, delay: 0).outlook(
            at: now, handled: .end(of: CivilDay(year: 2026, month: 11, day: 20)))
        #expect(fired.due != nil)
        let there = ScheduleClock(timing, zone: york, delay: 0)
        let again = there.outlook(at: instant(york, 2026, 11, 21, "02:00"), handled: fired.handled)
        #expect(again.due == nil && again.next == instant(york, 2026, 11, 22, "02:00"))
    }

    @Test("Only the wanted weekdays, also when the delay leads into the next day")
    func weekdays() throws {
        let utc = try zone("UTC")
        let clock = ScheduleClock(timing("23:50", days: [.mon, .fri]), zone: utc, delay: 1_200)
        var machine = Machine(clock, from: instant(utc, 2026, 11, 21, "12:00"))
        for _ in 0..<(24 * 14) {
            _ = machine.look()
            machine.now += 3_600_000
        }
        #expect(machine.fired.map(\.night.slot.day.weekday) == [.mon, .fri, .mon, .fri])
        #expect(machine.fired.allSatisfy { utc.local($0.night.fire / 1_000).second == 600 })
    }

    @Test(
        "What makes no sense is refused, and the option is named",
        arguments: [
            (60, 30, 0, nil, "--window"), (60, 60, 3_600, nil, "--jitter"), (60, 120, 7_200, 4 * 60, "--jitter"),
            (60, nil, 0, 60, "--ready-by"), (60, nil, 7_200, 3 * 60, "--jitter"), (60, nil, 50_000, nil, "--jitter"),
        ] as [(Int, Int?, Int, Int?, String)])
    func refusals(
        nightly: Int, window: Int?, jitter: Int, readyBy: Int?, option: String
    ) {
        var timing = ScheduleTiming(.daily(at: nightly, on: []))
        timing.window = window == 30 ? 1_441 : window
        timing.jitter = jitter
        timing.readyBy = readyBy
        do throws(ScheduleError) {
            try timing.check()
            Issue.record("not refused")
        } catch { #expect(error.code == .invalid && error.description.contains(option), "\(error)") }
    }

    @Test("A window that ends before --ready-by is the end that counts")
    func readyAfterWindow() throws {
        var timing = ScheduleTiming(.daily(at: 120, on: []))
        timing.window = 240
        timing.readyBy = 420
        try timing.check()
        let utc = try Zone.of("UTC")
        let night = try #require(
            timing.occurrences(on: CivilDay(year: 2026, month: 11, day: 21), in: utc, delay: 0).first)
        #expect(night.end == instant(utc, 2026, 11, 21, "06:00") && night.readyBy == night.end)
    }

    @Test("What a night builds is shown at --switch-at, the next morning too, by the clock on the wall")
    func switchAt() throws {
        var timing = ScheduleTiming(.daily(at: 22 * 60, on: []))
        timing.switchAt = 6 * 60 + 45
        try timing.check()
        let zone = try Zone.of("Europe/Berlin")
        let night = try #require(
            timing.occurrences(on: CivilDay(year: 2026, month: 11, day: 21), in: zone, delay: 900).first)
        #expect(night.switchAt == instant(zone, 2026, 11, 22, "06:45"))
        // Clocks are put back in this night.
        let longer = try #require(
            timing.occurrences(on: CivilDay(year: 2026, month: 10, day: 24), in: zone, delay: 0).first)
        #expect(longer.switchAt == instant(zone, 2026, 10, 25, "06:45"))
        #expect(try #require(longer.switchAt) - longer.begin == (9 * 60 + 45) * 60_000)
    }

    @Test(
        "Times of day are read strictly",
        arguments: [
            ("02:00", 120), ("7:30", 450), ("23:59", 1_439), ("24:00", nil), ("2", nil), ("+2:00", nil), ("02:0", nil),
            ("", nil),
        ] as [(String, Int?)])
    func times(text: String, minutes: Int?) { #expect(ScheduleTiming.minutes(text) == minutes) }

    @Test("Zones are IANA names, and one that is not known is refused", arguments: ["CET", "Nowhere/City", "", "../x"])
    func unknownZones(name: String) { #expect(throws: ScheduleError.self) { try Zone.of(name) } }
}

/// SplitMix64: the same numbers in every run.
struct Random {
    private var state: UInt64
    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ value >> 30) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
        return value ^ value >> 31
    }
}

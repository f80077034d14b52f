import SyncModel
import SyncPlugins
import Testing

@testable import SyncSchedule

/// **Milliseconds** of an hour.
private let hour: Int64 = 3_600_000

@Suite(.timeLimit(.minutes(10)))
struct WindowTests {
    /// 2026-11-20 00:00 UTC.
    private let day: Int64 = 1_795_132_800_000
    private let night = DailyWindow(startMinute: 22 * 60, lengthMinutes: 8 * 60, timeZone: "UTC")

    @Test("A window over midnight is open in the evening and in the morning [S49 S134]")
    func overMidnight() {
        for (at, end, next) in [
            (0, 6, 22), (5, 6, 22), (6, nil, 22), (21, nil, 22), (22, 30, 46), (29, 30, 46), (30, nil, 46),
        ] as [(Int64, Int64?, Int64)] {
            let times = wallClock(night, day + at * hour)
            #expect(times?.end == end.map { day + $0 * hour }, "\(at):00")
            #expect(times?.nextBegin == day + next * hour, "\(at):00")
        }
        #expect(wallClock(night, day + 6 * hour - 1)?.end == day + 6 * hour)
        #expect(wallClock(night, day + 22 * hour - 1)?.end == nil)
    }

    @Test("Outside it a run is told when it opens [S53 S134]")
    func condition() throws {
        let condition = WindowCondition(window: night)
        let noon = ConditionContext(destination: "/", now: day + 12 * hour)
        #expect(
            try condition.state(in: noon)
                == .blocked(reason: "outside its time of day, 22:00-06:00 UTC", until: day + 22 * hour))
        #expect(try condition.verdict(at: day + 23 * hour) == .ok)
        let elsewhere = DailyWindow(startMinute: 0, lengthMinutes: 60, timeZone: "Nowhere/At all")
        #expect(try WindowCondition(window: elsewhere).verdict() == .unknown)
    }

    @Test("Summer time: a window lasts its minutes, and begins when a time that is left out would have come")
    func summerTime() {
        // Berlin, 29 March 2026: 02:00 becomes 03:00 at 01:00 UTC. 25 October 2026: 03:00 becomes 02:00 at 01:00 UTC.
        let spring: Int64 = 1_774_742_400_000  // 2026-03-29 00:00 UTC
        let autumn: Int64 = 1_792_886_400_000  // 2026-10-25 00:00 UTC
        func window(_ start: Int, _ length: Int) -> DailyWindow {
            DailyWindow(startMinute: start, lengthMinutes: length, timeZone: "Europe/Berlin")
        }
        let leftOut = window(150, 120)
        #expect(wallClock(leftOut, spring)?.nextBegin == spring + hour)
        #expect(wallClock(leftOut, spring + hour)?.end == spring + 3 * hour)
        let twice = window(150, 120)
        #expect(wallClock(twice, autumn)?.nextBegin == autumn + hour / 2)
        #expect(wallClock(twice, autumn + 2 * hour)?.end == autumn + hour / 2 + 2 * hour)
        #expect(wallClock(twice, autumn + hour / 2 + 2 * hour)?.end == nil, "not a second time")
        #expect(wallClock(window(22 * 60, 8 * 60), spring)?.end == spring + 5 * hour, "8 hours, 07:00 on the wall")
    }

    @Test("A day that a place does not have opens no window")
    func missingDay() {
        // Samoa went from 29 to 31 December 2011, at 10:00 UTC on the 30th.
        let window = DailyWindow(startMinute: 60, lengthMinutes: 60, timeZone: "Pacific/Apia")
        let change: Int64 = 1_325_239_200_000
        #expect(wallClock(window, change - 1)?.nextBegin == change + hour)
    }

    @Test("A window that makes no sense is none", arguments: [-1, 1_441, Int.max, Int.min])
    func noSense(minute: Int) {
        #expect(wallClock(DailyWindow(startMinute: minute, lengthMinutes: 60), day) == nil)
        #expect(wallClock(DailyWindow(startMinute: 0, lengthMinutes: minute), day) == nil)
    }

    @Test("A window of all day is always open, whatever the clock", arguments: Array(stride(from: 0, to: 48, by: 1)))
    func always(hours: Int) {
        let window = DailyWindow(startMinute: 0, lengthMinutes: 1_440, timeZone: "UTC")
        #expect(wallClock(window, -day + Int64(hours) * hour)?.end != nil)
    }

    @Test("The first rate whose time has come counts")
    func rates() {
        let work = RateWindow(
            window: DailyWindow(startMinute: 480, lengthMinutes: 600, timeZone: "UTC"), limit: 2_000_000)
        let lunch = RateWindow(window: DailyWindow(startMinute: 720, lengthMinutes: 60, timeZone: "UTC"), limit: nil)
        let wrong = RateWindow(window: DailyWindow(startMinute: 0, lengthMinutes: 60, timeZone: "x"), limit: 1)
        for (at, limit) in [(0, 9), (8, 2_000_000), (12, nil), (13, 2_000_000), (18, 9)] as [(Int64, UInt64?)] {
            for time in [day + at * hour, day + (at + 1) * hour - 1] {
                #expect(rate(at: time, of: [wrong, lunch, work], usual: 9, clock: wallClock) == limit, "\(at):00")
            }
        }
        #expect(rate(at: day, of: [], usual: 7, clock: wallClock) == 7)
        #expect(rate(at: day + 12 * hour, of: [work, lunch], usual: 9, clock: wallClock) == 2_000_000)
    }
}

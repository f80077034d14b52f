package import SyncModel

/// The rule by which a schedule comes again. Timers, crontabs and the agent's own clock are all made from what stands
/// here, so a new kind of rule is a case of this type and nothing else.
///
/// Every rule names times of day on days of the calendar, on the clock on the wall. A time that summer time leaves out is
/// the first moment after it; one that comes twice is the first of the two.
package enum Recurrence: Sendable, Equatable {
    /// At so many **minutes** after midnight, 0...1439, on these days of the week; empty for all.
    case daily(at: Int, on: Set<Weekday>)
    /// Every so many **minutes**, counted from midnight; a day is a whole number of them.
    case every(minutes: Int)
    /// As crontab(5) writes it.
    case cron(CronExpression)

    /// The times of day, **minutes** after midnight, ascending; never empty for a rule that ``check()`` accepts.
    package var times: [Int] {
        switch self {
        case .daily(let minute, _): [minute]
        case .every(let minutes): minutes > 0 ? Array(stride(from: 0, to: 1_440, by: minutes)) : []
        case .cron(let expression): expression.times
        }
    }

    /// The days.
    package var days: CalendarDays {
        switch self {
        case .daily(_, let weekdays): CalendarDays(weekdays: weekdays)
        case .every: CalendarDays()
        case .cron(let expression): expression.days
        }
    }

    /// The time of day of a rule that has one, **minutes** after midnight.
    package var onlyTime: Int? {
        let times = times
        return times.count == 1 ? times[0] : nil
    }

    /// The shortest time between two occurrences, **minutes** on the clock.
    var shortestGap: Int {
        let times = times
        guard let first = times.first, let last = times.last, times.count > 1 else { return 1_440 }
        let within = zip(times, times.dropFirst()).map { $1 - $0 }.min() ?? 1_440
        return min(within, first + 1_440 - last)
    }

    /// - Throws: ``ScheduleError`` with code `invalid`; options are named as on the command line.
    func check() throws(ScheduleError) {
        switch self {
        case .daily(let minute, _):
            guard (0..<1_440).contains(minute) else {
                throw ScheduleError(.invalid, "A time of day is 00:00 to 23:59.")
            }
        case .every(let minutes):
            guard minutes > 0, minutes <= 1_440, 1_440 % minutes == 0 else {
                throw ScheduleError(.invalid, Self.uneven(minutes))
            }
        case .cron(let expression):
            guard expression.days.everComes else {
                throw ScheduleError(
                    .invalid,
                    "--cron '\(expression)' names a day that no month of it has: it would never run."
                )
            }
        }
    }

    private static func uneven(_ minutes: Int) -> String {
        let even = (1...1_440).filter { 1_440 % $0 == 0 }
        let near = [even.last { $0 < minutes }, even.first { $0 > minutes }].compactMap { $0 }
            .map { ScheduleTiming.length(seconds: $0 * 60) }
        return
            "--every takes whole minutes that divide a day evenly, 1m to 24h, since timers and cron count from midnight: "
            + "\(near.joined(separator: " or ")) would do. Longer and uneven ones are for --weekly or --cron."
    }
}

/// Which days of the calendar a rule is for.
package struct CalendarDays: Sendable, Equatable {
    /// Empty for all.
    package var weekdays: Set<Weekday> = []
    /// 1...31; empty for all.
    package var monthDays: Set<Int> = []
    /// 1...12; empty for all.
    package var months: Set<Int> = []
    /// cron's field for days of the month, or of the week, where it begins with `*` and is more: then a day has to be in
    /// both, else in one of them. crontab(5), "Note: The day of a command's execution"
    package var starredField: StarredField?

    /// A field such as `*/2`.
    package enum StarredField: Sendable, Equatable {
        case monthDay(String)
        case weekday(String)
    }

    /// All days, or these of every week.
    package init(weekdays: Set<Weekday> = []) { self.weekdays = weekdays }

    /// Whether a day is wanted.
    package func includes(_ day: CivilDay) -> Bool {
        if weekdays.isEmpty, monthDays.isEmpty, months.isEmpty { return true }
        let date = day.date
        guard months.isEmpty || months.contains(Int(date.month)) else { return false }
        let isWeekday = weekdays.contains(day.weekday)
        let isMonthDay = monthDays.contains(Int(date.day))
        if weekdays.isEmpty { return monthDays.isEmpty || isMonthDay }
        if monthDays.isEmpty { return isWeekday }
        return starredField == nil ? isWeekday || isMonthDay : isWeekday && isMonthDay
    }

    /// Whether any day is wanted: 30 February is none.
    var everComes: Bool {
        guard !monthDays.isEmpty, weekdays.isEmpty || starredField != nil else { return true }
        let start = CivilDay(year: 2000, month: 1, day: 1)
        // The calendar comes again after 400 years; 28 of them have every date on every weekday.
        return (Int64(0)...10_300).contains { includes(start.adding($0)) }
    }
}

package import SyncModel

/// The rule by which a schedule recurs. Timers, crontabs and the agent's own clock are all derived from this type, so a
/// new kind of rule is a new case here and nothing else.
///
/// Every rule gives times of day on calendar days, on the wall clock. A time that a clock change skips is the first
/// moment after it; one that comes twice is the first of the two.
package enum Recurrence: Sendable, Equatable {
    /// At this many **minutes** after midnight, 0...1439, on these days of the week; empty for all.
    case daily(at: Int, on: Set<Weekday>)
    /// Every this many **minutes**, counted from midnight; they divide a day evenly.
    case every(minutes: Int)
    /// As crontab(5) writes it.
    case cron(CronExpression)

    /// The times of day, in **minutes** after midnight, ascending; never empty for a rule that ``check()`` accepts.
    package var times: [Int] {
        switch self {
        case .daily(let minute, _): [minute]
        case .every(let minutes): minutes > 0 ? Array(stride(from: 0, to: 1_440, by: minutes)) : []
        case .cron(let expression): expression.times
        }
    }

    package var days: CalendarDays {
        switch self {
        case .daily(_, let weekdays): CalendarDays(weekdays: weekdays)
        case .every: CalendarDays()
        case .cron(let expression): expression.days
        }
    }

    /// The time of day, in **minutes** after midnight, of a rule with exactly one.
    package var onlyTime: Int? {
        let times = times
        return times.count == 1 ? times[0] : nil
    }

    /// The shortest time between two occurrences, in **minutes** on the clock.
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
                    .invalid, "--cron '\(expression.text)' names a day that none of its months has: it would never run."
                )
            }
        }
    }

    private static func uneven(_ minutes: Int) -> String {
        let even = (1...1_440).filter { 1_440 % $0 == 0 }
        let near = [even.last { $0 < minutes }, even.first { $0 > minutes }].compactMap { $0 }.map {
            // As typed.
            $0 % 60 == 0 ? "\($0 / 60)h" : "\($0)m"
        }
        return
            "--every takes whole minutes that divide a day evenly, 1m to 24h, since timers and cron count from midnight: "
            + "\(near.joined(separator: " or ")) would work. Use --weekly or --cron for longer and uneven intervals."
    }
}

/// The days of a rule, by day of the week, day of the month and month.
package struct CalendarDays: Sendable, Equatable {
    /// Empty for all.
    package var weekdays: Set<Weekday> = []
    /// 1...31; empty for all.
    package var monthDays: Set<Int> = []
    /// 1...12; empty for all.
    package var months: Set<Int> = []
    /// cron's field for days of the month, or of the week, if it begins with `*` and is longer: then a day has to match
    /// both fields, otherwise one of them. crontab(5), "Note: The day of a command's execution"
    package var starredField: StarredField?

    /// A field such as `*/2`.
    package enum StarredField: Sendable, Equatable {
        case monthDay(String)
        case weekday(String)
    }

    /// All days, or these days of every week.
    package init(weekdays: Set<Weekday> = []) { self.weekdays = weekdays }

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

    /// Whether the rule includes any day: 30 February never comes.
    var everComes: Bool {
        guard !monthDays.isEmpty, weekdays.isEmpty || starredField != nil else { return true }
        let start = CivilDay(year: 2000, month: 1, day: 1)
        // The calendar repeats after 400 years; 28 of them have every date on every weekday.
        return (Int64(0)...10_300).contains { includes(start.adding($0)) }
    }
}

extension Recurrence: CustomStringConvertible {
    /// `every night 02:00`, `every sun 03:00`, `every 6 h`, `every mon-fri 03:00, 15:00`.
    package var description: String { words(until: nil) }

    /// The rule in words.
    ///
    /// - Parameter window: Its length, in **minutes**; only for a rule with one time a day.
    package func words(until window: Int?) -> String {
        switch self {
        case .daily(let minute, let weekdays):
            let days = weekdays.isEmpty ? "every night" : "every \(Self.list(weekdays))"
            return "\(days) \(Self.span(minute, window))"
        case .every(let minutes): return "every \(Self.length(minutes))"
        case .cron(let expression):
            let times = expression.times
            let days = Self.words(expression.days)
            if let only = onlyTime { return "\(days ?? "every day") \(Self.span(only, window))" }
            if times.count <= 4 {
                return "\(days ?? "every day") \(times.map(ScheduleTiming.time).joined(separator: ", "))"
            }
            let text = Self.words(of: times)
            return days.map { "\($0), \(text)" } ?? text
        }
    }

    /// `02:00`, `02:00-07:00`.
    private static func span(_ minute: Int, _ window: Int?) -> String {
        let start = ScheduleTiming.time(minute)
        return window.map { "\(start)-\(ScheduleTiming.time((minute + $0) % 1_440))" } ?? start
    }

    /// `hour`, `6 h`, `15 min`.
    private static func length(_ minutes: Int) -> String {
        if minutes == 60 { return "hour" }
        if minutes == 1 { return "minute" }
        return Figures.period(Int64(minutes) * 60_000)
    }

    /// More than four times a day.
    private static func words(of times: [Int]) -> String {
        guard let first = times.first, let last = times.last else { return "never" }
        let gaps = Set(zip(times, times.dropFirst()).map { $1 - $0 })
        guard gaps.count == 1, let gap = gaps.first else {
            return "\(times.count) times a day from \(ScheduleTiming.time(first)) to \(ScheduleTiming.time(last))"
        }
        // Around the clock, or only part of the day.
        if first + 1_440 - last == gap {
            return "every \(length(gap))" + (first == 0 ? "" : " from \(ScheduleTiming.time(first))")
        }
        return "every \(length(gap)) from \(ScheduleTiming.time(first)) to \(ScheduleTiming.time(last))"
    }

    /// `every mon-fri`, `on day 1,15 of the month in jan`; `nil` for all days.
    private static func words(_ days: CalendarDays) -> String? {
        let numbers = days.monthDays.sorted().map(String.init).joined(separator: ",")
        let names = list(days.weekdays)
        var text: String
        switch (days.weekdays.isEmpty, days.monthDays.isEmpty) {
        case (true, true):
            if days.months.isEmpty { return nil }
            text = "every day"
        case (false, true): text = "every \(names)"
        case (true, false): text = "on day \(numbers) of the month"
        case (false, false):
            text =
                days.starredField == nil
                ? "every \(names) or day \(numbers) of the month" : "every \(names) that is day \(numbers) of the month"
        }
        if !days.months.isEmpty {
            let names = days.months.sorted().map { CronExpression.months[($0 - 1) % 12] }
            text += " in " + names.joined(separator: ",")
        }
        return text
    }

    /// `mon,tue`, `mon-fri`.
    private static func list(_ days: Set<Weekday>) -> String {
        let wanted = Weekday.allCases.filter(days.contains)
        let first = wanted.first.flatMap { Weekday.allCases.firstIndex(of: $0) } ?? 0
        let isRun = wanted.count > 2 && Array(Weekday.allCases[first...].prefix(wanted.count)) == wanted
        if isRun, let low = wanted.first, let high = wanted.last { return "\(low.rawValue)-\(high.rawValue)" }
        return wanted.map(\.rawValue).joined(separator: ",")
    }
}

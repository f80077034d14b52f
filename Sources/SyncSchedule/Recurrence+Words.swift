import SyncModel

extension Recurrence: CustomStringConvertible {
    /// `every night 02:00`, `every sun 03:00`, `every 6 h`, `every mon-fri 03:00, 15:00`.
    package var description: String { words(until: nil) }

    /// The rule in words.
    ///
    /// - Parameter window: How long it lasts, in **minutes**; of a rule with one time a day.
    package func words(until window: Int?) -> String {
        switch self {
        case .daily(let minute, let weekdays):
            let days = weekdays.isEmpty ? "every night" : "every \(Self.list(weekdays))"
            return "\(days) \(Self.span(minute, window))"
        case .every(let minutes):
            return "every \(Self.length(minutes))"
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
        return minutes % 60 == 0 ? "\(minutes / 60) h" : "\(minutes) min"
    }

    /// More than four times of a day.
    private static func words(of times: [Int]) -> String {
        guard let first = times.first, let last = times.last else { return "never" }
        let gaps = Set(zip(times, times.dropFirst()).map { $1 - $0 })
        guard gaps.count == 1, let gap = gaps.first else {
            return
                "\(times.count) times a day from \(ScheduleTiming.time(first)) to \(ScheduleTiming.time(last))"
        }
        // All round the clock, or a part of it.
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
                ? "every \(names) or day \(numbers) of the month"
                : "every \(names) that is day \(numbers) of the month"
        }
        if !days.months.isEmpty {
            let months = [
                "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
            ]
            text += " in " + days.months.sorted().map { months[($0 - 1) % 12] }.joined(separator: ",")
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

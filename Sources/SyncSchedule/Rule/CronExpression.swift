import SyncModel

/// The five fields of crontab(5): minute, hour, day of the month, month, day of the week.
package struct CronExpression: Sendable, Equatable {
    /// As written, with one space between fields.
    package let text: String
    /// **Minutes** after midnight, ascending.
    package let times: [Int]
    package let days: CalendarDays

    /// Parses `0 3 * * 1-5`: numbers, names, `*`, ranges, lists, steps after a range or `*`, and names such as
    /// `@daily`.
    ///
    /// - Throws: ``ScheduleError`` with code `invalid` that names the field and what would work.
    package init(_ text: String) throws(ScheduleError) {
        let words = text.split { $0 == " " || $0 == "\t" }.map(String.init)
        var fields = words
        if let first = words.first, first.hasPrefix("@") {
            guard words.count == 1, let meaning = Self.names[first.lowercased()] else {
                throw Self.invalid(
                    first.lowercased() == "@reboot"
                        ? "'@reboot' is not a time: a machine that was off catches up by itself (--catch-up)."
                        : "'\(escaped(text))' is not one of @hourly, @daily, @weekly, @monthly and @yearly.")
            }
            fields = meaning.split(separator: " ").map(String.init)
        }
        guard fields.count == 5 else {
            let shape = "minute, hour, day of the month, month and day of the week"
            throw Self.invalid(
                fields.contains { $0.contains("=") }
                    ? "'\(escaped(text))' sets a variable: use --time-zone for a zone."
                    : "'\(escaped(text))' has \(fields.count) fields; there are five: \(shape), such as '0 3 * * 1-5'.")
        }
        let minutes = try Field.minute.values(fields[0])
        let hours = try Field.hour.values(fields[1])
        times = hours.sorted().flatMap { hour in minutes.sorted().map { hour * 60 + $0 } }
        var days = CalendarDays()
        if fields[2] != "*" { days.monthDays = Set(try Field.monthDay.values(fields[2])) }
        if fields[3] != "*" { days.months = Set(try Field.month.values(fields[3])) }
        if fields[4] != "*" { days.weekdays = Set(try Field.weekday.values(fields[4]).map { Self.weekdays[$0 % 7] }) }
        if !days.monthDays.isEmpty, !days.weekdays.isEmpty {
            if fields[2].hasPrefix("*") {
                days.starredField = .monthDay(fields[2])
            } else if fields[4].hasPrefix("*") {
                days.starredField = .weekday(fields[4])
            }
        }
        // A field with all values restricts nothing, or, if one of the two is enough, allows every day.
        let isEither = days.starredField == nil && !days.monthDays.isEmpty && !days.weekdays.isEmpty
        if days.weekdays.count == 7 || days.monthDays.count == 31 {
            if isEither || days.weekdays.count == 7 { days.weekdays = [] }
            if isEither || days.monthDays.count == 31 { days.monthDays = [] }
            days.starredField = nil
        }
        if days.months.count == 12 { days.months = [] }
        self.days = days
        self.text = words.joined(separator: " ")
    }

    /// In cron's order.
    static let weekdays: [Weekday] = [.sun, .mon, .tue, .wed, .thu, .fri, .sat]
    static let months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]

    private static let names = [
        "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
        "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
    ]

    fileprivate static func invalid(_ text: String) -> ScheduleError { ScheduleError(.invalid, "--cron: \(text)") }
}

private struct Field {
    let name: String
    let range: ClosedRange<Int>
    /// Names of values, from the first of ``range`` on, three letters each.
    var names: [String] = []

    static let minute = Field(name: "minute", range: 0...59)
    static let hour = Field(name: "hour", range: 0...23)
    static let monthDay = Field(name: "day of the month", range: 1...31)
    static let month = Field(name: "month", range: 1...12, names: CronExpression.months)
    /// 0 and 7 are both Sunday.
    static let weekday = Field(
        name: "day of the week", range: 0...7, names: ["sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun"])

    func values(_ text: String) throws(ScheduleError) -> Set<Int> {
        var values: Set<Int> = []
        for item in text.split(separator: ",", omittingEmptySubsequences: false) {
            let parts = item.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
            guard (1...2).contains(parts.count) else { throw invalid(String(item)) }
            let bounds = try bounds(parts[0])
            var step = 1
            if parts.count == 2 {
                guard let number = wholeNumber(parts[1]), number > 0 else { throw invalid(String(item)) }
                guard parts[0] == "*" || parts[0].contains("-") else {
                    throw CronExpression.invalid(
                        "'\(escaped(String(item)))' in the \(name): a step follows a range or '*', such as "
                            + "\(bounds.lowerBound)-\(range.upperBound)/\(number).")
                }
                step = number
            }
            values.formUnion(stride(from: bounds.lowerBound, through: bounds.upperBound, by: step))
        }
        return values
    }

    private func bounds(_ text: String) throws(ScheduleError) -> ClosedRange<Int> {
        // Sunday is at both ends of the week; `*` includes it once.
        if text == "*" { return range.lowerBound...(name == Self.weekday.name ? 6 : range.upperBound) }
        let ends = text.split(separator: "-", omittingEmptySubsequences: false).map(String.init)
        guard (1...2).contains(ends.count), let low = value(ends[0]) else { throw invalid(text) }
        guard ends.count == 2 else { return low...low }
        guard var high = value(ends[1]) else { throw invalid(text) }
        // `sat-sun`: the Sunday at the end.
        if high == 0, low > 0, name == Self.weekday.name { high = 7 }
        guard low <= high else {
            throw CronExpression.invalid(
                "'\(escaped(text))' in the \(name) counts down; write it as two, such as "
                    + "\(ends[0])-\(range.upperBound),\(range.lowerBound)-\(ends[1]).")
        }
        return low...high
    }

    private func value(_ text: String) -> Int? {
        if let index = names.firstIndex(of: text.lowercased()) { return range.lowerBound + index }
        return wholeNumber(text).flatMap { range.contains($0) ? $0 : nil }
    }

    private func wholeNumber(_ text: String) -> Int? {
        guard (1...2).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return nil
        }
        return Int(text)
    }

    private func invalid(_ text: String) -> ScheduleError {
        var words = "'\(escaped(text))' is not a valid \(name): \(range.lowerBound) to \(range.upperBound)"
        if let first = names.first, let last = names.dropLast(range.upperBound == 7 ? 1 : 0).last {
            words += ", \(first) to \(last)"
        }
        words += ", lists with ',', ranges with '-', steps with '/'."
        if text.contains(where: { "?LW#~".contains($0) }) {
            words += " '?', 'L', 'W', '#' and '~' are not cron syntax; use --jitter to delay each machine differently."
        }
        return CronExpression.invalid(words)
    }
}

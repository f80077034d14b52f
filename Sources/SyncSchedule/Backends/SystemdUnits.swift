import SyncModel

/// The two units of a schedule for systemd: systemd.service(5), systemd.timer(5).
struct SystemdUnits: Sendable {
    private let start: ScheduledStart
    /// Whether the machine's manager starts them, not the user's, which ends with the last session unless the user
    /// lingers.
    private let isForMachine: Bool
    /// The times, in the format of systemd.time(7).
    ///
    /// systemd skips a time that does not exist on the day when clocks are put forward: those days get lines of their
    /// own, with the first minute that exists. A time that comes twice is used once, the first.
    let calendar: [String]

    init(_ start: ScheduledStart, isForMachine: Bool) {
        (self.start, self.isForMachine) = (start, isForMachine)
        let (timing, delay) = (start.clock.timing, start.clock.delay)
        let zoneName = timing.timeZone.map { " " + $0 } ?? ""
        let calendar = TimerLine.lines(timing, delay: delay).flatMap { line in
            Self.dates(line.days).map { "\($0) \(Self.clock(line))\(zoneName)" }
        }
        self.calendar = calendar + Self.leftOut(start, zoneName)
    }

    var stem: String { Self.stem(start.name) }
    var service: String { stem + ".service" }
    var timer: String { stem + ".timer" }

    /// The name of both units of a schedule, without suffix.
    static func stem(_ name: String) -> String { "syncagent-schedule-\(name)" }

    /// The days of a rule; two entries if a day may match either field.
    private static func dates(_ days: CalendarDays) -> [String] {
        func date(_ weekdays: Set<Weekday>, _ monthDays: Set<Int>) -> String {
            let names = Weekday.allCases.filter(weekdays.contains).map(day).joined(separator: ",")
            return (names.isEmpty ? "" : names + " ")
                + "*-\(TimerLine.list(days.months.sorted(), all: 12, digits: 2))-\(TimerLine.list(monthDays.sorted(), all: 31, digits: 2))"
        }
        guard !days.weekdays.isEmpty, !days.monthDays.isEmpty, days.starredField == nil else {
            return [date(days.weekdays, days.monthDays)]
        }
        return [date(days.weekdays, []), date([], days.monthDays)]
    }

    /// Lines for the days on which clocks are put forward over a time of the schedule.
    ///
    /// Most places change clocks on the first, second or last Sunday of a month: such a rule is one line that holds
    /// every year. Otherwise, for example where Ramadan decides, there are dates for eleven years.
    private static func leftOut(_ start: ScheduledStart, _ zoneName: String) -> [String] {
        struct Rule: Hashable {
            let month: Int64
            let weekday: Weekday
            let second: Int64
        }
        let (timing, zone, delay) = (start.clock.timing, start.clock.zone, start.clock.delay)
        // From 1 January on, so that the units are the same from day to day. After 28 years, each date has been each
        // day of the week.
        let first = CivilDay(year: start.today.date.year, month: 1, day: 1)
        let days = (Int64(0)..<28 * 365 + 7).map(first.adding)
        var changes: [Rule: [CivilDay]] = [:]
        for day in days where zone.steadyOffset(around: day) == nil {
            for occurrence in timing.occurrences(on: day, in: zone, delay: delay) {
                let wanted = Int64(occurrence.slot.minute * 60 + delay)
                let found = zone.local(zone.first(wanted, of: day))
                guard found.second != wanted % 86_400 else { continue }
                let rule = Rule(month: found.day.date.month, weekday: found.day.weekday, second: found.second)
                if changes[rule]?.last != found.day { changes[rule, default: []].append(found.day) }
            }
        }
        return changes.flatMap { rule, found in
            let monthDays = Set(found.map(\.date.day))
            let everyYear = days.filter {
                $0.date.month == rule.month && monthDays.contains($0.date.day) && $0.weekday == rule.weekday
            }
            guard everyYear == found else {
                return found.filter { $0.number < first.number + 4_018 }.map {
                    "\($0) \(clock(rule.second))\(zoneName)"
                }
            }
            let numbers = monthDays.sorted().map { padded(Int($0), 2) }.joined(separator: ",")
            let month = padded(Int(rule.month), 2)
            return ["\(day(rule.weekday)) *-\(month)-\(numbers) \(clock(rule.second))\(zoneName)"]
        }.sorted()
    }

    private static func clock(_ line: TimerLine) -> String {
        "\(TimerLine.list(line.hours, all: 24, digits: 2)):\(TimerLine.list(line.minutes, all: 60, digits: 2)):\(padded(line.second, 2))"
    }

    var serviceText: String {
        let program = start.program
        // systemd accepts no program path with quotes or backslashes; env(1) does.
        let isPlain = program.path.utf8.allSatisfy { !"\"'\\".utf8.contains($0) }
        let words =
            isPlain ? [Self.quoted(program.path, isProgram: true)] : ["/usr/bin/env", Self.quoted(program.path)]
        let command = (words + program.arguments.map { Self.quoted($0) }).joined(separator: " ")
        var lines = [
            Self.mark, "[Unit]", "Description=Scheduled pull \(start.name)", "Documentation=man:systemd.exec(5)",
        ]
        if isForMachine { lines += ["Wants=network-online.target", "After=network-online.target"] }
        lines += ["", "[Service]", "Type=oneshot"]
        lines += program.variables.map { "Environment=" + Self.quoted($0, isVariable: true) }
        lines += [
            "ExecStart=\(command)", "TimeoutStartSec=infinity", "TimeoutStopSec=30s",
            "# 75: the window is over and work is left for the next time; 143: stopped, the agent goes on.",
            "SuccessExitStatus=75 143", "# The agent that it may have started goes on with other work.",
            "KillMode=process", "", "UMask=0022", "NoNewPrivileges=yes", "RestrictRealtime=yes", "RestrictSUIDSGID=yes",
            "LockPersonality=yes", "SystemCallArchitectures=native",
            "# A guest on the machine: it leaves disk and processor to whoever needs them.", "Nice=10",
            "IOSchedulingClass=best-effort", "IOSchedulingPriority=7",
        ]
        return lines.joined(separator: "\n") + "\n"
    }

    var timerText: String {
        let timing = start.clock.timing
        let lines =
            [
                Self.mark, "[Unit]", "Description=Scheduled pull \(start.name), \(timing.recurrence)",
                "Documentation=man:systemd.timer(5)", "", "[Timer]",
            ] + calendar.map { "OnCalendar=\($0)" } + [
                timing.catchesUp
                    ? "# Machines that were off or asleep catch up; the program knows whether that still makes sense."
                    : "# A machine that was off does not catch up on what it missed.", "Persistent=\(timing.catchesUp)",
                "# The machine's own delay is in the time above.", "AccuracySec=1s", "", "[Install]",
                "WantedBy=timers.target",
            ]
        return lines.joined(separator: "\n") + "\n"
    }

    /// The first line of both files: only files with this mark may be replaced and removed.
    static let mark = "# Written by 'syncagent schedule add'; it replaces this file, 'schedule remove' removes it."

    private static func day(_ day: Weekday) -> String { day.rawValue.prefix(1).uppercased() + day.rawValue.dropFirst() }

    private static func clock(_ second: Int64) -> String {
        "\(padded(second / 3_600, 2)):\(padded(second / 60 % 60, 2)):\(padded(second % 60, 2))"
    }

    /// A word quoted for systemd.syntax(7) and "COMMAND LINES" in systemd.service(5).
    ///
    /// - Parameters:
    ///   - text: Without control characters.
    ///   - isProgram: Whether it is a program's path, in which `$` is not expanded.
    ///   - isVariable: Whether it is for `Environment=`, where `$` is not expanded either.
    static func quoted(_ text: String, isProgram: Bool = false, isVariable: Bool = false) -> String {
        var result = "\""
        for character in text.unicodeScalars {
            switch character {
            case "\\", "\"": result += "\\\(character)"
            case "%": result += "%%"
            case "$" where !isProgram && !isVariable: result += "$$"
            default: result.unicodeScalars.append(character)
            }
        }
        return result + "\""
    }
}

import ArgumentParser
import SyncModel
import SyncSchedule

/// When a schedule runs, and what starts it.
struct ScheduleOptions: ParsableArguments {
    @Option(help: "Every night at this time, in 24-hour notation: 02:00.".taking("time")) var nightly: String?

    @Option(help: "On these days of every week, at this time: 'sun 03:00', 'mon,thu 22:30'.".taking("days time"))
    var weekly: String?

    @Option(
        help: "At this interval, counted from midnight; it must divide the day: 15m, 1h, 6h.".taking("time"),
        transform: period)
    var every: Duration?

    @Option(
        help: "By a cron expression of five fields, '0 3 * * 1-5', or @daily and the like.".taking("rule"),
        transform: { text in try checked(CronExpression(text)) })
    var cron: CronExpression?

    @Option(
        help:
            "How long a run may last: 4h, 90m. Nothing is transferred afterwards. For schedules with one time a day.  (default: no end)"
            .taking("time"), transform: period)
    var window: Duration?

    @Option(
        help: "When everything must be in place: 07:00. The run starts as late as earlier nights allow.".taking("time"))
    var readyBy: String?

    @Option(
        help:
            "With --atomic: show the new revision at this time, such as 06:45, instead of as soon as it is complete. One that is complete only later is shown at once."
            .taking("time"))
    var switchAt: String?

    @Option(
        help:
            "Delay the start by up to this much, such as 30m; each machine has its own fixed delay.  (default: none)"
            .taking("time"), transform: period)
    var jitter: Duration?

    @Option(
        name: .customLong("on"),
        help: "With --nightly: only on these days: mon,tue,fri.  (default: all)".taking("days"), transform: weekdays)
    var days: Set<Weekday> = []

    @Option(help: "The time zone of these times, such as Europe/Berlin.  (default: the machine's)".taking("zone"))
    var timeZone: String?

    @Option(help: "The schedule's name.  (default: the session's, or the destination's)".taking("name"))
    var name: String?

    @Option(help: "Whether a machine that was off or asleep catches up on a missed run: yes or no.".taking("answer"))
    var catchUp: Answer = .yes

    enum Answer: String, ExpressibleByArgument, CaseIterable { case yes, no }

    @Option(help: "What starts the runs: auto, systemd, cron or agent.".taking("what")) var backend = BackendChoice()

    @Flag(help: "Run even if the machine is busy; without this, runs are --discretionary.") var interactive = false

    @Flag(help: "Set it up for the whole machine instead of the user; needs root.") var system = false

    func validate() throws {
        if let name { try checked(ScheduleName.check(name), naming: "--name: ") }
        _ = try timing()
    }

    func timing() throws -> ScheduleTiming {
        func minutes(_ text: String, _ option: String) throws -> Int {
            guard let minutes = ScheduleTiming.minutes(text) else {
                throw ValidationError("\(option): '\(escaped(text))' is not a time of day such as 02:00.")
            }
            return minutes
        }
        let rules = [
            ("--nightly", nightly != nil), ("--weekly", weekly != nil), ("--every", every != nil),
            ("--cron", cron != nil),
        ].filter(\.1)
        guard rules.count == 1 else {
            throw ValidationError(
                rules.isEmpty
                    ? "When should it run? --nightly 02:00, --weekly 'sun 03:00', --every 6h or --cron '0 3 * * 1-5'."
                    : "\(rules.map(\.0).joined(separator: " and ")) are mutually exclusive: a schedule has one rule.")
        }
        if nightly == nil, !days.isEmpty { throw ValidationError("--on is for --nightly, not for \(rules[0].0).") }
        let recurrence: Recurrence
        if let nightly {
            recurrence = .daily(at: try minutes(nightly, "--nightly"), on: days)
        } else if let weekly {
            let words = weekly.split(separator: " ").map(String.init)
            guard words.count == 2 else {
                throw ValidationError("--weekly takes days and a time, such as 'sun 03:00' or 'mon,thu 22:30'.")
            }
            recurrence = .daily(at: try minutes(words[1], "--weekly"), on: try weekdays(words[0]))
        } else if let every {
            let seconds = Int(every.components.seconds)
            // An interval that is not a whole number of minutes cannot divide a day either.
            recurrence = .every(minutes: seconds % 60 == 0 ? seconds / 60 : 0)
        } else if let cron {
            recurrence = .cron(cron)
        } else {
            throw ValidationError("There is no rule.")
        }
        var timing = ScheduleTiming(recurrence)
        timing.catchesUp = catchUp == .yes
        if let window {
            let seconds = Int(window.components.seconds)
            guard seconds % 60 == 0 else { throw ValidationError("--window takes whole minutes, such as 90m or 4h.") }
            timing.window = seconds / 60
        }
        timing.readyBy = try readyBy.map { try minutes($0, "--ready-by") }
        timing.switchAt = try switchAt.map { try minutes($0, "--switch-at") }
        timing.jitter = jitter.map { Int($0.components.seconds) } ?? 0
        timing.timeZone = timeZone
        try checked(timing.check())
        return timing
    }
}

/// Runs a check of a schedule's values for the argument parser.
///
/// - Parameter option: The prefix of the message.
private func checked<R>(_ check: @autoclosure () throws(ScheduleError) -> R, naming option: String = "") throws -> R {
    try rethrowing(check()) { (error: ScheduleError) in ValidationError(option + error.description) }
}

/// The value of `--backend`: `auto`, or the name of a backend.
struct BackendChoice: ExpressibleByArgument {
    static let allValueStrings = ScheduleInstallation().backends.map(\.choice).reduce(into: ["auto"]) {
        if !$0.contains($1) { $0.append($1) }
    }

    /// `nil` for `auto`.
    var named: String?
    var defaultValueDescription: String { named ?? "auto" }

    init() {}

    init?(argument: String) {
        guard Self.allValueStrings.contains(argument) else { return nil }
        named = argument == "auto" ? nil : argument
    }
}

/// Parses a list such as `mon,tue`.
@Sendable private func weekdays(_ text: String) throws -> Set<Weekday> {
    let days = text.lowercased().split(separator: ",", omittingEmptySubsequences: false).map {
        Weekday(rawValue: String($0))
    }
    guard !days.isEmpty, !days.contains(nil) else {
        throw ValidationError("'\(escaped(text))' is not a list of days such as mon,tue,wed,thu,fri,sat,sun.")
    }
    return Set(days.compactMap(\.self))
}

extension ScheduleOptions {
    /// Joins `--weekly sun 03:00`, as people type it, to one value, as the parser requires.
    ///
    /// - Parameter words: The arguments, without the program's name.
    static func joined(_ words: [String]) -> [String] {
        guard words.prefix(2) == ["schedule", "add"], let index = words.firstIndex(of: "--weekly"),
            words.count > index + 2, ScheduleTiming.minutes(words[index + 2]) != nil, !words[index + 1].contains(" ")
        else { return words }
        return words[..<index] + ["--weekly", "\(words[index + 1]) \(words[index + 2])"] + words[(index + 3)...]
    }
}

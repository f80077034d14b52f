import SyncControl
import SyncModel
import SyncSchedule

/// Schedules in plain words.
struct ScheduleText: Sendable {
    /// **Milliseconds** since 1970.
    let now: Int64

    /// `every night 02:00 to 06:00`.
    func nights(_ clock: ScheduleClock) -> String {
        let timing = clock.timing
        var text = timing.days.isEmpty ? "every night" : days(timing.days)
        text += " " + hours(timing)
        if let zone = timing.timeZone { text += " \(escaped(zone))" }
        if let readyBy = timing.readyBy { text += ", ready by \(ScheduleTiming.time(readyBy))" }
        return text
    }

    /// `02:00-06:00`.
    func hours(_ timing: ScheduleTiming) -> String {
        let start = ScheduleTiming.time(timing.nightly)
        return timing.window.map { "\(start)-\(ScheduleTiming.time((timing.nightly + $0) % 1_440))" } ?? start
    }

    /// `mon,tue`.
    func days(_ days: Set<Weekday>) -> String {
        Weekday.allCases.filter(days.contains).map(\.rawValue).joined(separator: ",")
    }

    /// What starts a schedule.
    func by(_ backend: ScheduleBackend) -> String {
        switch backend {
        case .systemdUser: "systemd (user)"
        case .systemdSystem: "systemd"
        case .cron: "cron"
        case .cronSystem: "cron.d"
        case .agent: "the agent"
        }
    }

    /// When the next nights begin, a line each.
    func nextNights(_ clock: ScheduleClock, _ count: Int) -> [String] {
        var lines: [String] = []
        var time = now
        while lines.count < count, let night = clock.next(after: time) {
            lines.append("\(lines.isEmpty ? "Next: " : "      ")\(moment(night.fire))")
            time = night.fire
        }
        return lines
    }

    /// A moment, and how far away it is.
    func moment(_ milliseconds: Int64) -> String {
        SessionText(now: now, hasAgent: true).moment(WallTime(milliseconds: milliseconds))
    }
}

import SyncControl
import SyncModel
import SyncSchedule

/// Schedules in plain words.
struct ScheduleText: Sendable {
    /// **Milliseconds** since 1970.
    let now: Int64

    /// `every night 02:00-06:00`.
    func rule(_ clock: ScheduleClock) -> String {
        let timing = clock.timing
        var text = timing.recurrence.words(until: timing.window)
        if let zone = timing.timeZone { text += " \(escaped(zone))" }
        if let readyBy = timing.readyBy { text += ", ready by \(ScheduleTiming.time(readyBy))" }
        return text
    }

    /// When it runs next, a line each.
    func nextTimes(_ clock: ScheduleClock, _ count: Int) -> [String] {
        var lines: [String] = []
        var time = now
        while lines.count < count, let next = clock.next(after: time) {
            lines.append("\(lines.isEmpty ? "Next: " : "      ")\(moment(next.fire))")
            time = next.fire
        }
        return lines
    }

    /// A moment, and how far away it is.
    func moment(_ milliseconds: Int64) -> String {
        SessionText(now: now, hasAgent: true).moment(WallTime(milliseconds: milliseconds))
    }
}

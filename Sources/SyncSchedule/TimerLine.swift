import SyncModel

/// One line of what a timer or a crontab is told: a rule, moved by the machine's own delay.
struct TimerLine: Equatable {
    var days: CalendarDays
    /// 0...23, ascending.
    var hours: [Int]
    /// 0...59, ascending; each of them in each hour.
    var minutes: [Int]
    /// The second of the minute, which cron does not know.
    let second: Int

    /// The lines for a schedule on a machine. The delay may lead into the next day.
    static func lines(_ timing: ScheduleTiming, delay: Int) -> [TimerLine] {
        // Days and hours that have the same minutes are one line.
        var minutes: [[Int]: Set<Int>] = [:]
        for time in timing.recurrence.times {
            let total = time * 60 + delay
            minutes[[total / 86_400, total / 3_600 % 24], default: []].insert(total / 60 % 60)
        }
        var lines: [TimerLine] = []
        for (place, found) in minutes.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            let days = timing.recurrence.days.moved(by: place[0])
            let line = TimerLine(days: days, hours: [place[1]], minutes: found.sorted(), second: delay % 60)
            if let index = lines.firstIndex(where: { $0.days == days && $0.minutes == line.minutes }) {
                lines[index].hours.append(place[1])
            } else {
                lines.append(line)
            }
        }
        // Moved into the next day, every day is still every day: 23 o'clock of yesterday and 0 of today are one.
        for index in lines.indices { lines[index].hours.sort() }
        return lines
    }
}

extension CalendarDays {
    /// The days after these; the rule's check has made sure that days of months are not moved.
    fileprivate func moved(by days: Int) -> CalendarDays {
        guard days > 0 else { return self }
        var moved = self
        moved.weekdays = Set(weekdays.map { $0.adding(days) })
        return moved
    }
}

import SyncModel

/// When a schedule runs, in a person's terms.
package struct ScheduleTiming: Sendable, Equatable {
    package var recurrence: Recurrence
    /// **Minutes** from the beginning after which transfers stop; `nil` for no end.
    package var window: Int?
    /// **Minutes** after midnight by which everything should be in place; a window that ends earlier takes precedence.
    package var readyBy: Int?
    /// **Minutes** after midnight before which readers do not see new files; for destinations that change as a whole.
    package var switchAt: Int?
    /// Most **seconds** by which this machine may begin later than others.
    package var jitter: Int = 0
    /// An IANA name; `nil` for the machine's current zone.
    package var timeZone: String?
    /// Whether a machine that was off or asleep catches up on what it has missed.
    package var catchesUp = true

    package init(_ recurrence: Recurrence) { self.recurrence = recurrence }

    /// Checks the values and their combination.
    ///
    /// - Throws: ``ScheduleError`` with code `invalid`; options are named as on the command line.
    package func check() throws(ScheduleError) {
        func invalid(_ text: String) -> ScheduleError { ScheduleError(.invalid, text) }
        try recurrence.check()
        if recurrence.onlyTime == nil, window != nil || readyBy != nil || switchAt != nil {
            let option = window != nil ? "--window" : readyBy != nil ? "--ready-by" : "--switch-at"
            throw invalid(
                "\(option) needs a schedule with one time a day: "
                    + "this one has \(recurrence.times.count), and each run continues until it is done.")
        }
        if let window, !(1...1440).contains(window) { throw invalid("--window takes 1 minute to 24 hours.") }
        guard (0...43_200).contains(jitter) else { throw invalid("--jitter takes at most 12 hours.") }
        if let window, jitter >= window * 60 {
            throw invalid(
                "--jitter \(Figures.period(Int64(jitter) * 1_000)) leaves nothing of --window "
                    + "\(Figures.period(Int64(window) * 60_000)): make the window longer or the jitter smaller.")
        }
        let gap = recurrence.shortestGap
        guard jitter < gap * 60 else {
            throw invalid(
                "--jitter has to be shorter than the \(Figures.period(Int64(gap) * 60_000)) between two runs.")
        }
        let days = recurrence.days
        if !days.monthDays.isEmpty || !days.months.isEmpty, let last = recurrence.times.last,
            last * 60 + jitter >= 86_400
        {
            throw invalid(
                "--jitter leads past midnight, and so from one day of the month into the next, which no timer can "
                    + "express: make it smaller, or the time earlier.")
        }
        if let readyBy {
            guard (0..<1440).contains(readyBy), readyBy != recurrence.onlyTime else {
                throw invalid("--ready-by takes 00:00 to 23:59, and must differ from --nightly.")
            }
            let span = min(untilReady(readyBy), window ?? 1440)
            if jitter >= span * 60 { throw invalid("--jitter leaves no time until --ready-by \(Self.time(readyBy)).") }
        }
        if let switchAt {
            guard (0..<1440).contains(switchAt), switchAt != recurrence.onlyTime else {
                throw invalid("--switch-at takes 00:00 to 23:59, and must differ from --nightly.")
            }
            guard untilReady(switchAt) < window ?? .max else {
                throw invalid("--switch-at \(Self.time(switchAt)) is after --window: make the window longer.")
            }
        }
        _ = try Zone.of(timeZone)
    }

    /// **Minutes** on the clock from the beginning to `readyBy`.
    func untilReady(_ readyBy: Int) -> Int { (readyBy - (recurrence.onlyTime ?? 0) + 1440) % 1440 }

    /// Parses `02:00` or `7:30`, 24 hours, into **minutes** after midnight; `nil` if it is invalid.
    ///
    /// - Parameter mayEndDay: Whether `24:00` is a time, too.
    package static func minutes(_ text: some StringProtocol, mayEndDay: Bool = false) -> Int? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        let isDigits = parts.allSatisfy { $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }
        guard parts.count == 2, isDigits, (1...2).contains(parts[0].count), parts[1].count == 2,
            let hour = Int(parts[0]), let minute = Int(parts[1]), minute < 60
        else { return nil }
        let time = hour * 60 + minute
        return time < 1_440 || mayEndDay && time == 1_440 ? time : nil
    }

    /// `02:00`.
    package static func time(_ minutes: Int) -> String { "\(padded(minutes / 60 % 24, 2)):\(padded(minutes % 60, 2))" }
}

/// One line for a timer or a crontab: a rule, shifted by the machine's delay.
struct TimerLine: Equatable {
    var days: CalendarDays
    /// 0...23, ascending.
    var hours: [Int]
    /// 0...59, ascending; each applies to each hour.
    var minutes: [Int]
    /// The second of the minute, which cron does not support.
    let second: Int

    /// The lines for a schedule on a machine. The delay may lead into the next day.
    static func lines(_ timing: ScheduleTiming, delay: Int) -> [TimerLine] {
        // Days and hours with the same minutes share a line.
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
        // Shifted into the next day, every day is still every day: 23:00 of yesterday and 0:00 of today are one line.
        for index in lines.indices { lines[index].hours.sort() }
        return lines
    }

    /// Values as timers and crontabs list them: `*` if all or none are given.
    static func list(_ values: [Int], all: Int, digits: Int = 1) -> String {
        values.isEmpty || values.count == all ? "*" : values.map { padded($0, digits) }.joined(separator: ",")
    }
}

extension CalendarDays {
    /// These days shifted; the rule's check has made sure that days of months are not shifted.
    fileprivate func moved(by days: Int) -> CalendarDays {
        guard days > 0 else { return self }
        var moved = self
        moved.weekdays = Set(weekdays.map { $0.adding(days) })
        return moved
    }
}

// How much later than others a machine begins: the same every night, spread evenly over all machines.
extension ScheduleTiming {
    /// The delay of a schedule on a machine.
    ///
    /// FNV-1a over the two names (draft-eastlake-fnv, 64 bits), then the finalizer of MurmurHash3 (`fmix64`): FNV alone
    /// leaves the high bits of similar names similar. The machine's identity does not leave the machine, as
    /// machine-id(5) asks: only the delay is visible.
    ///
    /// - Parameters:
    ///   - machine: The machine's identity, such as the content of /etc/machine-id.
    ///   - schedule: The schedule's name.
    /// - Returns: **Seconds**, 0...``jitter``.
    package func delay(machine: String, schedule: String) -> Int {
        guard jitter > 0 else { return 0 }
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in Array(machine.utf8) + [0] + Array(schedule.utf8) { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        hash = (hash ^ hash >> 33) &* 0xFF51_AFD7_ED55_8CCD
        hash = (hash ^ hash >> 33) &* 0xC4CE_B9FE_1A85_EC53
        hash ^= hash >> 33
        return Int(hash.multipliedFullWidth(by: UInt64(jitter) + 1).high)
    }
}

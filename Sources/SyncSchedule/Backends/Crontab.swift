import SyncModel

/// A user's crontab(5) as bytes, with a block for each schedule. Everything else stays as it is, byte for byte.
package struct Crontab: Sendable, Equatable {
    package private(set) var bytes: [UInt8]

    /// A crontab as `crontab -l` prints it.
    package init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Inserts a schedule's block: in place of its former one, or at the end.
    package mutating func set(_ name: String, lines: [String]) {
        var block = Self.begin(name)
        for line in lines { block += line + "\n" }
        block += Self.end(name)
        if let range = range(of: name) {
            bytes.replaceSubrange(range, with: Array(block.utf8))
            return
        }
        // cron ignores or refuses a last line without a line feed.
        if let last = bytes.last, last != 0x0A { bytes.append(0x0A) }
        bytes += Array(block.utf8)
    }

    /// Removes a schedule's block.
    ///
    /// - Returns: Whether there was one.
    @discardableResult package mutating func remove(_ name: String) -> Bool {
        var isFound = false
        while let range = range(of: name) {
            bytes.removeSubrange(range)
            isFound = true
        }
        return isFound
    }

    /// Whether a schedule's block consists of exactly these lines.
    package func has(_ name: String, lines: [String]) -> Bool {
        var wanted = self
        wanted.set(name, lines: lines)
        return wanted == self
    }

    package func has(_ name: String) -> Bool { range(of: name) != nil }

    private static func begin(_ name: String) -> String {
        "# syncagent schedule \(name): do not edit; 'syncagent schedule remove \(name)' removes it\n"
    }

    private static func end(_ name: String) -> String { "# syncagent schedule \(name): end\n" }

    /// The bytes of a block. A block whose end line has been removed is its first line alone: the lines after it may
    /// belong to somebody else.
    private func range(of name: String) -> Range<Int>? {
        let (begin, end) = (Array(Self.begin(name).utf8), Array(Self.end(name).utf8))
        guard let start = line(begin, from: 0) else { return nil }
        guard let last = line(end, from: start) else { return start..<(start + begin.count) }
        // Another block begins in between: the end belongs to a later copy.
        if let second = line(begin, from: start + begin.count), second < last { return start..<(start + begin.count) }
        return start..<(last + end.count)
    }

    /// The position of a whole line, at `from` or later.
    private func line(_ wanted: [UInt8], from: Int) -> Int? {
        var start = from
        while start + wanted.count <= bytes.count {
            if bytes[start..<(start + wanted.count)].elementsEqual(wanted) { return start }
            guard let end = bytes[start...].firstIndex(of: 0x0A) else { return nil }
            start = end + 1
        }
        return nil
    }
}

extension Crontab {
    /// Longest command that cron accepts, in **bytes**: `MAX_COMMAND` of Debian's cron.
    static let longestCommand = 998

    /// The lines of a schedule: those of the rule, and one for the start of the machine.
    ///
    /// cron counts in minutes, so the program itself waits for the second. cron handles times that a clock change skips
    /// or repeats: "Local time changes" in cron(8).
    ///
    /// - Parameters:
    ///   - start: The program and its times, in the machine's zone, the only one that cron knows.
    ///   - user: The user's name, for a file of cron.d.
    /// - Throws: ``ScheduleError`` with code `invalid`.
    package static func lines(of start: ScheduledStart, user: String? = nil) throws(ScheduleError) -> [String] {
        let timing = start.clock.timing
        if let zone = timing.timeZone {
            throw ScheduleError(
                .invalid,
                "cron only knows the machine's time zone, not \(escaped(zone)): leave --time-zone out, or use "
                    + "--backend agent.")
        }
        let owner = user.map { $0 + " " } ?? ""
        let command = try Self.command(start.program)
        var lines = TimerLine.lines(timing, delay: start.clock.delay).map { line in
            let hour = TimerLine.list(line.hours, all: 24)
            return "\(TimerLine.list(line.minutes, all: 60)) \(hour) \(days(line.days)) \(owner)\(command)"
        }
        if timing.catchesUp {
            // cron does not catch up on its own.
            var program = start.program
            program.arguments.append("--missed")
            lines.append("@reboot \(owner)\(try Self.command(program))")
        }
        return lines
    }

    /// Day of the month, month and day of the week.
    private static func days(_ days: CalendarDays) -> String {
        let all = CronExpression.weekdays
        var monthDay = TimerLine.list(days.monthDays.sorted(), all: 31)
        var weekday = TimerLine.list(all.indices.filter { days.weekdays.contains(all[$0]) }, all: 7)
        // As written: for cron, the star means that a day must match both fields.
        switch days.starredField {
        case .monthDay(let text): monthDay = text
        case .weekday(let text): weekday = text
        case nil: break
        }
        return "\(monthDay) \(TimerLine.list(days.months.sorted(), all: 12)) \(weekday)"
    }

    /// The command, quoted for the shell and then for cron, to which an unescaped `%` ends it.
    static func command(_ program: ScheduledProgram) throws(ScheduleError) -> String {
        var words: [String] = []
        if !program.variables.isEmpty {
            words.append("/usr/bin/env")
            words += program.variables.map(quoted)
        }
        words += ([program.path] + program.arguments).map(quoted)
        let text = words.joined(separator: " ").replacing("%", with: "\\%")
        guard text.utf8.count <= longestCommand else {
            throw ScheduleError(
                .invalid,
                "The command for cron is longer than \(longestCommand) bytes; paths have to be shorter, or use "
                    + "--backend agent.")
        }
        return text
    }

    /// A word of the shell: sh(1), "Single quotes".
    static func quoted(_ text: String) -> String {
        let isPlain = text.utf8.allSatisfy { isAlphanumeric($0) || "/._-=:,+@".utf8.contains($0) }
        if isPlain, !text.isEmpty { return text }
        return "'" + text.replacing("'", with: "'\\''") + "'"
    }
}

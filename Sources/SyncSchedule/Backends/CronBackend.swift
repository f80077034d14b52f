import SyncModel
import SyncSystem

/// Puts a schedule into the user's crontab, crontab(1), or as root into cron.d.
struct CronBackend: ScheduleBackend {
    /// `/etc/cron.d` for schedules of the machine; `nil` for the user's crontab.
    var directory: String?
    let run: CommandRunner

    var name: String { isForMachine ? "cron-system" : "cron" }
    var words: String { isForMachine ? "cron.d" : "cron" }
    var choice: String { "cron" }
    var isForMachine: Bool { directory != nil }
    var knowsZones: Bool { false }

    /// Requires crontab(1), and a running cron daemon unless the backend is named.
    func reason(on machine: MachineFacts, isNamed: Bool) throws(ScheduleError) -> String {
        let isRunning = isRunning(on: machine)
        if machine.hasProgram("crontab"), isNamed || isRunning {
            guard isNamed else { return "a cron daemon is running" }
            return "--backend cron" + (isRunning ? "" : "; no cron daemon is running now")
        }
        throw ScheduleError(
            .unavailable,
            isNamed
                ? "There is no crontab(1) here: install cron, or use --backend agent."
                : isRunning ? "there is no crontab(1)" : "no cron daemon is running")
    }

    private func isRunning(on machine: MachineFacts) -> Bool { machine.isRunning(["cron", "crond"]) }

    func preview(_ start: ScheduledStart) throws(ScheduleError) -> String { try lines(start).joined(separator: "\n") }

    /// Writes a schedule's lines in place of its former ones.
    ///
    /// - Throws: ``ScheduleError``; the crontab is as it was.
    @discardableResult func install(_ start: ScheduledStart) throws(ScheduleError) -> [String] {
        let lines = try lines(start)
        if let path = path(start.name) {
            var file = Crontab([])
            file.set(start.name, lines: lines)
            try writeScheduleFile(file.bytes, to: path)
        } else {
            var table = try current()
            table.set(start.name, lines: lines)
            try put(table)
        }
        return []
    }

    /// Whether the installed lines are those that would be written.
    func holds(_ start: ScheduledStart) throws(ScheduleError) -> Bool {
        let lines = try lines(start)
        guard let path = path(start.name) else { return try current().has(start.name, lines: lines) }
        guard let bytes = try readScheduleFile(path) else { return false }
        return Crontab(bytes).has(start.name, lines: lines)
    }

    private func lines(_ start: ScheduledStart) throws(ScheduleError) -> [String] {
        try Crontab.lines(of: start, user: directory == nil ? nil : "root")
    }

    /// The file of a schedule; `nil` if all share one table.
    private func path(_ name: String) -> String? { directory.map { "\($0)/\(ScheduleName.cronFile(name))" } }

    /// Removes a schedule's lines.
    ///
    /// - Returns: Whether there were any.
    /// - Throws: ``ScheduleError``; the crontab is as it was.
    @discardableResult func remove(_ name: String) throws(ScheduleError) -> Bool {
        if let path = path(name) { return try removeScheduleFile(path) }
        // Without crontab(1), nothing is started.
        if run(["crontab", "-l"], []).status == 127 { return false }
        var table = try current()
        guard table.remove(name) else { return false }
        if table.bytes.isEmpty {
            let outcome = run(["crontab", "-r"], [])
            guard outcome.status == 0 else { throw failure("removing the crontab", outcome) }
        } else {
            try put(table)
        }
        return true
    }

    func isInEffect(_ name: String) -> Bool {
        if let path = path(name) { return exists(path) }
        return (try? current().has(name)) ?? false
    }

    func concern(_ machine: MachineFacts) -> (problem: String, remedy: String)? {
        guard !isRunning(on: machine) else { return nil }
        return ("no cron daemon is running", "start cron, or use another --backend")
    }

    /// The user's crontab; empty when there is none.
    private func current() throws(ScheduleError) -> Crontab {
        let outcome = run(["crontab", "-l"], [])
        if outcome.status == 0 {
            // Debian's cron prints a carriage return as these two characters; written back, the line would be
            // different.
            guard !outcome.output.split(separator: 0x0A).contains(where: { $0.suffix(2).elementsEqual("\\r".utf8) })
            else {
                throw ScheduleError(
                    .unavailable,
                    "The crontab has lines that end with a carriage return, which 'crontab -l' does not print as they "
                        + "are. Remove them with 'crontab -e' first, or use --backend agent. Nothing has been changed.")
            }
            return Crontab(outcome.output)
        }
        // POSIX defines no exit status for "no crontab".
        guard outcome.status != 127, outcome.output.isEmpty, outcome.errors.contains("no crontab for") else {
            throw failure("reading the crontab", outcome)
        }
        return Crontab([])
    }

    private func put(_ table: Crontab) throws(ScheduleError) {
        let outcome = run(["crontab", "-"], table.bytes)
        guard outcome.status == 0 else { throw failure("writing the crontab", outcome) }
    }

    private func failure(_ step: String, _ outcome: CommandOutcome) -> ScheduleError {
        if outcome.status == 127 {
            return ScheduleError(.unavailable, "\(step): there is no crontab(1). Install cron, or use --backend agent.")
        }
        return SystemdBackend.failure(step, outcome)
    }
}

import SyncModel

/// Puts a schedule into the user's crontab, crontab(1), or as root into cron.d.
package struct CronBackend: Sendable {
    /// `/etc/cron.d` for schedules of the machine; `nil` for the user's crontab.
    package let directory: String?
    let run: CommandRunner

    /// See the properties.
    package init(directory: String? = nil, run: @escaping CommandRunner) {
        self.directory = directory
        self.run = run
    }

    /// Writes a schedule's lines in the place of its former ones.
    ///
    /// - Throws: ``ScheduleError``; the crontab is as it was.
    package func install(
        _ name: String,
        _ timing: ScheduleTiming,
        delay: Int,
        program: ScheduledProgram
    ) throws(ScheduleError) {
        if let directory {
            let lines = try CronLines(timing, delay: delay, program: program, user: "root").lines
            var file = Crontab([])
            file.set(name, lines: lines)
            return try ScheduleFiles.write(file.bytes, to: "\(directory)/\(ScheduleName.cronFile(name))")
        }
        let lines = try CronLines(timing, delay: delay, program: program).lines
        var table = try current()
        table.set(name, lines: lines)
        try put(table)
    }

    /// Takes a schedule's lines away.
    ///
    /// - Returns: Whether there were any.
    /// - Throws: ``ScheduleError``; the crontab is as it was.
    @discardableResult
    package func remove(_ name: String) throws(ScheduleError) -> Bool {
        if let directory { return try ScheduleFiles.remove("\(directory)/\(ScheduleName.cronFile(name))") }
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

    /// Whether the lines of a schedule are there.
    package func has(_ name: String) -> Bool {
        if let directory { return ScheduleFiles.names(in: directory).contains(ScheduleName.cronFile(name)) }
        return (try? current().has(name)) ?? false
    }

    /// The user's crontab; empty when there is none.
    private func current() throws(ScheduleError) -> Crontab {
        let outcome = run(["crontab", "-l"], [])
        if outcome.status == 0 {
            // Debian's cron prints a carriage return as these two characters: written back it would be another line.
            guard
                !outcome.output.split(separator: 0x0A).contains(where: {
                    $0.suffix(2).elementsEqual("\\r".utf8)
                })
            else {
                throw ScheduleError(
                    .unavailable,
                    "The crontab has lines that end with a carriage return, which 'crontab -l' does not give back as they "
                        + "are. Remove them with 'crontab -e' first, or use --backend agent. Nothing has been changed."
                )
            }
            return Crontab(outcome.output)
        }
        // POSIX has no status of its own for that.
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
            return ScheduleError(
                .unavailable,
                "\(step): there is no crontab(1). Install cron, or use --backend agent."
            )
        }
        return SystemdBackend.failure(step, outcome)
    }
}

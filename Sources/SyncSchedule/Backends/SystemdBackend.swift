import SyncModel
import SyncSystem

/// Puts the units of a schedule into effect and removes them, with systemctl(1).
struct SystemdBackend: ScheduleBackend {
    let isForMachine: Bool
    /// The directory for units of this scope, absolute.
    let directory: String
    let run: CommandRunner

    var name: String { isForMachine ? "systemd-system" : "systemd-user" }
    var words: String { isForMachine ? "systemd" : "systemd (user)" }
    var choice: String { "systemd" }

    /// root has a user manager only while it is logged in, so its schedules belong to the machine's manager.
    func serves(machine: Bool, isRoot: Bool) -> Bool { isForMachine == (machine || isRoot) }

    func reason(on machine: MachineFacts, isNamed: Bool) throws(ScheduleError) -> String {
        let question = words(["show-environment"])
        // sd_booted(3)
        if !isForMachine || machine.exists("/run/systemd/system"), run(question, []).status == 0 {
            return isForMachine ? "the machine's systemd is running" : "the user's systemd is running"
        }
        guard isNamed else { throw ScheduleError(.unavailable, "systemd is not running") }
        throw ScheduleError(
            .unavailable,
            "systemd does not answer ('\(question.joined(separator: " "))' fails): "
                + "log in with a session of your own, or use --backend cron or agent.")
    }

    func preview(_ start: ScheduledStart) -> String {
        files(SystemdUnits(start, isForMachine: isForMachine)).map { "# \($0.name)\n\($0.text)" }.joined(
            separator: "\n")
    }

    /// Whether both units are those that would be written.
    func holds(_ start: ScheduledStart) throws(ScheduleError) -> Bool {
        for (name, text) in files(SystemdUnits(start, isForMachine: isForMachine)) {
            guard let found = try readScheduleFile(path(name)), found.elementsEqual(text.utf8) else { return false }
        }
        return true
    }

    private func files(_ units: SystemdUnits) -> [(name: String, text: String)] {
        [(units.service, units.serviceText), (units.timer, units.timerText)]
    }

    /// Writes, checks, enables and starts the units of a schedule. If a step fails, the former state is restored.
    ///
    /// - Returns: Notes for people: a check that could not be made.
    /// - Throws: ``ScheduleError``.
    @discardableResult func install(_ start: ScheduledStart) throws(ScheduleError) -> [String] {
        let units = SystemdUnits(start, isForMachine: isForMachine)
        let files = files(units)
        let before = try files.map { file throws(ScheduleError) in try readScheduleFile(path(file.0)) }
        for (file, old) in zip(files, before) {
            if let old, !old.starts(with: SystemdUnits.mark.utf8) {
                throw ScheduleError(
                    .invalid,
                    "\(escaped(path(file.0))) was not written by syncagent: choose another --name, or remove the file.")
            }
        }
        do throws(ScheduleError) {
            var notes: [String] = []
            for (name, text) in files { try writeScheduleFile(Array(text.utf8), to: path(name)) }
            if let note = try verify(units) { notes.append(note) }
            try systemctl(["daemon-reload"], "reloading units")
            // An existing timer would compute what it has missed from its former times.
            if before.contains(where: { $0 != nil }) { try forget(start.name) }
            try systemctl(["enable", "--now", units.timer], "enabling \(units.timer)")
            return notes
        } catch {
            // The error reported is why it failed; an error while restoring would only hide it.
            try? forget(start.name)
            for ((name, _), old) in zip(files, before) {
                if let old {
                    try? writeScheduleFile(old, to: path(name))
                } else {
                    _ = try? removeScheduleFile(path(name))
                }
            }
            _ = run(words(["daemon-reload"]), [])
            if before.allSatisfy({ $0 != nil }) { _ = run(words(["enable", "--now", units.timer]), []) }
            throw error
        }
    }

    /// Disables the units of a schedule and removes them, with all state that systemd keeps for them.
    ///
    /// - Returns: Whether there were any.
    /// - Throws: ``ScheduleError`` when the timer cannot be stopped or a file cannot be removed.
    @discardableResult func remove(_ name: String) throws(ScheduleError) -> Bool {
        let stem = SystemdUnits.stem(name)
        try forget(name)
        let timer = try removeScheduleFile(path(stem + ".timer"))
        let service = try removeScheduleFile(path(stem + ".service"))
        if timer || service { _ = run(words(["daemon-reload"]), []) }
        return timer || service
    }

    /// Whether the timer is active.
    func isInEffect(_ name: String) -> Bool {
        run(words(["is-active", "--quiet", SystemdUnits.stem(name) + ".timer"]), []).status == 0
    }

    /// A user's units stop with the last session, unless the user lingers.
    func concern(_ machine: MachineFacts) -> (problem: String, remedy: String)? {
        // loginctl(1), "enable-linger"
        guard !isForMachine, !machine.exists("/var/lib/systemd/linger/\(machine.userName)") else { return nil }
        return ("systemd stops your units when you log out", "loginctl enable-linger \(escaped(machine.userName))")
    }

    private func path(_ file: String) -> String { "\(directory)/\(file)" }

    private func words(_ verb: [String]) -> [String] { ["systemctl"] + (isForMachine ? [] : ["--user"]) + verb }

    /// Stops a timer and forgets when it last elapsed. Without a timer or systemctl(1), nothing happens.
    ///
    /// - Throws: ``ScheduleError`` if the timer may still be active.
    private func forget(_ name: String) throws(ScheduleError) {
        let timer = SystemdUnits.stem(name) + ".timer"
        let outcome = run(words(["disable", "--now", timer]), [])
        // If systemd does not answer, none of its timers is running; if systemctl could not be started, one may be.
        if outcome.status == 126 {
            guard case .success(nil) = status(currentDirectory, path(timer)) else {
                throw Self.failure("disabling \(timer)", outcome)
            }
        }
        _ = run(words(["clean", "--what=state", timer]), [])
    }

    private func systemctl(_ verb: [String], _ step: String) throws(ScheduleError) {
        let outcome = run(words(verb), [])
        guard outcome.status == 0 else { throw Self.failure(step, outcome) }
    }

    /// Checks the written units with systemd's own tools, before anything is enabled.
    ///
    /// - Returns: A note when they are not installed.
    private func verify(_ units: SystemdUnits) throws(ScheduleError) -> String? {
        for times in units.calendar {
            let outcome = run(["systemd-analyze", "calendar", times], [])
            if outcome.status == 127 { return "systemd-analyze is not installed: the units were not checked." }
            guard outcome.status == 0 else { throw Self.failure("checking the time '\(times)'", outcome) }
        }
        let scope = isForMachine ? [] : ["--user"]
        // Without checking manual pages, which a small machine does not have.
        let outcome = run(
            ["systemd-analyze"] + scope + ["--man=no", "verify", path(units.service), path(units.timer)], [])
        if outcome.status != 0 {
            // It also checks the units that these depend on; problems there are not ours.
            guard !outcome.errors.contains(units.stem) else { throw Self.failure("checking the units", outcome) }
            return "systemd-analyze verify reports problems with other units on this machine."
        }
        return nil
    }

    static func failure(_ step: String, _ outcome: CommandOutcome) -> ScheduleError {
        let said = outcome.errors.split(separator: "\n").prefix(5).map { escaped(String($0)) }
        var words = said.isEmpty ? "exit status \(outcome.status)" : said.joined(separator: "; ")
        while words.hasSuffix(".") { words.removeLast() }
        return ScheduleError(.unavailable, "\(step): \(words). Nothing has been changed.")
    }
}

/// What can start schedules on this machine.
package struct MachineAbilities: Sendable, Equatable {
    /// Whether it is asked for root.
    package var isRoot = false
    /// Whether the user's systemd answers.
    package var hasUserManager = false
    /// Whether the machine's systemd answers.
    package var hasSystemManager = false
    /// Whether there is crontab(1).
    package var hasCrontab = false
    /// Whether a cron daemon is running.
    package var isCronRunning = false

    /// A machine with nothing.
    package init() {}
}

/// Chooses what starts a schedule, and says why.
package struct BackendChoice: Sendable, Equatable {
    package let backend: BackendKind
    /// For people: why this one.
    package let reason: String

    /// See the properties.
    package init(backend: BackendKind, reason: String) {
        self.backend = backend
        self.reason = reason
    }

    /// What a person asked for.
    package enum Wish: String, Sendable, CaseIterable {
        case auto, systemd, cron, agent
    }

    /// Chooses.
    ///
    /// - Parameters:
    ///   - wish: What a person asked for.
    ///   - isForMachine: Whether it is to run for the machine, not for the user.
    ///   - hasZone: Whether the schedule has a time zone of its own, which cron does not know.
    ///   - machine: What there is.
    /// - Throws: ``ScheduleError`` that says what is missing and what would do.
    package static func choose(
        _ wish: Wish,
        isForMachine: Bool,
        hasZone: Bool,
        _ machine: MachineAbilities
    ) throws(ScheduleError) -> BackendChoice {
        if isForMachine, !machine.isRoot {
            throw ScheduleError(
                .invalid,
                "--system is for root: use sudo, or leave it out for a schedule of your own."
            )
        }
        switch wish {
        case .agent:
            guard !isForMachine else {
                throw ScheduleError(.invalid, "--system and --backend agent: an agent belongs to its user.")
            }
            return BackendChoice(backend: .agent, reason: "--backend agent")
        case .systemd:
            if let choice = systemd(isForMachine: isForMachine, machine) { return choice }
            throw ScheduleError(
                .unavailable,
                "systemd does not answer ('systemctl \(machine.isRoot ? "" : "--user ")show-environment' fails): "
                    + "log in with a session of your own, or use --backend cron or agent."
            )
        case .cron:
            guard machine.hasCrontab else {
                throw ScheduleError(
                    .unavailable,
                    "There is no crontab(1) here: install cron, or use --backend agent."
                )
            }
            let isSeen = machine.isCronRunning ? "" : "; no cron daemon is running now"
            return BackendChoice(
                backend: isForMachine ? .cronSystem : .cron,
                reason: "--backend cron\(isSeen)"
            )
        case .auto:
            if let choice = systemd(isForMachine: isForMachine, machine) { return choice }
            if machine.hasCrontab, machine.isCronRunning, !hasZone {
                return BackendChoice(
                    backend: isForMachine ? .cronSystem : .cron,
                    reason: "no systemd answers, and a cron daemon is running"
                )
            }
            guard !isForMachine else {
                throw ScheduleError(
                    .unavailable,
                    "Neither systemd nor a cron daemon runs here; without --system the agent can start it."
                )
            }
            let cron =
                hasZone && machine.isCronRunning ? "cron knows no time zones" : "no cron daemon is running"
            return BackendChoice(backend: .agent, reason: "no systemd answers, and \(cron)")
        }
    }

    private static func systemd(isForMachine: Bool, _ machine: MachineAbilities) -> BackendChoice? {
        // root has a manager of its own only while it is logged in: schedules belong to the machine's.
        if isForMachine || machine.isRoot {
            guard machine.hasSystemManager else { return nil }
            return BackendChoice(backend: .systemdSystem, reason: "the machine's systemd answers")
        }
        guard machine.hasUserManager else { return nil }
        return BackendChoice(backend: .systemdUser, reason: "the user's systemd answers")
    }
}

import CPosix
import SyncHooks
import SyncModel
import SyncSchedule
import SyncSettings

/// Puts schedules into effect on this machine, and takes them away.
struct ScheduleInstallation: Sendable {
    let environment: EnvironmentPaths
    let run: CommandRunner

    init(_ environment: EnvironmentPaths = .ofProcess) {
        self.environment = environment
        run = SystemCommands(environment: environment).run
    }

    /// Has a schedule started from now on.
    ///
    /// - Returns: What people should know.
    func install(_ name: String, _ clock: ScheduleClock, on backend: ScheduleBackend, now: Int64)
        throws(ScheduleError)
        -> [String]
    {
        switch backend {
        case .systemdUser, .systemdSystem:
            return try systemd(backend).install(try units(name, clock, on: backend, now: now))
        case .cron, .cronSystem:
            try cron(backend).install(name, clock.timing, delay: clock.delay, program: try program(name))
            return []
        case .agent: return []
        }
    }

    /// The units of a schedule.
    func units(_ name: String, _ clock: ScheduleClock, on backend: ScheduleBackend, now: Int64)
        throws(ScheduleError)
        -> SystemdUnits
    {
        SystemdUnits(
            name: name,
            timing: clock.timing,
            delay: clock.delay,
            program: try program(name),
            scope: backend == .systemdUser ? .user : .system,
            zone: clock.zone,
            today: clock.zone.local(now / 1_000).day
        )
    }

    /// Has it started no more. Nothing there: nothing happens.
    func remove(_ name: String, from backend: ScheduleBackend) throws(ScheduleError) {
        switch backend {
        case .systemdUser, .systemdSystem: try systemd(backend).remove(name)
        case .cron, .cronSystem: try cron(backend).remove(name)
        case .agent: break
        }
    }

    /// Whether it is in effect.
    func isActive(_ name: String, on backend: ScheduleBackend) -> Bool {
        switch backend {
        case .systemdUser, .systemdSystem: systemd(backend).isActive(name)
        case .cron, .cronSystem: cron(backend).has(name)
        case .agent: true
        }
    }

    /// What is started: this program, with the places it works with now.
    func program(_ name: String) throws(ScheduleError) -> ScheduledProgram {
        let path = AgentReach.ownProgram()
        // Its file is gone, as in the middle of an update.
        guard !path.hasPrefix("/proc/") else {
            throw ScheduleError(
                .unavailable,
                "The program's file has been replaced just now: call the new one."
            )
        }
        // Root would run it every night.
        if geteuid() == 0 {
            do throws(ProgramError) {
                try physicalProgram(path, role: "program", destination: nil)
            } catch {
                throw ScheduleError(.unavailable, error.message)
            }
        }
        let names = ["XDG_CONFIG_HOME", "XDG_STATE_HOME"]
        return try ScheduledProgram(
            path: path,
            arguments: ["schedule", "run", name, "--quiet"],
            variables: names.compactMap { name in
                environment.lookup(name).flatMap { $0.hasPrefix("/") ? .init(name, $0) : nil }
            }
        )
    }

    private func systemd(_ backend: ScheduleBackend) -> SystemdBackend {
        guard backend == .systemdUser else {
            return SystemdBackend(.system, directory: "/etc/systemd/system", run: run)
        }
        // systemd.unit(5), "User Unit Search Path"; a home is there, the state directory is in it.
        let base = environment.lookup("XDG_CONFIG_HOME").flatMap { $0.hasPrefix("/") ? $0 : nil }
        let directory = base ?? "\(environment.pathBase.home ?? "")/.config"
        return SystemdBackend(.user, directory: "\(directory)/systemd/user", run: run)
    }

    private func cron(_ backend: ScheduleBackend) -> CronBackend {
        CronBackend(directory: backend == .cronSystem ? "/etc/cron.d" : nil, run: run)
    }
}

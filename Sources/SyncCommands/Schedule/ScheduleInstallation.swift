import CPosix
import Foundation
import SyncHooks
import SyncModel
import SyncSchedule
import SyncSettings
import SyncSystem

/// Puts schedules into effect on this machine, and takes them away.
struct ScheduleInstallation: Sendable {
    let environment: EnvironmentPaths
    let run: CommandRunner
    /// Where the machine's own files begin; empty but in tests.
    private let root: String
    private let isRoot: Bool

    init(
        _ environment: EnvironmentPaths = .ofProcess,
        root: String = "",
        isRoot: Bool = geteuid() == 0,
        run: CommandRunner? = nil
    ) {
        self.environment = environment
        self.root = root
        self.isRoot = isRoot
        self.run = run ?? SystemCommands(environment: environment).run
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

    /// Has it started no more, by whatever it was: nobody knows what that is. A program that is not installed
    /// starts nothing.
    ///
    /// - Parameter kept: Starts it rightly.
    /// - Throws: ``ScheduleError`` for the first that could not be taken away; the others are, where they can be.
    func removeEverywhere(_ name: String, but kept: ScheduleBackend? = nil) throws(ScheduleError) {
        var failure: ScheduleError?
        var backends: [ScheduleBackend] = [.systemdUser, .cron]
        // A user's schedules have no others, and what root has there under the same name is not the user's.
        if isRoot { backends += [.systemdSystem, .cronSystem] }
        for backend in backends where backend != kept {
            if backend == .cron, run(["crontab", "-l"], []).status == 127 { continue }
            do throws(ScheduleError) {
                try remove(name, from: backend)
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
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
        let path: String
        do throws(CommandFailure) {
            path = try AgentReach.ownProgram()
        } catch {
            throw ScheduleError(.unavailable, error.message)
        }
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
                environment.baseDirectories.path(name).map { .init(name, $0) }
            }
        )
    }

    private func systemd(_ backend: ScheduleBackend) -> SystemdBackend {
        guard backend == .systemdUser else {
            return SystemdBackend(.system, directory: root + "/etc/systemd/system", run: run)
        }
        // systemd.unit(5), "User Unit Search Path"; a home is there, the state directory is in it.
        let directory = environment.baseDirectories.configuration ?? "/.config"
        return SystemdBackend(.user, directory: directory + "/systemd/user", run: run)
    }

    private func cron(_ backend: ScheduleBackend) -> CronBackend {
        CronBackend(directory: backend == .cronSystem ? root + "/etc/cron.d" : nil, run: run)
    }
}

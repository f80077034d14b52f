import Foundation
import SyncHooks
import SyncModel
import SyncSchedule
import SyncSettings
import SyncSystem

/// Puts schedules into effect on this machine, and takes them away.
struct ScheduleInstallation: Sendable {
    let environment: EnvironmentPaths
    /// What can start schedules, on any machine.
    var backends: [any ScheduleBackend]
    private let isRoot: Bool

    /// - Parameter root: Where the machine's own files begin; empty but in tests.
    init(
        _ environment: EnvironmentPaths = .ofProcess,
        root: String = "",
        isRoot: Bool = CurrentProcess.user == 0,
        run: CommandRunner? = nil
    ) {
        self.environment = environment
        self.isRoot = isRoot
        backends = scheduleBackends(
            root: root,
            // A home is there, the state directory is in it.
            configuration: environment.baseDirectories.configuration ?? "/.config",
            run: run ?? SystemCommands(environment: environment).run
        )
    }

    /// What starts schedules that are kept with a backend's name.
    ///
    /// - Throws: ``ScheduleError`` with code `file` for a name that no backend has.
    func backend(_ name: String) throws(ScheduleError) -> any ScheduleBackend {
        guard let backend = backends.first(where: { $0.name == name }) else {
            throw ScheduleError(.file, "'\(escaped(name))' is not a known schedule backend.")
        }
        return backend
    }

    /// What a schedule's timer or crontab is made from.
    func start(_ name: String, _ clock: ScheduleClock, now: Int64) throws(ScheduleError) -> ScheduledStart {
        ScheduledStart(
            name: name,
            clock: clock,
            program: try program(name),
            today: clock.zone.local(now / 1_000).day
        )
    }

    /// Has it started no more, by whatever it was: nobody knows what that is. A program that is not installed
    /// starts nothing.
    ///
    /// - Parameter kept: Starts it rightly.
    /// - Throws: ``ScheduleError`` for the first that could not be taken away; the others are, where they can be.
    func removeEverywhere(_ name: String, but kept: String? = nil) throws(ScheduleError) {
        var failure: ScheduleError?
        // What root has under the same name is not the user's.
        for backend in backends where backend.name != kept && (isRoot || !backend.isForMachine) {
            do throws(ScheduleError) {
                try backend.remove(name)
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
    }

    /// What is started: this program, with the places it works with now.
    func program(_ name: String) throws(ScheduleError) -> ScheduledProgram {
        let path = try rethrowing(AgentReach.ownProgram()) { (failure: CommandFailure) in
            ScheduleError(.unavailable, failure.message)
        }
        // Its file is gone, as in the middle of an update.
        guard !path.hasPrefix("/proc/") else {
            throw ScheduleError(.unavailable, "The program was replaced just now: run the new one.")
        }
        // Root would run it again and again.
        if CurrentProcess.user == 0 {
            _ = try rethrowing(physicalProgram(path, role: "program", destination: nil)) {
                (error: ProgramError) in
                ScheduleError(.unavailable, error.message)
            }
        }
        let names = ["XDG_CONFIG_HOME", "XDG_STATE_HOME"]
        return try ScheduledProgram(
            path: path,
            arguments: ["schedule", "run", name, "--quiet"],
            variables: names.compactMap { name in
                environment.baseDirectories.path(name).map { "\(name)=\($0)" }
            }
        )
    }
}

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

    /// What starts schedules of a kind.
    func backend(_ kind: BackendKind) -> any ScheduleBackend {
        // systemd.unit(5), "User Unit Search Path"; a home is there, the state directory is in it.
        let directory = environment.baseDirectories.configuration ?? "/.config"
        return kind.backend(root: root, userUnits: directory + "/systemd/user", run: run)
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
    func removeEverywhere(_ name: String, but kept: BackendKind? = nil) throws(ScheduleError) {
        var failure: ScheduleError?
        // What root has under the same name is not the user's.
        for kind in BackendKind.allCases where kind != kept && (isRoot || !kind.isForMachine) {
            do throws(ScheduleError) {
                try backend(kind).remove(name)
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
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
                "The program was replaced just now: run the new one."
            )
        }
        // Root would run it again and again.
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
}

import SyncModel
package import SyncSystem

/// Puts schedules into effect on this machine, and takes them away.
package struct ScheduleInstallation: Sendable {
    private let directories: BaseDirectories
    private let ownProgram: @Sendable () throws(ScheduleError) -> String
    /// What can start schedules, on any machine.
    package var backends: [any ScheduleBackend]
    private let isRoot: Bool

    /// - Parameters:
    ///   - root: Where the machine's own files begin; empty but in tests.
    ///   - run: Runs programs of the system.
    ///   - ownProgram: The absolute path of what is to be started; safe for root to run again and again.
    package init(
        _ directories: BaseDirectories, root: String = "", isRoot: Bool = CurrentProcess.user == 0,
        run: @escaping CommandRunner, ownProgram: @escaping @Sendable () throws(ScheduleError) -> String
    ) {
        (self.directories, self.isRoot, self.ownProgram) = (directories, isRoot, ownProgram)
        backends = scheduleBackends(
            root: root,
            // A home is there, the state directory is in it.
            configuration: directories.configuration ?? "/.config", run: run)
    }

    /// What starts schedules that are kept with a backend's name.
    ///
    /// - Throws: ``ScheduleError`` with code `file` for a name that no backend has.
    package func backend(_ name: String) throws(ScheduleError) -> any ScheduleBackend {
        guard let backend = backends.first(where: { $0.name == name }) else {
            throw ScheduleError(.file, "'\(escaped(name))' is not a known schedule backend.")
        }
        return backend
    }

    /// What a schedule's timer or crontab is made from.
    package func start(_ name: String, _ clock: ScheduleClock, now: Int64) throws(ScheduleError) -> ScheduledStart {
        ScheduledStart(name: name, clock: clock, program: try program(name), today: clock.zone.local(now / 1_000).day)
    }

    /// Has it started no more, by whatever it was: nobody knows what that is. A program that is not installed
    /// starts nothing.
    ///
    /// - Parameter kept: Starts it rightly.
    /// - Throws: ``ScheduleError`` for the first that could not be taken away; the others are, where they can be.
    package func removeEverywhere(_ name: String, but kept: String? = nil) throws(ScheduleError) {
        var failure: ScheduleError?
        // What root has under the same name is not the user's.
        for backend in backends where backend.name != kept && (isRoot || !backend.isForMachine) {
            do throws(ScheduleError) { try backend.remove(name) } catch { failure = failure ?? error }
        }
        if let failure { throw failure }
    }

    /// What is started: this program, with the places it works with now.
    package func program(_ name: String) throws(ScheduleError) -> ScheduledProgram {
        let names = ["XDG_CONFIG_HOME", "XDG_STATE_HOME"]
        return try ScheduledProgram(
            path: try ownProgram(), arguments: ["schedule", "run", name, "--quiet"],
            variables: names.compactMap { name in directories.path(name).map { "\(name)=\($0)" } })
    }
}

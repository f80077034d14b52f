import SyncModel
package import SyncSystem

/// Puts schedules into effect on this machine, and takes them out of effect.
package struct ScheduleInstallation: Sendable {
    private let directories: BaseDirectories
    private let ownProgram: @Sendable () throws(ScheduleError) -> String
    /// All backends, available here or not.
    package var backends: [any ScheduleBackend]
    private let isRoot: Bool

    /// - Parameters:
    ///   - root: The root of the machine's own files; empty except in tests.
    ///   - run: Runs programs of the system.
    ///   - ownProgram: The absolute path of the program to start; it must be safe for root to run repeatedly.
    package init(
        _ directories: BaseDirectories, root: String = "", isRoot: Bool = CurrentProcess.user == 0,
        run: @escaping CommandRunner, ownProgram: @escaping @Sendable () throws(ScheduleError) -> String
    ) {
        (self.directories, self.isRoot, self.ownProgram) = (directories, isRoot, ownProgram)
        backends = scheduleBackends(
            root: root,
            // There is a home: the state directory is in it.
            configuration: directories.configuration ?? "/.config", run: run)
    }

    /// The backend with a stored name.
    ///
    /// - Throws: ``ScheduleError`` with code `file` for a name that no backend has.
    package func backend(_ name: String) throws(ScheduleError) -> any ScheduleBackend {
        guard let backend = backends.first(where: { $0.name == name }) else {
            throw ScheduleError(.file, "'\(escaped(name))' is not a known schedule backend.")
        }
        return backend
    }

    /// The start from which a schedule's timer or crontab is made.
    package func start(_ name: String, _ clock: ScheduleClock, now: Int64) throws(ScheduleError) -> ScheduledStart {
        ScheduledStart(name: name, clock: clock, program: try program(name), today: clock.zone.local(now / 1_000).day)
    }

    /// Takes a schedule out of effect in every backend, because it is unknown which one starts it. A program that is
    /// not installed starts nothing.
    ///
    /// - Parameter kept: The backend that rightly starts it.
    /// - Throws: ``ScheduleError`` of the first backend that failed; the others are still tried.
    package func removeEverywhere(_ name: String, but kept: String? = nil) throws(ScheduleError) {
        var failure: ScheduleError?
        // A schedule of root with the same name is not the user's.
        for backend in backends where backend.name != kept && (isRoot || !backend.isForMachine) {
            do throws(ScheduleError) { try backend.remove(name) } catch { failure = failure ?? error }
        }
        if let failure { throw failure }
    }

    /// The program to start: this one, with its current directories.
    package func program(_ name: String) throws(ScheduleError) -> ScheduledProgram {
        let names = ["XDG_CONFIG_HOME", "XDG_STATE_HOME"]
        return try ScheduledProgram(
            path: try ownProgram(), arguments: ["schedule", "run", name, "--quiet"],
            variables: names.compactMap { name in directories.path(name).map { "\(name)=\($0)" } })
    }
}

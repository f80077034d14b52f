import Foundation
import SyncAgent
import SyncDaemon
import SyncModel
import SyncPluginHost
import SyncSchedule
import SyncStore
import SyncSystem

extension ScheduleRecords {
    /// The schedules of this user.
    init(_ environment: EnvironmentPaths = .ofProcess) throws(CommandFailure) {
        self.init(
            configuration: try environment.configurationDirectory(), state: try environment.statePath(),
            installation: ScheduleInstallation(environment))
    }

    /// As ``replace(_:now:warn:)``, now.
    func replace(_ wanted: Record, output: Output) throws(ScheduleError) -> Bool {
        try replace(wanted, now: SystemTime.milliseconds(), warn: output.warning)
    }

    /// Warns of schedules that pull other manifests into a schedule's directory. Those that cannot be read are skipped;
    /// `schedule list` reports them.
    func warn(ofRivals wanted: Record, output: Output) {
        let request = wanted.definition.request
        for name in (try? names()) ?? [] where name != wanted.name {
            guard let other = try? find(name)?.definition.request, other.destination == request.destination,
                other.manifest != request.manifest
            else { continue }
            output.warning(
                "schedule \(name) pulls \(redacted(url: other.manifest)) into the same directory, which belongs to one "
                    + "project: unless both are of one project, choose another directory with --into.")
        }
    }

    /// As ``note(_:_:cause:status:in:now:)``, now.
    func note(_ name: String, _ failure: CommandFailure, in store: SyncStore?) {
        note(
            name, failure.message, cause: failure.cause, status: failure.status, in: store,
            now: SystemTime.milliseconds())
        if let store { MetricsFile.keepAfterTry(nil, store) }
    }
}

extension ScheduleInstallation {
    /// The installation on this machine, for this user; it starts this program.
    init(
        _ environment: EnvironmentPaths = .ofProcess, root: String = "", isRoot: Bool = CurrentProcess.user == 0,
        run: CommandRunner? = nil
    ) {
        self.init(
            environment.baseDirectories, root: root, isRoot: isRoot,
            run: run ?? systemCommands(environment: ProcessInfo.processInfo.environment, environment.program(named:)),
            ownProgram: Self.ownProgram)
    }

    @Sendable private static func ownProgram() throws(ScheduleError) -> String {
        let path = EnvironmentPaths.ownProgram
        // The program's file is gone, as in the middle of an update.
        guard !path.hasPrefix("/proc/") else {
            throw ScheduleError(.unavailable, "The program was replaced just now: run the new one.")
        }
        // Root would run it again and again.
        if CurrentProcess.user == 0 {
            _ = try rethrowing(physicalProgram(path, role: "program", destination: nil)) { (error: ProgramError) in
                ScheduleError(.unavailable, error.message)
            }
        }
        return path
    }
}

extension MachineFacts {
    /// The facts about this machine that backends need.
    init(_ access: StateAccess, _ environment: EnvironmentPaths = .ofProcess) {
        self.init(environment.program(named:)) { access.place.isLocked }
    }
}

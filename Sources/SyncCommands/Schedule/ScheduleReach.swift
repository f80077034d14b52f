import Foundation
import SyncAgent
import SyncDaemon
import SyncModel
import SyncPluginHost
import SyncSchedule
import SyncStore
import SyncSystem

extension ScheduleRecords {
    /// Those of this user.
    init(_ environment: EnvironmentPaths = .ofProcess) throws(CommandFailure) {
        self.init(
            configuration: try environment.configurationDirectory(), state: try environment.statePath(),
            installation: ScheduleInstallation(environment))
    }

    /// As ``replace(_:_:_:now:warn:)``, now.
    func replace(_ name: String, _ definition: ScheduleDefinition, _ clock: ScheduleClock, output: Output)
        throws(ScheduleError) -> Bool
    { try replace(name, definition, clock, now: SystemTime.milliseconds(), warn: output.warning) }

    /// As ``note(_:_:cause:status:in:now:)``, now.
    func note(_ name: String, _ failure: CommandFailure, in store: SyncStore?) {
        note(
            name, failure.message, cause: failure.cause, status: failure.status, in: store,
            now: SystemTime.milliseconds())
    }
}

extension ScheduleInstallation {
    /// On this machine, for this user; it starts this program.
    init(
        _ environment: EnvironmentPaths = .ofProcess, root: String = "", isRoot: Bool = CurrentProcess.user == 0,
        run: CommandRunner? = nil
    ) {
        self.init(
            environment.baseDirectories, root: root, isRoot: isRoot, run: run ?? SystemCommands(environment).run,
            ownProgram: Self.ownProgram)
    }

    @Sendable private static func ownProgram() throws(ScheduleError) -> String {
        let path = try rethrowing(AgentReach.ownProgram()) { (failure: CommandFailure) in
            ScheduleError(.unavailable, failure.message)
        }
        // Its file is gone, as in the middle of an update.
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

extension SystemCommands {
    /// Those that this user's `PATH` finds.
    init(_ environment: EnvironmentPaths = .ofProcess) {
        self.init(environment: ProcessInfo.processInfo.environment, search: environment.program(named:))
    }

    /// What backends can ask about this machine.
    func facts(_ access: StateAccess) -> MachineFacts { facts { access.place.isLocked } }
}

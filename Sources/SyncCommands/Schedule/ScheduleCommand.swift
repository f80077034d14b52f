import ArgumentParser
import SyncModel
import SyncSchedule

/// `syncagent schedule`: pulls that start by themselves, every night.
struct ScheduleCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "schedule",
        abstract: "Pull every night: add, list, show, remove and run schedules.",
        discussion: """
            A schedule is started by systemd where it runs, else by cron, else by the agent's own clock. What it starts \
            is the same: a run that the agent works on, within the night's window, and goes on with the next night.
            """,
        subcommands: [
            ScheduleAddCommand.self, ScheduleListCommand.self, ScheduleShowCommand.self,
            ScheduleRemoveCommand.self,
            ScheduleRunCommand.self,
        ]
    )

    func run() async throws {
        throw CommandFailure(.usage, SyncagentCommand.helpMessage(for: ScheduleCommand.self))
    }
}

/// Which schedule a verb is about.
struct ScheduleArgument: ParsableArguments {
    @Argument(help: "The schedule, as 'syncagent schedule list' names it.")
    var name: String
}

extension CommandFailure {
    /// What a schedule's error is to a command.
    init(_ error: ScheduleError) {
        let status: ExitStatus =
            switch error.code {
            case .invalid: .usage
            case .unknown: .noInput
            case .unavailable: .unavailable
            case .file: .ioError
            }
        self.init(status, error.description)
    }
}

/// Does work on schedules, with the words and the status of a command for what goes wrong.
func scheduling<R>(_ body: () throws(ScheduleError) -> R) throws(CommandFailure) -> R {
    do throws(ScheduleError) {
        return try body()
    } catch {
        throw CommandFailure(error)
    }
}

import ArgumentParser
import SyncModel
import SyncSchedule

/// `syncagent schedule`: pulls that start by themselves.
struct ScheduleCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "schedule",
        abstract: "Pull again and again by itself: every night, every 6 hours, by a rule of cron.",
        discussion: """
            A schedule is started by systemd where it runs, else by cron, else by the agent's own clock. What it starts \
            is the same: a run that the agent works on, within its window, and goes on with the next time.
            """,
        subcommands: [
            ScheduleAddCommand.self, ScheduleListCommand.self, ScheduleShowCommand.self,
            ScheduleRemoveCommand.self, SchedulePauseCommand.self, ScheduleResumeCommand.self,
            ScheduleApplyCommand.self, ScheduleRunCommand.self,
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

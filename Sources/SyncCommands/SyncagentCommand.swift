import ArgumentParser
import SyncModel

/// `syncagent`: the one executable. Every verb is a subcommand in a file of its own.
struct SyncagentCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "syncagent",
        abstract: "Bring exactly the files a manifest names onto this machine, verified, in few requests.",
        discussion: """
            Standard output is data, standard error is progress and messages.

            Exit status: 0 done, 1 internal error, 2 incomplete or differing files, 5 files in place but a \
            hook failed, 64 usage, 65 manifest or data invalid, 66 manifest not found, 69 nothing reachable, \
            73 cannot create destination or state, 74 I/O error or disk full, 75 session busy, 77 refused by \
            policy, 78 configuration, 130 or 143 interrupted with everything fetched kept.
            """,
        version: syncagentVersion,
        subcommands: [
            PullCommand.self, PublishCommand.self, KeysCommand.self, TrustCommand.self, PlanCommand.self,
            VerifyCommand.self, LsCommand.self, DiffCommand.self, CatCommand.self, ServeCommand.self,
            StatusCommand.self, ReportCommand.self, MetricsCommand.self, EventsCommand.self, WaitCommand.self,
            AttachCommand.self, PauseCommand.self,
            ResumeCommand.self, CancelCommand.self, PrioritizeCommand.self, RemoveCommand.self,
            HooksCommand.self, PluginsCommand.self, ScheduleCommand.self, AgentCommand.self,
            DoctorCommand.self,
            GCCommand.self,
        ]
    )

    /// No verb: the help text as an error, so that a script with an empty verb does not seem to succeed.
    func run() async throws {
        throw CommandFailure(.usage, SyncagentCommand.helpMessage())
    }
}

/// The version of the program, as in its change notes. Semantic Versioning 2.0.0.
package let syncagentVersion = "0.2.0"

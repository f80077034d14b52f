import ArgumentParser
import SyncModel
import SyncSchedule
import SyncStore

/// `syncagent schedule`: pulls that start by themselves.
struct ScheduleCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "schedule",
        abstract: "Pull on a schedule: every night, every 6 hours, or by a cron expression.",
        discussion: """
            systemd starts schedules where it is available, otherwise cron, otherwise the agent itself. In each case the \
            agent does the run, within its window; what is left over continues at the next time.
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
    @Argument(help: "The schedule's name in 'syncagent schedule list'.")
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

/// `syncagent schedule remove`.
struct ScheduleRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Remove a schedule and everything that was set up for it.",
        discussion:
            "Pulled files stay, and a run in progress continues; 'syncagent cancel' ends it."
    )

    @OptionGroup
    var schedule: ScheduleArgument

    func run() async throws {
        let records = try ScheduleRecords()
        let name = schedule.name
        let session = try scheduling { () throws(ScheduleError) -> String? in
            guard try ScheduleFiles.read(records.path(name)) != nil else {
                _ = try records.get(name)
                return nil
            }
            return try records.discard(name)
        }
        let output = Output()
        output.message("\(name): removed.")
        guard let session, let store = try StateAccess(output: output).existingStore() else { return }
        let open = try asking { () throws(StoreError) in
            try store.runs(session: session, onlyOpen: true, limit: 1)
        }
        if let run = open.first {
            output.message(
                "Run \(run.identifier) is \(run.state.rawValue); 'syncagent cancel \(escaped(session))' ends it."
            )
        }
    }
}

/// `syncagent schedule pause`.
struct SchedulePauseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause",
        abstract: "Pause a schedule until it is resumed.",
        discussion:
            "A run in progress continues; 'syncagent pause' stops it. Missed times are not caught up."
    )

    @OptionGroup
    var schedule: ScheduleArgument

    func run() async throws { try await ScheduleRest(name: schedule.name).set(isPaused: true) }
}

/// `syncagent schedule resume`.
struct ScheduleResumeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume",
        abstract: "Resume a paused schedule from its next time on."
    )

    @OptionGroup
    var schedule: ScheduleArgument

    func run() async throws { try await ScheduleRest(name: schedule.name).set(isPaused: false) }
}

/// Takes a schedule out of effect with everything that is known of it, and puts it back.
private struct ScheduleRest {
    let name: String

    func set(isPaused: Bool) async throws {
        let output = Output()
        let records = try ScheduleRecords()
        let record = try scheduling { () throws(ScheduleError) in try records.get(name) }
        guard record.definition.isPaused != isPaused else {
            return output.message("\(name): \(isPaused ? "it is paused already" : "it is not paused").")
        }
        var definition = record.definition
        definition.paused = isPaused ? true : nil
        _ = try scheduling { () throws(ScheduleError) in
            try records.replace(name, definition, record.clock, output: output)
        }
        if isPaused {
            return output.message("\(name): paused. 'syncagent schedule resume \(name)' resumes it.")
        }
        if record.backend.needsAgent {
            _ = try await AgentReach(state: try StateAccess(output: output)).client()
        }
        let text = ScheduleText(now: EngineAssembly.milliseconds())
        let next = record.clock.next(after: text.now).map { " Next: \(text.moment($0.fire))." } ?? ""
        output.message("\(name): \(text.rule(record.clock)), by \(record.backend.words).\(next)")
    }
}

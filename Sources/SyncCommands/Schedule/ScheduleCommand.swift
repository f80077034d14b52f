import ArgumentParser
import SyncModel
import SyncSchedule
import SyncStore
import SyncSystem

struct ScheduleCommand: CommandGroup {
    static let configuration = CommandConfiguration(
        commandName: "schedule", abstract: "Pull on a schedule: every night, every 6 hours, or by a cron expression.",
        discussion: """
            systemd starts schedules where it is available, otherwise cron, otherwise the agent itself. In each case \
            the agent does the run, within its window; unfinished work continues the next time.
            """,
        subcommands: [
            ScheduleAddCommand.self, ScheduleListCommand.self, ScheduleShowCommand.self, ScheduleRemoveCommand.self,
            SchedulePauseCommand.self, ScheduleResumeCommand.self, ScheduleApplyCommand.self, ScheduleRunCommand.self,
        ])
}

/// The schedule that a verb works on.
struct ScheduleArgument: ParsableArguments {
    @Argument(help: "The schedule's name, as in 'syncagent schedule list'.") var name: String

    /// Pauses or resumes the schedule.
    func set(isPaused: Bool) async throws {
        let output = Output()
        let records = try ScheduleRecords()
        var record = try records.get(name)
        guard record.definition.isPaused != isPaused else {
            return output.message("\(name): \(isPaused ? "it is already paused" : "it is not paused").")
        }
        record.definition.isPaused = isPaused
        _ = try records.replace(record, output: output)
        MetricsFile.keepAfterChange(output)
        if isPaused { return output.message("\(name): paused. 'syncagent schedule resume \(name)' resumes it.") }
        if record.backend.needsAgent { try await StateAccess(output: output).reachAgent() }
        let text = SessionText(now: SystemTime.milliseconds())
        let next = record.clock.next(after: text.now).map { " Next: \(text.moment($0.fire))." } ?? ""
        output.message("\(name): \(text.rule(record.clock)), by \(record.backend.words).\(next)")
    }
}

struct ScheduleRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Remove a schedule and everything that was set up for it.",
        discussion: "Pulled files stay, and a run in progress continues; 'syncagent cancel' ends it.",
        aliases: ["rm"])

    @OptionGroup var schedule: ScheduleArgument

    func run() async throws {
        let records = try ScheduleRecords()
        let name = schedule.name
        // If there is no file, `get` throws the error for an unknown schedule.
        let isThere = try readScheduleFile(records.path(name)) != nil
        let session = try isThere ? records.discard(name) : records.get(name).memory.session
        let output = Output()
        output.message("\(name): removed.")
        MetricsFile.keepAfterChange(output)
        guard let session, let store = try StateAccess(output: output).existingStore() else { return }
        if let run = try store.runs(session: session, onlyOpen: true, limit: 1).first {
            output.message(
                "Run \(run.identifier) is \(run.state.rawValue); 'syncagent cancel \(escaped(session))' ends it.")
        }
    }
}

struct SchedulePauseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause", abstract: "Pause a schedule until it is resumed.",
        discussion:
            "A run in progress continues; 'syncagent pause' stops it. The schedule does not catch up on missed times.")

    @OptionGroup var schedule: ScheduleArgument

    func run() async throws { try await schedule.set(isPaused: true) }
}

struct ScheduleResumeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume", abstract: "Resume a paused schedule from its next time on.")

    @OptionGroup var schedule: ScheduleArgument

    func run() async throws { try await schedule.set(isPaused: false) }
}

import ArgumentParser
import SyncModel
import SyncSchedule

/// `syncagent schedule pause`.
struct SchedulePauseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause",
        abstract: "Let a schedule rest until it is resumed.",
        discussion:
            "A run that is under way goes on: 'syncagent pause' stops it. What is missed meanwhile is not caught up."
    )

    @OptionGroup
    var schedule: ScheduleArgument

    func run() async throws { try await ScheduleRest(name: schedule.name).set(isPaused: true) }
}

/// `syncagent schedule resume`.
struct ScheduleResumeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume",
        abstract: "Let a paused schedule go on, from its next time on."
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
            return output.message("\(name): paused. 'syncagent schedule resume \(name)' lets it go on.")
        }
        if definition.backend == .agent {
            _ = try await AgentReach(state: try StateAccess(output: output)).client()
        }
        let text = ScheduleText(now: EngineAssembly.milliseconds())
        let next = record.clock.next(after: text.now).map { " Next: \(text.moment($0.fire))." } ?? ""
        output.message("\(name): \(text.rule(record.clock)), by \(definition.backend.words).\(next)")
    }
}

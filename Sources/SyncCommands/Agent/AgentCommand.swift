import ArgumentParser
import SyncAgent
import SyncModel
import SyncSystem

struct AgentCommand: CommandGroup {
    static let configuration = CommandConfiguration(
        commandName: "agent", abstract: "Run, query or stop the background process.",
        subcommands: [AgentRunCommand.self, AgentStatusCommand.self, AgentStopCommand.self])
}

struct AgentStatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show the running agent.",
        discussion: "Exit status: 0 if an agent answers, 69 if none does. Starts none.")

    @OptionGroup(title: "Output") var format: JSONFlag

    func run() async throws {
        let output = Output()
        let state = try StateAccess(output: output)
        let status = try await state.sayingWhatKeeps { try await state.client.status() }
        if format.json { return try output.value(status) }
        let text = SessionText(now: SystemTime.milliseconds())
        let rows = [
            ["state", status.state.rawValue], ["process", String(status.process)],
            ["version", escaped(status.version)],
            ["started", text.moment(status.started) + (status.onDemand ? ", on demand" : "")],
            ["runs", "\(status.running) of at most \(status.maximumRuns)"], ["sessions", String(status.sessions)],
            ["state directory", escaped(status.stateDirectory)], ["socket", escaped(state.place.socketPath)],
        ]
        for line in tableLines(rows) { output.line(line) }
    }
}

struct AgentStopCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stop", abstract: "Stop the agent; its runs stay paused until they are resumed.",
        discussion: """
            Runs in progress stop at a checkpoint first, and nothing that has been fetched is lost. With --release they \
            are not paused, and the next agent continues them. If no agent is running, the command does nothing (exit 0).
            """)

    @Flag(help: "Leave the runs to the next agent instead of pausing them.") var release = false

    func run() async throws {
        let output = Output()
        let state = try StateAccess(output: output)
        var end = ContinuousClock.now + .seconds(30)
        // An agent that cannot accept a connection still counts.
        var wasLocked = false
        while true {
            do {
                try await state.sayingWhatKeeps { try await state.client.stop(release ? .release : .pause) }
                break
            } catch let error as ControlError {
                guard error.code == .unreachable else { throw error }
                guard state.place.isLocked else {
                    return output.message(wasLocked ? "The agent has stopped." : "No agent is running.")
                }
                wasLocked = true
                guard ContinuousClock.now < end else { throw error }
                try await Task.sleep(for: .milliseconds(50))
            }
        }
        // The agent is stopping, and has ended when its lock is free. Its answer may have taken longer than that.
        end = ContinuousClock.now + .seconds(30)
        while state.place.isLocked {
            guard ContinuousClock.now < end else {
                throw CommandFailure(.busy, "The agent is still stopping after 30 s.")
            }
            try await Task.sleep(for: .milliseconds(50))
        }
        output.message("The agent has stopped.")
    }
}

import ArgumentParser
import SyncAgent

/// `syncagent pause`: stops a session's run until somebody resumes it.
struct PauseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause",
        abstract: "Stop a session's run at a checkpoint, until it is resumed.",
        discussion:
            "What has been fetched is kept, and restarts change nothing: only 'syncagent resume' does."
    )

    @OptionGroup
    var session: SessionArgument

    @OptionGroup(title: "Output")
    var format: JSONFlag

    func run() async throws {
        try await SessionChange(session: session, json: format.json).apply { client, name in
            try await client.pause(name)
        }
    }
}

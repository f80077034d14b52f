import ArgumentParser
import SyncAgent

/// `syncagent resume`: lets a paused run go on.
struct ResumeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume",
        abstract: "Let a session's paused run go on, or start one that was enqueued paused.",
        discussion: "Where the last run has ended and files are missing, the same is asked for again."
    )

    @OptionGroup
    var session: SessionArgument

    @OptionGroup(title: "Output")
    var format: JSONFlag

    func run() async throws {
        try await SessionChange(session: session, json: format.json).apply { client, name in
            try await client.resume(name)
        }
    }
}

import ArgumentParser
import SyncAgent

/// `syncagent cancel`: gives a session's run up.
struct CancelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel",
        abstract: "Give up a session's run; installed files stay.",
        discussion: "Hooks of groups that are complete already still run."
    )

    @OptionGroup
    var session: SessionArgument

    @OptionGroup(title: "Output")
    var format: JSONFlag

    func run() async throws {
        try await SessionChange(session: session, json: format.json).apply { client, name in
            try await client.cancel(name)
        }
    }
}

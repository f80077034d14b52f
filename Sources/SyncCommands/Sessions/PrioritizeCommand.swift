import ArgumentParser
import SyncAgent
import SyncModel

/// `syncagent prioritize`: some files first.
struct PrioritizeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "prioritize",
        abstract: "Fetch these files of a session's run before all others.",
        discussion: "Paths as the manifest has them, relative to the destination."
    )

    @Argument(
        help: ArgumentHelp("The session.", valueName: "session"),
        completion: .custom { _, _, _ in knownSessions() }
    )
    var session: String

    @Argument(help: ArgumentHelp("Files, as the manifest names them.", valueName: "path"))
    var paths: [String]

    @OptionGroup(title: "Output")
    var format: JSONFlag

    func validate() throws {
        if paths.contains(where: { $0.isEmpty || $0.hasPrefix("/") }) {
            throw ValidationError("PATH is relative to the destination, as in the manifest.")
        }
    }

    func run() async throws {
        let paths = paths
        var argument = SessionArgument()
        argument.session = session
        try await SessionChange(session: argument, json: format.json).apply { client, name in
            try await client.prioritize(name, paths: paths)
        }
    }
}

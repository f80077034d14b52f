import ArgumentParser
import SyncAgent
import SyncControl
import SyncDaemon
import SyncModel

/// `syncagent rm`: forgets a session.
struct RemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rm",
        abstract: "Forget a session with its runs, hooks and events; files stay unless --files is given.",
        discussion: """
            With --files the files that the session has installed go, too, except those that somebody has changed \
            since. A session with a run under way is refused with 77 unless --force is given; the run is given up then.
            """
    )

    @Argument(help: ArgumentHelp("The session.", valueName: "session"))
    var session: String

    @Flag(help: "Remove installed files that nobody has changed.")
    var files = false

    @Flag(help: "Remove it even if a run is under way.")
    var force = false

    func run() async throws {
        let output = Output()
        let state = try StateAccess(output: output)
        let store = try state.store()
        let name = try StateAccess.session(session, in: store)
        let status: SessionStatus
        do throws(ControlError) {
            status = try StateAccess.reader(store).session(name)
        } catch {
            throw CommandFailure(error)
        }
        guard force || status.state == .idle else {
            throw CommandFailure(
                .refused,
                "\(escaped(name)) has a run that is \(status.state). --force gives it up; nothing was removed."
            )
        }
        let files = files
        try await AgentReach(state: state).ask { try await $0.remove(name, files: files) }
        output.message(
            "\(escaped(name)) is forgotten"
                + (files
                    ? ", its files are removed." : "; its files are still in \(escaped(status.destination)).")
        )
    }
}

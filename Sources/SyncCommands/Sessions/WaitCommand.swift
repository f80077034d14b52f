import ArgumentParser
import SyncAgent
import SyncModel

struct WaitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "wait", abstract: "Wait until a session has no open run and no hook left to run.",
        discussion: """
            Without SESSION, it takes the only session, or the only one with an open run. Starts an agent if there \
            is work and none is running. Ending this command does not stop the run.

            Exit status: that of the pull, as if it had run in the foreground: 0 every file is in place and every hook \
            succeeded, 2 files are missing or the run was cancelled, 5 files are in place but a hook failed, 65, 69, \
            74 … the reason why the pull failed; 75 the session is still busy at the timeout, or it is paused or set \
            aside until a person resumes it.
            """)

    @OptionGroup var session: SessionArgument

    @Option(help: "Wait no longer than this: 90s, 15m, 6h.  (default: forever)".taking("time"), transform: duration)
    var timeout: Duration?

    @Flag(name: .shortAndLong, help: "Print only errors.") var quiet = false

    func run() async throws {
        let output = Output(quiet: quiet)
        let state = try StateAccess(output: output)
        let (store, name) = try state.session(session.session, prefersOpen: true)
        let watch = RunWatch(store: store, session: name)
        let timeout = timeout
        try await StopSignals.ending(within: StopSignals.onlooker) {
            let start = ContinuousClock.now
            try await watch.wait(state, every: .milliseconds(200)) { status, follower in
                if let timeout, ContinuousClock.now - start >= timeout {
                    throw CommandFailure(.busy, "\(escaped(watch.session)) is still \(status.state).")
                }
                try follower.endIfPaused(status)
            }
        }
    }
}

import ArgumentParser
import SyncControl
import SyncControlServer
import SyncModel

/// `syncagent wait`: returns when a session's work is over.
struct WaitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "wait",
        abstract: "Wait until a session has no open run and no hook left to run.",
        discussion: """
            Starts an agent if there is work and none is running. Ending this command does not stop the run.

            Exit status: that of the pull, as if it had run in the foreground: 0 every file is in place and every hook \
            succeeded, 2 files are missing or the run was cancelled, 5 files are in place but a hook failed, 65, 69, \
            74 … the reason why the pull failed; 75 the session is still busy at the timeout, or it is paused or set \
            aside until a person resumes it.
            """
    )

    @OptionGroup
    var session: SessionArgument

    @Option(
        help: ArgumentHelp("Wait no longer than this: 90s, 15m, 6h.  (default: forever)", valueName: "time"),
        transform: duration
    )
    var timeout: Duration?

    @Flag(name: .shortAndLong, help: "Print only errors.")
    var quiet = false

    func run() async throws {
        let output = Output(quiet: quiet)
        let state = try StateAccess(output: output)
        let store = try state.store()
        let watch = RunWatch(
            store: store,
            session: try StateAccess.session(session.session, in: store, prefersOpen: true)
        )
        let timeout = timeout
        try await StopSignals.ending(within: StopSignals.onlooker) {
            try await Self.wait(watch, timeout: timeout, state)
        }
    }

    private static func wait(_ watch: RunWatch, timeout: Duration?, _ state: StateAccess) async throws {
        let start = ContinuousClock.now
        var care = RunCare(state)
        while true {
            switch try watch.look() {
            case .over(let status, let words):
                state.output.message("\(escaped(watch.session)): \(words)")
                guard status == .done else { throw CommandFailure(status) }
                return
            case .open(let status):
                if let timeout, ContinuousClock.now - start >= timeout {
                    throw CommandFailure(.busy, "\(escaped(watch.session)) is still \(status.state).")
                }
                try care.endIfPaused(status)
                try await care.look(at: status)
                try await TaskThreads.sleep(for: .milliseconds(200))
            }
        }
    }
}

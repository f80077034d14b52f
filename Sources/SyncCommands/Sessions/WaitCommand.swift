import ArgumentParser
import SyncControl
import SyncControlServer
import SyncModel

/// `syncagent wait`: returns when a session's work is over.
struct WaitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "wait",
        abstract: "Wait until a session has no open run and owes no hook.",
        discussion: """
            Exit status: that of the pull, as if it had run in the foreground: 0 every file is in place and every \
            hook has succeeded, 2 some are not, 5 files are in place and a hook failed, 65, 69, 74 … why it came to \
            nothing; 2 also when it was given up; 75 when the time is over and the session still busy, and when it is \
            paused or put aside, which only a person ends. An agent is started when there is work and nobody is at it. \
            Ending the waiting leaves the run as it is.
            """
    )

    @OptionGroup
    var session: SessionArgument

    @Option(
        help: ArgumentHelp("Wait no longer: 90s, 15m, 6h.  (default: for ever)", valueName: "time"),
        transform: duration
    )
    var timeout: Duration?

    @Flag(name: .shortAndLong, help: "Say nothing but errors.")
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

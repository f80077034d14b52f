import ArgumentParser
import SyncAgent
import SyncControl
import SyncModel

/// `syncagent attach`: looks on while a session's run goes on in the background.
struct AttachCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "attach",
        abstract: "Show the progress of a session's run until it ends; ^C leaves the run going.",
        discussion: """
            Starts an agent when none runs. With --json the session's events as they come, progress among them. \
            Exit status: that of 'syncagent wait'; 130 or 143 when it was detached, and the run goes on.
            """
    )

    @OptionGroup
    var session: SessionArgument

    @OptionGroup(title: "Output")
    var reporting: ReportingOptions

    func run() async throws {
        let output = reporting.output()
        let state = try StateAccess(output: output)
        let store = try state.store()
        let name = try StateAccess.session(session.session, in: store)
        let watch = RunWatch(store: store, session: name)
        let display = reporting.display(on: output)
        let json = reporting.json
        do {
            try await StopSignals.cancelling(
                notice: {
                    output.message("Detached; the run goes on. 'syncagent attach \(escaped(name))' returns.")
                },
                atOnce: { output.clearProgress() },
                {
                    try await display.whileRunning {
                        try await Self.follow(watch, state, display, json: json)
                    }
                }
            )
        } catch {
            if let status = StopSignals.requestedStatus { throw CommandFailure(status) }
            throw error
        }
    }

    private static func follow(
        _ watch: RunWatch,
        _ state: StateAccess,
        _ display: ProgressDisplay,
        json: Bool
    ) async throws {
        let client = try await AgentReach(state: state).client()
        let status = try await client.session(watch.session)
        let session = AgentSession(watch.session, client: client)
        if case .over(let status, let words) = try watch.look() {
            return try end(status, words, watch, state)
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                let events = session.events(after: status.lastSequence, following: true, progress: true)
                for try await event in events {
                    if json { state.output.line(event.json) }
                    if event.name == "progress" { try show(event, on: display) }
                }
            }
            // The end is looked for in the store: it is there whoever worked on the run.
            while true {
                if case .over(let status, let words) = try watch.look() {
                    group.cancelAll()
                    // What is still on its way says nothing that is not known.
                    while let _ = try? await group.next() {}
                    return try end(status, words, watch, state)
                }
                try await Task.sleep(for: .milliseconds(200))
            }
        }
    }

    private static func show(_ event: SessionEvent, on display: ProgressDisplay) throws {
        let progress = try event.fields(RunStatus.Progress.self)
        display.report(
            ProgressSnapshot(
                phase: "Fetching",
                filesDone: progress.filesDone,
                filesTotal: progress.filesTotal,
                bytesDone: progress.bytesDone,
                bytesTotal: progress.bytesTotal
            )
        )
    }

    private static func end(
        _ status: ExitStatus,
        _ words: String,
        _ watch: RunWatch,
        _ state: StateAccess
    ) throws {
        state.output.message("\(escaped(watch.session)): \(words)")
        guard status == .done else { throw CommandFailure(status) }
    }
}

import ArgumentParser
import SyncAgent
import SyncDaemon
import SyncModel
import SyncStore
import SyncSystem

struct AttachCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "attach", abstract: "Follow the progress of a session's run until it ends; ^C leaves it running.",
        discussion: """
            Without SESSION, it takes the only session, or the only one with an open run. Starts an agent if none is \
            running. With --json it prints the session's events as they happen, up to the last one of the run, with \
            progress in between. With --since N it begins after event N and includes earlier events: a program that \
            stores the last `seq` it has handled misses no event and gets none twice. Exit status: as for 'syncagent \
            wait'; 130 or 143 if it was detached, and the run continues; 66 if event N does not exist yet, as after \
            the state was lost: begin again with 0.
            """)

    @OptionGroup var session: SessionArgument

    @Option(help: "With --json: begin after this event.  (default: with the next one)".taking("n")) var since: Int64?

    @OptionGroup(title: "Output") var reporting: ReportingOptions

    func validate() throws {
        guard let since else { return }
        if since < 0 { throw ValidationError("--since takes 0 or more, not \(since).") }
        if !reporting.json { throw ValidationError("--since needs --json.") }
    }

    func run() async throws {
        let output = reporting.output()
        let state = try StateAccess(output: output)
        let (store, name) = try state.session(session.session, prefersOpen: true)
        let watch = RunWatch(store: store, session: name)
        let display = reporting.display(on: output)
        let (json, since) = (reporting.json, since)
        try await StopSignals.ending(
            within: StopSignals.onlooker,
            notice: {
                output.message("Detached; the run continues. 'syncagent attach \(escaped(name))' attaches again.")
            }, atOnce: { output.clearProgress() },
            {
                try await display.whileRunning {
                    try await Self.follow(watch, state, display, json: json, since: since)
                }
            })
    }

    private static func follow(
        _ watch: RunWatch, _ state: StateAccess, _ display: ProgressDisplay, json: Bool, since: Int64?
    ) async throws {
        if let since { try watch.store.requireReached(since, of: watch.session) }
        let client = try await state.reachAgent()
        let status = try await client.session(watch.session)
        let session = AgentSession(watch.session, client: client)
        let start = since ?? status.lastSequence
        if case .over(let status, let words) = try watch.check() {
            if json { try printRest(after: start, watch, state) }
            return try watch.end(status, words, state)
        }
        // The agent reports its own runs, and more often than the records of other processes are written.
        let hasNews = Monitor(false)
        try await withThrowingTaskGroup(of: Int64.self) { group in
            // Prints events as they come; its result is the number of the last one.
            group.addTask {
                var last = start
                let events = session.events(after: start, following: true, progress: true)
                do {
                    for try await event in events {
                        if json { state.output.line(event.json) }
                        if let sequence = event.sequence { last = sequence }
                        guard event.kind == .progress else { continue }
                        hasNews.change { $0 = true }
                        display.report(ProgressSnapshot(try event.fields(RunStatus.Progress.self)))
                    }
                } catch {
                    // Cancelled, or the agent is gone for good: the store has the rest.
                }
                return last
            }
            // The end is read from the store, whatever process worked on the run.
            var follower = SessionFollower(state)
            while true {
                let work = try watch.check()
                if work.isResting {
                    group.cancelAll()
                    // Events that have not arrived are in the store.
                    let last = try await group.next() ?? start
                    if json { try printRest(after: last, watch, state) }
                }
                switch work {
                case .over(let status, let words): return try watch.end(status, words, state)
                case .open(let status):
                    try follower.endIfPaused(status)
                    try await follower.update(with: status)
                    if let progress = status.run?.progress, !hasNews.withLock({ $0 }) {
                        display.report(ProgressSnapshot(progress))
                    }
                    display.show { Self.details(of: watch) }
                }
                try await Task.sleep(for: .milliseconds(200))
            }
        }
    }

    /// The first running transfers.
    private static func details(of watch: RunWatch) -> [String] {
        // Without readable transfers, only the bar is shown.
        guard let list = try? watch.store.requestList(of: watch.session) else { return [] }
        return SessionText(now: SystemTime.milliseconds()).top(list, 4)
    }

    /// Prints the events that had not arrived when the run ended.
    private static func printRest(after sequence: Int64, _ watch: RunWatch, _ state: StateAccess) throws {
        var seen = sequence
        while case let events = try watch.store.nextEvents(of: watch.session, after: &seen), !events.isEmpty {
            for event in events { state.output.line(event.json) }
        }
    }
}

extension ProgressSnapshot {
    /// The progress of a run's record as shown to people.
    init(_ progress: RunStatus.Progress) {
        guard progress.phase != .waiting else {
            self.init(phase: "Waiting", unit: .nothing)
            return
        }
        self.init(
            phase: progress.phase == .looking ? "Checking" : "Fetching", filesDone: progress.filesDone,
            filesTotal: progress.filesTotal, bytesDone: progress.bytesDone, bytesTotal: progress.bytesTotal)
        isTransferring = progress.phase != .looking && progress.bytesDone < progress.bytesTotal
    }
}

import ArgumentParser
import SyncAgent
import SyncDaemon
import SyncModel
import SyncStore
import SyncSystem

/// The session that a verb works on.
struct SessionArgument: ParsableArguments {
    @Argument(
        help: "The session.  (default: the only one)".taking("session"),
        completion: .custom { _, _, _ in knownSessions() })
    var session: String?

    func validate() throws { if session == "" { throw ValidationError("SESSION needs a name, not an empty string.") } }
}

/// The names of all sessions, for completion by a shell; none if they cannot be read.
@Sendable func knownSessions() -> [String] {
    guard let state = try? StateAccess(output: Output(quiet: true)), let store = try? state.existingStore() else {
        return []
    }
    return ((try? store.sessions()) ?? []).map(\.identifier)
}

/// Whether data is printed for people or for programs.
struct JSONFlag: ParsableArguments {
    @Flag(help: "Print JSON, one object per line.") var json = false
}

/// One command for one session, through the agent; prints the resulting state.
struct SessionChange: ParsableArguments {
    @OptionGroup var session: SessionArgument

    @OptionGroup(title: "Output") var format: JSONFlag

    func apply(_ work: @escaping @Sendable (ControlClient, String) async throws -> SessionStatus) async throws {
        try await Self.apply(to: session.session, json: format.json, work)
    }

    /// The same for a session that is named in another way.
    static func apply(
        to session: String?, json: Bool,
        _ work: @escaping @Sendable (ControlClient, String) async throws -> SessionStatus
    ) async throws {
        let output = Output()
        let state = try StateAccess(output: output)
        let name = try state.session(session).name
        let status = try await state.askAgent { try await work($0, name) }
        if json { return try output.value(status) }
        let text = SessionText(now: SystemTime.milliseconds())
        let why = text.why(status).map { ": \($0)" } ?? ""
        output.message("\(escaped(status.session)) is \(status.state)\(why).")
    }
}

struct PauseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause", abstract: "Pause a session's run at a checkpoint until it is resumed.",
        discussion:
            "Everything fetched so far is kept. The run stays paused across restarts; 'syncagent resume' resumes it.")

    @OptionGroup var change: SessionChange

    func run() async throws { try await change.apply { try await $0.pause($1) } }
}

struct ResumeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume", abstract: "Resume a session's paused run, or start one that was enqueued paused.",
        discussion: "If the last run was cancelled, or has ended with files missing, this starts the same pull again.")

    @OptionGroup var change: SessionChange

    func run() async throws { try await change.apply { try await $0.resume($1) } }
}

struct CancelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel", abstract: "Cancel a session's run; installed files stay.",
        discussion: "The run's hooks are no longer called; those that earlier runs still owe are.")

    @OptionGroup var change: SessionChange

    func run() async throws { try await change.apply { try await $0.cancel($1) } }
}

struct PrioritizeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "prioritize", abstract: "Fetch these files of a session's run before all others.",
        discussion:
            "Paths are relative to the destination, as in the manifest. A directory stands for all files below it.")

    @Argument(help: "The session.".taking("session"), completion: .custom { _, _, _ in knownSessions() })
    var session: String

    @Argument(help: "Paths of files and directories, as in the manifest.".taking("path")) var paths: [String]

    @OptionGroup(title: "Output") var format: JSONFlag

    func validate() throws {
        if paths.contains(where: { $0.isEmpty || $0.hasPrefix("/") }) {
            throw ValidationError("PATH is relative to the destination, as in the manifest.")
        }
    }

    func run() async throws {
        // A shell completes a directory with a slash.
        let paths = paths.map { $0.hasSuffix("/") ? String($0.dropLast()) : $0 }
        try await SessionChange.apply(to: session, json: format.json) { client, name in
            try await client.prioritize(name, paths: paths)
        }
    }
}

struct RemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rm",
        abstract: "Remove a session with its runs, hooks and events; files stay unless --files is given.",
        discussion: """
            --files also removes the files that the session installed, except those that have changed since. It is \
            refused with exit status 64 if another session has files in the same directory. A session with a run in \
            progress is refused with exit status 77 unless --force is given, which cancels the run.
            """)

    @Argument(help: "The session.".taking("session")) var session: String

    @Flag(help: "Also remove installed files that have not changed since.") var files = false

    @Flag(help: "Remove the session even if a run is in progress.") var force = false

    func run() async throws {
        let output = Output()
        let state = try StateAccess(output: output)
        let (store, name) = try state.session(session)
        let status = try store.sessionStatus(name, now: SystemTime.milliseconds())
        guard force || status.state == .idle else {
            throw CommandFailure(
                .refused, "\(escaped(name)) has a run that is \(status.state). --force cancels it; nothing was removed."
            )
        }
        let files = files
        try await state.askAgent { client in
            do {
                try await client.remove(name, files: files)
            } catch let error as ControlError where error.code == .unknownSession {
                // The session existed a moment ago: an agent that was stopping has removed it, and its answer was lost.
                guard try store.session(name) == nil else { throw error }
            }
        }
        // The configured metrics file still has the session.
        MetricsFile.keepAfterTry(nil, store)
        let rest = exists(status.destination) ? "; what is in \(escaped(status.destination)) stays." : "."
        output.message("\(escaped(name)) is removed" + (files ? " with its files." : rest))
    }
}

import ArgumentParser
import SyncAgent
import SyncDaemon
import SyncEngine
import SyncModel
import SyncStore
import SyncSystem

struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show what sessions are doing, what they wait for, and until when.",
        discussion: """
            Without SESSION, prints one line per session; with it, everything about that session. Needs no agent and \
            starts none; if one is running, the progress comes from it.

            --requests shows the transfers of the session's open run, whichever process executes it: the source of \
            each, its progress, and what it is waiting for. --tasks shows the files of the latest run. Both are at \
            most a second old; if the process was killed, they show its last known state.

            --watch refreshes every second until ^C. It starts an agent if a run is open and no process is working \
            on it, and reports every change in what a run is waiting for. On a terminal it redraws the screen; \
            elsewhere it prints again whenever something has changed.

            Examples:

              syncagent status --watch
              syncagent status tower --requests
              syncagent status tower --tasks --state failed
              syncagent status tower --tasks --path 'sheets/**' --json
            """)

    @OptionGroup var session: SessionArgument

    @Flag(help: "Show the transfers of the session's open run.") var requests = false

    @Flag(help: "Show the files of the session's latest run.") var tasks = false

    @Flag(help: "Refresh every second until ^C.") var watch = false

    @Option(
        help: ArgumentHelp(
            "With --tasks: only files in this state: \(TaskState.allCases.map(\.rawValue).joined(separator: ", ")).",
            valueName: "state"), completion: .list(TaskState.allCases.map(\.rawValue)),
        transform: { try oneWord($0, "--state") })
    var state: TaskState?

    @Option(help: "With --tasks: only paths that match, such as 'sheets/**'.".taking("glob")) var path: String?

    @OptionGroup var place: SystemOption

    @OptionGroup(title: "Output") var format: JSONFlag

    func validate() throws {
        if requests, tasks { throw ValidationError("--requests and --tasks are mutually exclusive.") }
        if place.system, watch {
            throw ValidationError("--system and --watch are mutually exclusive: --watch may start an agent.")
        }
        if tasks, watch { throw ValidationError("--watch works alone or with --requests, not with --tasks.") }
        if !tasks, state != nil || path != nil {
            throw ValidationError("\(state != nil ? "--state" : "--path") needs --tasks.")
        }
    }

    func run() async throws {
        let output = Output()
        let access = try StateAccess(environment: place.environment(), output: output)
        if watch { return try await showAgain(access) }
        if tasks { return try showTasks(access) }
        if requests { return try showRequests(access) }
        guard let store = try access.existingStore() else {
            if session.session != nil { throw StateAccess.noSessions }
            if !format.json { output.message(StateAccess.noSessions.message + otherSessions) }
            return
        }
        let sessions = try await sessions(in: store, access)
        for line in try lines(sessions) { output.line(line) }
        if sessions.all.isEmpty, !format.json { output.message(StateAccess.noSessions.message + otherSessions) }
    }

    /// A hint at other sessions, for a user without any.
    private var otherSessions: String {
        !place.system && exists(EnvironmentPaths.systemState)
            ? " 'syncagent status --system' shows those of the system's user." : ""
    }

    /// The known state of the requested sessions.
    typealias Known = (all: [SessionStatus], hasAgent: Bool)

    func sessions(in store: SyncStore, _ access: StateAccess) async throws -> Known {
        let now = SystemTime.milliseconds()
        let sessions =
            try session.session.map { [try store.sessionStatus($0, now: now)] } ?? store.sessionStatuses(now: now)
        // The agent knows more, but the recorded state is shown without it.
        let agent = ControlClient(socketPath: access.place.socketPath, timeout: .seconds(2))
        let live = try? await agent.sessions()
        let known = Dictionary((live ?? []).map { ($0.session, $0) }, uniquingKeysWith: { $1 })
        return (sessions.map { known[$0.session] ?? $0 }, live != nil)
    }

    func lines(_ sessions: Known) throws -> [String] {
        if format.json { return try sessions.all.map { try Output.text($0) } }
        let text = SessionText(now: SystemTime.milliseconds(), hasAgent: sessions.hasAgent)
        if session.session != nil, let only = sessions.all.first { return text.details(only) }
        return sessions.all.isEmpty ? [] : text.table(sessions.all)
    }
}

extension StatusCommand {
    private func showRequests(_ access: StateAccess) throws {
        let (store, name) = try access.session(session.session)
        let lines = try requestLines(name, in: store)
        if lines.isEmpty, !format.json { access.output.message("No transfers.") }
        for line in lines { access.output.line(line) }
    }

    /// The transfers of a session.
    func requestLines(_ name: String, in store: SyncStore) throws -> [String] {
        let list = try store.requestList(of: name)
        if format.json { return try list.requests.map { try Output.text($0) } }
        let text = SessionText(now: SystemTime.milliseconds())
        return list.requests.flatMap(text.lines(of:)) + (list.more > 0 ? ["\(list.more) more are queued"] : [])
    }

    private func showTasks(_ access: StateAccess) throws {
        let (store, name) = try access.session(session.session)
        let (output, directory) = (access.output, access.place.stateDirectory)
        var count = 0
        let tasks = try store.taskListing(of: name, state: state, path: path, stateDirectory: directory)
        while let task = tasks?.next() {
            count += 1
            output.line(format.json ? try Output.text(task) : SessionText.line(of: task))
        }
        if count == 0, !format.json { output.message("No files.") }
    }
}

extension Output {
    /// A value of the control API as text.
    static func text(_ value: some Encodable) throws(ControlError) -> String {
        String(decoding: try value.controlJSON(), as: UTF8.self)
    }

    /// Prints a value of the control API as one line of data.
    func value(_ value: some Encodable) throws { line(try Self.text(value)) }
}

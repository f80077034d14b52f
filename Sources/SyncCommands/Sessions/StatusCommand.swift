import ArgumentParser
import SyncAgent
import SyncControl
import SyncDaemon
import SyncModel

/// `syncagent status`: what every session does, and why and until when it waits.
struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show what sessions do, and why and until when they wait.",
        discussion: """
            Without SESSION a line for each; with it everything about that one. Needs no agent and starts none; \
            a running one is asked how far things are.

            --requests shows what is on the wire for the session's open run, whoever works on it: each transfer with \
            where it goes, how far it is, and what it waits for. --tasks shows the files of its latest run. Both are at \
            most a second old; of a process that was killed they show the last that is known.

              syncagent status tower --requests
              syncagent status tower --tasks --state failed
              syncagent status tower --tasks --path 'sheets/**' --json
            """
    )

    @OptionGroup
    var session: SessionArgument

    @Flag(help: "Show the transfers of its open run.")
    var requests = false

    @Flag(help: "Show the files of its latest run.")
    var tasks = false

    @Option(
        help: ArgumentHelp(
            "With --tasks: only those that are \(TaskState.allCases.map(\.rawValue).joined(separator: ", ")).",
            valueName: "state"
        ),
        completion: .list(TaskState.allCases.map(\.rawValue)),
        transform: { word in
            if let state = TaskState(rawValue: word) { return state }
            let words = TaskState.allCases.map(\.rawValue).joined(separator: ", ")
            throw ValidationError("--state takes one of \(words), not '\(escaped(word))'.")
        }
    )
    var state: TaskState?

    @Option(help: ArgumentHelp("With --tasks: only paths like this, such as 'sheets/**'.", valueName: "glob"))
    var path: String?

    @OptionGroup(title: "Output")
    var format: JSONFlag

    func validate() throws {
        if requests, tasks { throw ValidationError("--requests and --tasks are two commands.") }
        if !tasks, state != nil || path != nil {
            throw ValidationError("\(state != nil ? "--state" : "--path") goes with --tasks.")
        }
    }

    func run() async throws {
        let output = Output()
        let state = try StateAccess(output: output)
        if requests || tasks { return try showParts(state, output) }
        guard let store = try state.existingStore() else {
            if session.session != nil { throw StateAccess.noSessions }
            if !format.json { output.message("No sessions.") }
            return
        }
        let reader = StateAccess.reader(store)
        var sessions: [SessionStatus]
        do throws(ControlError) {
            if let name = session.session {
                sessions = [try reader.session(name)]
            } else {
                sessions = try reader.sessions()
            }
        } catch {
            throw CommandFailure(error)
        }
        // The agent knows more, but everything that is on record is told without it.
        let agent = ControlClient(socketPath: state.place.socketPath, timeout: .seconds(2))
        let live = try? await agent.sessions()
        let known = Dictionary((live ?? []).map { ($0.session, $0) }, uniquingKeysWith: { $1 })
        sessions = sessions.map { known[$0.session] ?? $0 }

        if format.json {
            for session in sessions { try output.value(session) }
            return
        }
        let text = SessionText(now: EngineAssembly.milliseconds(), hasAgent: live != nil)
        if session.session != nil, let only = sessions.first {
            for line in text.details(only) { output.line(line) }
        } else if sessions.isEmpty {
            output.message("No sessions.")
        } else {
            for line in text.table(sessions) { output.line(line) }
        }
    }
}

extension StatusCommand {
    /// What is on the wire, or the tasks, of one session.
    private func showParts(_ access: StateAccess, _ output: Output) throws {
        let store = try access.store()
        let name = try StateAccess.session(session.session, in: store)
        let reader = StateAccess.reader(store)
        do throws(ControlError) {
            if requests {
                try show(try reader.requests(name), output)
            } else {
                let directory = access.place.stateDirectory
                try show(try reader.tasks(name, state: state, path: path, stateDirectory: directory), output)
            }
        } catch {
            throw CommandFailure(error)
        }
    }

    private func show(_ list: RequestList, _ output: Output) throws(ControlError) {
        if format.json {
            for request in list.requests { output.line(try Output.text(request)) }
            return
        }
        let text = RequestText(now: EngineAssembly.milliseconds())
        if list.requests.isEmpty { return output.message("Nothing is on the wire.") }
        for request in list.requests { for line in text.lines(request) { output.line(line) } }
        if list.more > 0 { output.line("\(list.more) more are queued") }
    }

    private func show(_ tasks: TaskList, _ output: Output) throws(ControlError) {
        var (tasks, count) = (tasks, 0)
        while let task = tasks.next() {
            count += 1
            output.line(format.json ? try Output.text(task) : RequestText.line(task))
        }
        if count == 0, !format.json { output.message("No files.") }
    }
}

extension Output {
    /// A value of the control API as text.
    static func text(_ value: some Encodable) throws(ControlError) -> String {
        String(decoding: try ControlJSON.encode(value), as: UTF8.self)
    }

    /// Data: a value of the control API as a line.
    func value(_ value: some Encodable) throws {
        line(try Self.text(value))
    }
}

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
            """
    )

    @OptionGroup
    var session: SessionArgument

    @OptionGroup(title: "Output")
    var format: JSONFlag

    func run() async throws {
        let output = Output()
        let state = try StateAccess(output: output)
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

extension Output {
    /// Data: a value of the control API as a line.
    func value(_ value: some Encodable) throws {
        line(String(decoding: try ControlJSON.encode(value), as: UTF8.self))
    }
}

import SyncAgent
import SyncControl
import SyncModel

/// One command about one session, through the agent; prints what the session is then.
struct SessionChange: Sendable {
    let session: SessionArgument
    let json: Bool

    func apply(
        _ work: @escaping @Sendable (ControlClient, String) async throws -> SessionStatus
    ) async throws {
        let output = Output()
        let state = try StateAccess(output: output)
        let name = try StateAccess.session(session.session, in: try state.store())
        let status = try await AgentReach(state: state).ask { try await work($0, name) }
        if json { return try output.value(status) }
        let text = SessionText(now: EngineAssembly.milliseconds(), hasAgent: true)
        let why = text.why(status).map { ": \($0)" } ?? ""
        output.message("\(escaped(status.session)) is \(status.state)\(why).")
    }
}

import SyncAgent
import SyncModel
import SyncSystem

/// Looks after a session that somebody waits for: says each change of what it waits for, and brings an agent up when
/// there is work and nobody works on it.
struct RunCare: Sendable {
    /// Who waits.
    enum Waiter: Sendable {
        case person
        /// A scheduled start, whose output may become mail: changes are not said, and an agent is started for what a lost
        /// one has left, not for a run that was released to the next agent.
        case schedule
    }

    private let state: StateAccess
    private let waiter: Waiter
    private var said: Sight?
    private var next = ContinuousClock.now
    private var isAgentMissed = false

    /// What is worth a line when it changes; times that only move on are not.
    private struct Sight: Equatable {
        var state: SessionState
        var reason: RestReason?
        var error: String?
        var wait: String?
        var owedHooks: Int

        init(_ status: SessionStatus) {
            state = status.state
            reason = status.reason
            error = status.run?.error
            wait = status.state == .running ? status.run?.waits.first : nil
            owedHooks = status.owedHooks
        }
    }

    /// From one look for an agent to the next.
    private static let interval = Duration.seconds(2)

    init(_ state: StateAccess, for waiter: Waiter = .person) {
        self.state = state
        self.waiter = waiter
    }

    mutating func look(at status: SessionStatus) async throws {
        await bringAgent(status)
        if waiter == .person { say(status) }
        try Task.checkCancellation()
    }

    /// Ends the waiting for what only a person moves: paused, or put aside.
    ///
    /// - Throws: ``CommandFailure`` with status 75 and the command to type.
    func endIfPaused(_ status: SessionStatus) throws(CommandFailure) {
        guard status.state == .paused else { return }
        throw CommandFailure(.busy, "\(escaped(status.session)): \(why(status) ?? "paused").")
    }

    /// Why a session does not move, as a person reads it; `nil` when there is nothing to say.
    func why(_ status: SessionStatus) -> String? {
        let hasAgent = status.holder != nil || !isAgentMissed
        return SessionText(now: SystemTime.milliseconds(), hasAgent: hasAgent).why(status)
    }

    private mutating func say(_ status: SessionStatus) {
        let sight = Sight(status)
        guard sight != said else { return }
        let isFirst = said == nil
        said = sight
        if let why = why(status) {
            state.output.message("\(escaped(status.session)): \(why)")
        } else if !isFirst, status.state == .running {
            state.output.message("\(escaped(status.session)): continues")
        }
    }

    private mutating func bringAgent(_ status: SessionStatus) async {
        guard isLeftAlone(status), ContinuousClock.now >= next else { return }
        next = .now + Self.interval
        do {
            let agent = try await state.reachAgent()
            isAgentMissed = false
            // An agent that was already running looks only once a minute by itself.
            _ = try? await agent.session(status.session)
        } catch {
            // It is tried again; once is enough to say so.
            if !isAgentMissed, let failure = error as? CommandFailure { state.output.warning(failure.message) }
            isAgentMissed = true
        }
    }

    /// Whether there is work, and no process has it.
    private func isLeftAlone(_ status: SessionStatus) -> Bool {
        guard status.holder == nil else { return false }
        return switch status.state {
        case .waiting, .running: waiter == .person || status.isInterrupted == true
        case .idle: status.owedHooks > 0
        case .paused: false
        }
    }
}

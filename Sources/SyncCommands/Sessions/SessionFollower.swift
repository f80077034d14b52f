import SyncAgent
import SyncModel
import SyncSystem

/// Follows a session for a command that waits for it: reports each change of what the session waits for, and starts an
/// agent if there is work that no process has.
struct SessionFollower: Sendable {
    private let state: StateAccess
    /// Whether it is a scheduled start, whose output may become mail. Changes are not reported then, and an agent is
    /// started for work that a lost agent has left, not for a run that was released to the next agent.
    private let isScheduled: Bool
    /// What was reported last, without times.
    private var reported: [String?]?
    private var next = ContinuousClock.now
    private var isAgentMissed = false

    /// The interval between attempts to reach an agent.
    private static let interval = Duration.seconds(2)

    init(_ state: StateAccess, isScheduled: Bool = false) { (self.state, self.isScheduled) = (state, isScheduled) }

    mutating func update(with status: SessionStatus) async throws {
        await ensureAgent(status)
        if !isScheduled { report(status) }
        try Task.checkCancellation()
    }

    /// Stops waiting for a session that only a person can resume: paused, or set aside.
    ///
    /// - Throws: ``CommandFailure`` with status 75 and the command to type.
    func endIfPaused(_ status: SessionStatus) throws(CommandFailure) {
        guard status.state == .paused else { return }
        throw CommandFailure(.busy, "\(escaped(status.session)): \(why(status) ?? "paused").")
    }

    /// Why a session does not progress, for people; `nil` if there is nothing to report.
    func why(_ status: SessionStatus) -> String? {
        let hasAgent = status.holder != nil || !isAgentMissed
        return SessionText(now: SystemTime.milliseconds(), hasAgent: hasAgent).why(status)
    }

    private mutating func report(_ status: SessionStatus) {
        let snapshot: [String?] = [
            status.state.rawValue, status.reason?.rawValue, status.run?.error,
            status.state == .running ? status.run?.waits.first : nil, "\(status.owedHooks)",
        ]
        guard snapshot != reported else { return }
        let isFirst = reported == nil
        reported = snapshot
        if let why = why(status) {
            state.output.message("\(escaped(status.session)): \(why)")
        } else if !isFirst, status.state == .running {
            state.output.message("\(escaped(status.session)): continues")
        }
    }

    private mutating func ensureAgent(_ status: SessionStatus) async {
        guard isLeftAlone(status), ContinuousClock.now >= next else { return }
        next = .now + Self.interval
        do {
            let agent = try await state.reachAgent()
            isAgentMissed = false
            // An agent that was already running checks only once a minute by itself.
            _ = try? await agent.session(status.session)
        } catch {
            // Another attempt follows; the failure is reported once.
            if !isAgentMissed, let failure = error as? CommandFailure { state.output.warning(failure.message) }
            isAgentMissed = true
        }
    }

    /// Whether there is work that no process has.
    private func isLeftAlone(_ status: SessionStatus) -> Bool {
        guard status.holder == nil else { return false }
        return switch status.state {
        case .waiting, .running: !isScheduled || status.isInterrupted == true || state.hasLostAgent
        case .idle: status.owedHooks > 0
        case .paused: false
        }
    }
}

import SyncAgent
import SyncModel
import SyncSystem

/// Follows a session for a command that waits for it: reports each change of what the session waits for, and starts an
/// agent if there is work that no process has.
struct SessionFollower: Sendable {
    /// The kind of caller that waits.
    enum Waiter: Sendable {
        case person
        /// A scheduled start, whose output may become mail. Changes are not reported, and an agent is started for work
        /// that a lost agent has left, not for a run that was released to the next agent.
        case schedule
    }

    private let state: StateAccess
    private let waiter: Waiter
    private var reported: Snapshot?
    private var next = ContinuousClock.now
    private var isAgentMissed = false

    /// The parts of a status whose change is reported; times are not among them.
    private struct Snapshot: Equatable {
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

    /// The interval between attempts to reach an agent.
    private static let interval = Duration.seconds(2)

    init(_ state: StateAccess, for waiter: Waiter = .person) {
        self.state = state
        self.waiter = waiter
    }

    mutating func update(with status: SessionStatus) async throws {
        await ensureAgent(status)
        if waiter == .person { report(status) }
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
        let snapshot = Snapshot(status)
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
        case .waiting, .running: waiter == .person || status.isInterrupted == true || state.hasLostAgent
        case .idle: status.owedHooks > 0
        case .paused: false
        }
    }
}

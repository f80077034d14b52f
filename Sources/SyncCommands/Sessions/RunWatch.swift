import SyncAgent
import SyncDaemon
import SyncModel
import SyncReport
import SyncStore
import SyncSystem

/// Waits for the end of a session's work, its open run and then its hooks, by reading the store. Needs no agent.
struct RunWatch: Sendable {
    let store: SyncStore
    let session: String

    /// The state of a session's work.
    enum Work: Sendable, Equatable {
        /// Work is in progress, or waits.
        case open(SessionStatus)
        /// No work is open any more.
        case over(ExitStatus, String)

        /// Whether nothing happens any more unless a person acts.
        var isResting: Bool {
            switch self {
            case .over: true
            case .open(let status): status.state == .paused
            }
        }
    }

    func check() throws -> Work {
        let status = try store.sessionStatus(session, now: SystemTime.milliseconds())
        guard status.state == .idle, status.owedHooks == 0 else { return .open(status) }
        guard let run = status.run else { return .over(.done, "nothing has been requested") }
        let hooks = try store.hooks(run: run.run)
        return Self.end(of: run, failedHooks: hooks.count { $0.state == .failed })
    }

    /// Waits until no work is open any more, and reports the result. A missing agent is started.
    ///
    /// - Parameters:
    ///   - interval: The interval between reads of the store.
    ///   - isOpen: Called while work is open; throws to stop waiting.
    func wait(
        _ state: StateAccess, isScheduled: Bool = false, every interval: Duration,
        isOpen: (SessionStatus, SessionFollower) throws -> Void
    ) async throws {
        var follower = SessionFollower(state, isScheduled: isScheduled)
        while true {
            switch try check() {
            case .over(let status, let words): return try end(status, words, state)
            case .open(let status):
                try isOpen(status, follower)
                try await follower.update(with: status)
                try await Task.sleep(for: interval)
            }
        }
    }

    /// Reports the result, and ends the command with it.
    func end(_ status: ExitStatus, _ words: String, _ state: StateAccess) throws(CommandFailure) {
        state.output.message("\(escaped(session)): \(words)")
        guard status == .done else { throw CommandFailure(status) }
    }

    /// How many files are missing; `nil` if the run failed for another reason.
    private static func lack(_ run: RunStatus) -> String? {
        guard run.error == nil, run.files.failed > 0 else { return nil }
        let files = "\(Figures.grouped(run.files.failed)) of \(Figures.count(run.files.total, "file"))"
        // Fetched or not: a verifier may have refused them.
        return "\(files) \(run.files.failed == 1 ? "is" : "are") missing; 'syncagent report' says why"
    }

    /// The result of a finished run, for a command that waited for it.
    static func end(of run: RunStatus, failedHooks: Int) -> Work {
        switch (run.state, run.result) {
        case (.finished, .ok) where failedHooks > 0:
            return .over(.hookFailed, failedHooks == 1 ? "a hook failed" : "\(failedHooks) hooks failed")
        case (.finished, .ok): return .over(.done, "complete")
        case (.finished, let result):
            let error = run.error.map { ": \(escaped($0))" } ?? ""
            let status = run.exitStatus.flatMap(ExitStatus.init) ?? .incomplete
            let words = lack(run) ?? (result?.rawValue ?? "without a result") + error
            return .over(status == .done ? .incomplete : status, words)
        default: return .over(.incomplete, run.state.rawValue + (run.reason.map { " (\(escaped($0.words)))" } ?? ""))
        }
    }
}

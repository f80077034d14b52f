import SyncControl
import SyncDaemon
import SyncModel
import SyncReport
import SyncStore

/// Waits for the end of a session's work by looking at the store: its open run, then its hooks. Needs no agent.
struct RunWatch: Sendable {
    let store: SyncStore
    let session: String

    /// What a session has come to.
    enum Sight: Sendable, Equatable {
        /// Work is under way, or waits.
        case open(SessionStatus)
        /// Nothing is open any more.
        case over(ExitStatus, String)

        /// Whether nothing comes any more unless a person moves it.
        var isResting: Bool {
            switch self {
            case .over: true
            case .open(let status): status.state == .paused
            }
        }
    }

    /// Looks once.
    func look() throws(CommandFailure) -> Sight {
        let status: SessionStatus
        do throws(ControlError) {
            status = try StateAccess.reader(store).session(session)
        } catch {
            throw CommandFailure(error)
        }
        guard status.state == .idle, status.owedHooks == 0 else { return .open(status) }
        guard let run = status.run else { return .over(.done, "nothing has been requested") }
        let hooks = try asking { () throws(StoreError) in try store.hooks(run: run.run) }
        return Self.end(of: run, failedHooks: hooks.count { $0.state == .failed })
    }

    private static func words(_ result: RunResult?) -> String { result?.rawValue ?? "without a result" }

    /// How many files are missing; `nil` where that is not what went wrong.
    private static func lack(_ run: RunStatus) -> String? {
        guard run.error == nil, run.files.failed > 0 else { return nil }
        let files = "\(Figures.grouped(run.files.failed)) of \(Figures.count(run.files.total, "file"))"
        return "\(files) could not be fetched; 'syncagent report' says why"
    }

    /// What a run that is over means for whoever waited.
    static func end(of run: RunStatus, failedHooks: Int) -> Sight {
        switch (run.state, run.result) {
        case (.finished, .ok) where failedHooks > 0:
            return .over(.hookFailed, failedHooks == 1 ? "a hook failed" : "\(failedHooks) hooks failed")
        case (.finished, .ok): return .over(.done, "complete")
        case (.finished, let result):
            let error = run.error.map { ": \(escaped($0))" } ?? ""
            let status = run.exitStatus.flatMap(ExitStatus.init) ?? .incomplete
            return .over(status == .done ? .incomplete : status, lack(run) ?? (words(result) + error))
        default:
            return .over(
                .incomplete,
                run.state.rawValue + (run.reason.map { " (\(escaped($0.rawValue)))" } ?? "")
            )
        }
    }
}

import SyncAgent
import SyncEngine
import SyncModel
import SyncPlugins
import SyncSchedule
import SyncStore
import SyncSystem

/// Decides whether one run may proceed, and how fast: evaluated before its start and every few seconds while it runs.
final class RunConditionCheck: Sendable {
    private let wanted: RunConditions
    private let check: ConditionCheck
    private let environment: AgentEnvironment
    private let session: String
    private let run: String
    private let destination: String
    /// Body **bytes** that earlier attempts have received.
    private let earlier: UInt64
    /// The result of the last evaluation.
    private let report = Mutex<ConditionReport?>(nil)

    /// `nil` for a run without conditions.
    ///
    /// - Throws: ``ControlError`` for a plugin that does not exist.
    init?(_ run: StoredRun, destination: String, _ environment: AgentEnvironment) throws(ControlError) {
        guard !run.recipe.conditions.isEmpty else { return nil }
        wanted = run.recipe.conditions
        var since: [String: Int64] = [:]
        if let reason = run.reason, let start = run.waitingSince { since[reason.rawValue] = start }
        check = try environment.conditionCheck(run.recipe, since).get()
        self.environment = environment
        session = run.session
        self.run = run.identifier
        self.destination = destination
        earlier = run.counts.bytes.received
    }

    /// The report of the last evaluation, if it blocks the run.
    var block: ConditionReport? { report.withLock { $0 }.flatMap { $0.isBlocked ? $0 : nil } }

    /// Evaluates all conditions and records changes; blocks for seconds at most.
    ///
    /// - Parameter received: Body **bytes** that this attempt has received.
    /// - Returns: Whether the run may go on.
    func evaluate(received: UInt64) -> Bool {
        let now = environment.now()
        let report = check.evaluate(
            ConditionContext(destination: destination, receivedBytes: earlier.saturatingAdd(received), now: now))
        self.report.withLock { $0 = report }
        for warning in report.warnings { environment.log("\(escaped(session)): \(warning)") }
        record(report.changes, now)
        return !report.isBlocked
    }

    /// The rate limit at this time of day; outside of all windows, the usual one.
    func rateLimit(usual: UInt64?) -> UInt64? {
        rate(at: environment.now(), of: wanted.rates, usual: usual, clock: environment.windowClock)
    }

    /// When to check again while the run is blocked, **milliseconds** since 1970.
    func nextCheck(_ report: ConditionReport) -> Int64 {
        report.nextCheck(after: environment.now(), every: environment.blockedInterval)
    }

    private func record(_ changes: [ConditionReport.Change], _ now: Int64) {
        guard !changes.isEmpty else { return }
        let lines = changes.map { change in
            let event =
                switch change {
                case .blocked(let condition, let reason, let until):
                    SyncEvent(.conditionBlocked, time: now, session: session, run: run) {
                        $0.field("condition", condition)
                        $0.field("detail", reason)
                        $0.time("until", until)
                    }
                case .cleared(let condition, let after):
                    SyncEvent(.conditionCleared, time: now, session: session, run: run) {
                        $0.field("condition", condition)
                        $0.field("after_ms", after)
                    }
                }
            return event.json.bytes
        }
        do throws(StoreError) {
            // A check may end after its run.
            guard try environment.store.append(lines, ofUnfinished: run, time: now) else { return }
            // Clear the recorded block, too, so that observers do not see an outdated one.
            if block == nil { try environment.store.hold(run: run, reason: nil, due: nil) }
        } catch { environment.log("\(escaped(session)): \(error)") }
    }
}

package import SyncModel
package import SyncPlugins
import SyncSystem

/// Whether one run may proceed; evaluated before it starts and every few seconds while it runs.
///
/// All conditions are asked at the same time, each on a thread of its own, so an evaluation takes as long as the
/// slowest of them and never longer than the deadline. A condition that has not answered by then counts as unknown, and
/// so as met. Without the bus an evaluation costs half a millisecond of CPU; metered and idle cost some 8 ms
/// each, see ``SystemBus``.
package final class ConditionCheck: Sendable {
    private let probes: [ConditionProbe]
    private let deadline: Duration
    private let ledger: Mutex<ConditionLedger>

    /// - Parameters:
    ///   - conditions: In the order in which they are named when several block.
    ///   - deadline: For one look.
    ///   - blockedSince: What ``blockedSince`` was before a restart.
    package init(_ conditions: [any Condition], deadline: Duration = .seconds(5), blockedSince: [String: Int64] = [:]) {
        probes = conditions.map(ConditionProbe.init)
        self.deadline = deadline
        ledger = Mutex(ConditionLedger(blockedSince: blockedSince))
    }

    /// The conditions of a run.
    ///
    /// - Parameters:
    ///   - wanted: What must hold.
    ///   - machine: Where the built-in conditions look.
    ///   - plugins: Those that ``/SyncModel/RunConditions/plugins`` names, created by the caller.
    ///   - blockedSince: What ``blockedSince`` was before a restart.
    /// - Throws: ``/SyncPlugins/PluginError`` of a condition that cannot be made.
    package convenience init(
        _ wanted: RunConditions, on machine: MachinePlaces, plugins: [any Condition] = [],
        blockedSince: [String: Int64] = [:]
    ) throws(PluginError) {
        for rate in wanted.rates { try checkWindow(rate.window) }
        self.init(
            try builtInConditions(for: wanted, on: machine, blocked: Set(blockedSince.keys)) + plugins,
            blockedSince: blockedSince)
    }

    package var isEmpty: Bool { probes.isEmpty }

    /// Since when conditions block, by name, **milliseconds** since 1970.
    package var blockedSince: [String: Int64] { ledger.withLock(\.blockedSince) }

    /// Asks all conditions; blocks, no longer than the deadline. One evaluation at a time.
    package func evaluate(_ context: ConditionContext) -> ConditionReport {
        let end = SuspendingClock.now + deadline
        let asked = probes.map { ($0.condition.name, $0.ask(context)) }
        let answers = asked.map { ConditionAnswer($0.0, $0.1.wait(until: end)) }
        return ledger.withLock { $0.take(answers, at: context.now) }
    }
}

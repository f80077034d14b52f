package import SyncModel
package import SyncPlugins
import SyncSystem

/// Whether one run may proceed; evaluated before it starts and every few seconds while it runs.
///
/// All conditions are asked at the same time, each on a thread of its own, so an evaluation takes as long as the
/// slowest of them and never longer than the deadline. A condition that has not answered by then counts as unknown,
/// and therefore as met. Without the bus, an evaluation costs half a millisecond of CPU; metered and idle cost about
/// 8 ms each, see ``SystemBus``.
package final class ConditionCheck: Sendable {
    /// The conditions, and whether a question to each is unanswered.
    private let conditions: [(condition: any Condition, isBusy: Monitor<Bool>)]
    private let deadline: Duration
    private let ledger: Mutex<ConditionLedger>

    /// - Parameters:
    ///   - conditions: In the order in which they are named when several block.
    ///   - deadline: For one evaluation.
    ///   - blockedSince: The value of ``blockedSince`` before a restart.
    package init(_ conditions: [any Condition], deadline: Duration = .seconds(5), blockedSince: [String: Int64] = [:]) {
        self.conditions = conditions.map { ($0, Monitor(false)) }
        self.deadline = deadline
        ledger = Mutex(ConditionLedger(blockedSince: blockedSince))
    }

    /// The conditions of a run.
    ///
    /// - Parameters:
    ///   - wanted: The conditions that must hold.
    ///   - machine: Where the built-in conditions get their values.
    ///   - plugins: Those that ``/SyncModel/RunConditions/plugins`` names, created by the caller.
    ///   - blockedSince: The value of ``blockedSince`` before a restart.
    /// - Throws: ``/SyncPlugins/PluginError`` of a condition that cannot be created.
    package convenience init(
        _ wanted: RunConditions, on machine: MachinePlaces, plugins: [any Condition] = [],
        blockedSince: [String: Int64] = [:]
    ) throws(PluginError) {
        for rate in wanted.rates { try checkWindow(rate.window) }
        // Conditions that report until when they block come first.
        let names = [
            ("window", wanted.window != nil), ("space", wanted.freeSpace != nil), ("power", wanted.power),
            ("metered", wanted.meteredBudget != nil), ("idle", wanted.idleSeconds != nil),
            ("load", wanted.maximumLoad != nil),
        ]
        var conditions: [any Condition] = []
        for (name, isWanted) in names where isWanted {
            let blocked = Set(blockedSince.keys)
            conditions.append(try builtInCondition(name, for: wanted, on: machine, blocked: blocked))
        }
        self.init(conditions + plugins, blockedSince: blockedSince)
    }

    package var isEmpty: Bool { conditions.isEmpty }

    /// When each blocking condition began to block, by name, in **milliseconds** since 1970.
    package var blockedSince: [String: Int64] { ledger.withLock(\.blockedSince) }

    /// Asks all conditions; blocks, at most until the deadline. One evaluation at a time.
    package func evaluate(_ context: ConditionContext) -> ConditionReport {
        let end = SuspendingClock.now + deadline
        let asked = conditions.map { ($0.condition.name, Self.ask($0.condition, $0.isBusy, context)) }
        let answers = asked.map { name, answer in
            let state = answer.wait(until: end) { $0 } ?? .unknown(reason: "it has not answered in time")
            return (name: name, state: state)
        }
        return ledger.withLock { $0.take(answers, at: context.now) }
    }

    /// Asks one condition, on a thread of its own, so that a hanging condition delays nothing else.
    ///
    /// While a question is unanswered, no other is asked: a condition that never answers costs one thread. The thread is
    /// created for each question; a libdispatch queue would leave idle threads that keep waking up.
    ///
    /// - Returns: The monitor that receives the answer.
    private static func ask(_ condition: any Condition, _ isBusy: Monitor<Bool>, _ context: ConditionContext)
        -> Monitor<ConditionState?>
    {
        let answer = Monitor<ConditionState?>(nil)
        let isFree = isBusy.withLock { isBusy in
            defer { isBusy = true }
            return !isBusy
        }
        guard isFree else { return Monitor(.unknown(reason: "it has not answered an earlier query yet")) }
        do throws(ThreadError) {
            try WorkerThread(name: "condition") {
                let state: ConditionState
                do throws(PluginError) { state = try condition.state(in: context) } catch {
                    state = .unknown(reason: error.description)
                }
                // Released before the answer is set: whoever receives it may ask again.
                isBusy.withLock { $0 = false }
                answer.change { $0 = state }
            }
        } catch {
            isBusy.withLock { $0 = false }
            answer.change { $0 = .unknown(reason: "\(error)") }
        }
        return answer
    }
}

import SyncPlugins
import SyncSystem

/// Asks one condition, on a thread of its own, so that a hanging condition holds up nothing else.
///
/// While a question is unanswered no other is asked: a condition that never answers costs one thread. The thread is
/// created per question; a libdispatch queue would leave idle threads behind that keep waking up.
final class ConditionProbe: Sendable {
    let condition: any Condition
    private let isBusy = Mutex(false)

    init(_ condition: any Condition) { self.condition = condition }

    /// Asks the question; ``Answer/wait(until:)`` returns the answer.
    func ask(_ context: ConditionContext) -> Answer {
        let answer = Answer()
        let isFree = isBusy.withLock { isBusy in
            defer { isBusy = true }
            return !isBusy
        }
        guard isFree else {
            answer.give(.unknown(reason: "it has not answered an earlier query yet"))
            return answer
        }
        do throws(ThreadError) {
            try WorkerThread(name: "condition") { [self] in
                let state = Self.state(of: condition, in: context)
                // Freed before the answer is set: whoever gets it may ask again.
                isBusy.withLock { $0 = false }
                answer.give(state)
            }
        } catch {
            isBusy.withLock { $0 = false }
            answer.give(.unknown(reason: "\(error)"))
        }
        return answer
    }

    private static func state(of condition: any Condition, in context: ConditionContext) -> ConditionState {
        do throws(PluginError) { return try condition.state(in: context) } catch {
            return .unknown(reason: error.description)
        }
    }

    final class Answer: Sendable {
        private let state = Monitor<ConditionState?>(nil)

        fileprivate func give(_ state: ConditionState) { self.state.change { $0 = state } }

        /// Waits for it.
        func wait(until end: SuspendingClock.Instant) -> ConditionState {
            state.wait(until: end) { $0 } ?? .unknown(reason: "it has not answered in time")
        }
    }
}

package import SyncPlugins
import SyncSystem

/// Asks a program whether a run may go on: 0 go, 1 not now, anything else that it could not tell.
package final class ProgramCondition: Condition {
    /// The name of the program's file.
    package var name: String { program.name }
    private let program: SmallProgram
    private let interval: Duration
    private let clock: @Sendable () -> ContinuousClock.Instant
    private let last = Mutex<(state: ConditionState, time: ContinuousClock.Instant)?>(nil)

    /// Longest time for one answer: a look at all conditions takes no longer than five seconds.
    package static let limit = Duration.seconds(4)
    /// A run is looked at every few seconds for as long as it runs: what was said is believed for this long.
    package static let interval = Duration.seconds(30)

    /// - Parameters:
    ///   - program: With ``limit``.
    ///   - interval: How long an answer is believed.
    ///   - clock: Tells the time.
    package init(
        _ program: SmallProgram,
        interval: Duration = ProgramCondition.interval,
        clock: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
    ) {
        self.program = program
        self.interval = interval
        self.clock = clock
    }

    package func state(in context: ConditionContext) throws(PluginError) -> ConditionState {
        let now = clock()
        if let known = last.withLock({ $0 }), now - known.time < interval { return known.state }
        let answer = program.ask(variables: [
            "SYNCAGENT_DESTINATION=\(context.destination)", "SYNCAGENT_RECEIVED=\(context.receivedBytes)",
        ])
        let state: ConditionState =
            switch answer {
            case .yes: .ok
            case .no(let reason): .blocked(reason: reason ?? "\(name) says so")
            case .trouble(let reason): .unknown(reason: reason)
            }
        last.withLock { $0 = (state, now) }
        return state
    }
}

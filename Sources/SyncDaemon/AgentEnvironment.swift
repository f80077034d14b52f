package import SyncAgent
package import SyncAssembly
import SyncEngine
package import SyncModel
import SyncPlugins
package import SyncSchedule
package import SyncStore
import SyncSystem

/// What the agent gets from outside: the store, the clock, a way to make engines.
package struct AgentEnvironment: Sendable {
    package var store: SyncStore
    /// Absolute.
    package var stateDirectory: String
    package var version: String
    package var process: Int32
    /// Most runs at a time; others wait for their turn.
    package var maximumRuns = 2
    /// Most connections of all runs together: more sessions get no more.
    package static let connectionCap = 64
    /// Most body **bytes** a second of all runs together; `nil` for no such limit. Their own limits hold under it.
    package var rateLimit: UInt64?
    /// Most connections of one run: each of those that may work at a time gets the same.
    var connectionShare: Int { max(1, Self.connectionCap / max(1, maximumRuns)) }
    /// Hooks that run at a time while nothing is transferred for their sessions; they take no run's turn.
    package static let hookCap = 64
    /// Whether a client started it: then it ends when there is nothing left to do.
    package var isOnDemand = false
    /// How long an agent that was started on demand waits for more work.
    package var idleTime: Duration = .seconds(120)
    /// **Milliseconds** since 1970.
    package var now: @Sendable () -> Int64
    /// Waits; ends early, with an error, when the task is cancelled.
    package var sleep: @Sendable (Duration) async throws -> Void
    /// Makes an engine for one piece of work.
    package var engine: @Sendable (EngineRequest) -> Result<AssembledEngine, ControlError>
    /// Makes the conditions of a run, given since when some already block.
    package var conditionCheck: @Sendable (RunConditions, [String: Int64]) -> Result<ConditionCheck, ControlError> = {
        wanted, since in
        Result { () throws(PluginError) in try ConditionCheck(wanted, on: MachinePlaces(), blockedSince: since) }
            .mapError { ControlError(.invalid, "\($0)", exitStatus: .configuration) }
    }
    /// The calendar, for rates by time of day.
    package var windowClock: WindowClock = wallClock
    /// Between looks at the conditions of a run that is worked on.
    package var lookInterval: Duration = .seconds(5)
    /// Between looks at those of one that waits for them, in **milliseconds**.
    package var blockedInterval: Int64 = 30_000
    /// Schedules that it fires itself; `nil` for none.
    package var schedules: AgentSchedules?
    /// When sessions run next by their schedules, **milliseconds** since 1970, and how many schedules fail without a session;
    /// for metrics.
    package var scheduled: @Sendable () -> (next: [String: Int64], failing: Int) = { ([:], 0) }
    package var log: @Sendable (String) -> Void

    package init(
        store: SyncStore, stateDirectory: String, version: String, process: Int32, now: @escaping @Sendable () -> Int64,
        sleep: @escaping @Sendable (Duration) async throws -> Void, log: @escaping @Sendable (String) -> Void,
        engine: @escaping @Sendable (EngineRequest) -> Result<AssembledEngine, ControlError>
    ) {
        (self.store, self.stateDirectory, self.version, self.process) = (store, stateDirectory, version, process)
        (self.now, self.sleep, self.log, self.engine) = (now, sleep, log, engine)
    }
}

package import SyncAgent
package import SyncAssembly
import SyncEngine
package import SyncModel
import SyncPlugins
package import SyncSchedule
package import SyncStore
import SyncSystem

/// The agent's surroundings: the store, the clock, a function that creates engines.
package struct AgentEnvironment: Sendable {
    package var store: SyncStore
    /// The state directory, absolute.
    package var stateDirectory: String
    package var version: String
    package var process: Int32
    /// Most runs at a time; others wait for a slot.
    package var maximumRuns = 2
    /// Most connections of all runs together; more sessions do not raise it.
    package static let connectionCap = 64
    /// Most body **bytes** a second of all runs together; `nil` for no such limit. The runs' own limits apply as well.
    package var rateLimit: UInt64?
    /// Most connections of one run: ``connectionCap`` divided by ``maximumRuns``.
    var connectionShare: Int { max(1, Self.connectionCap / max(1, maximumRuns)) }
    /// Most hooks at a time while nothing is transferred for their sessions; they take no slot of a run.
    package static let hookCap = 64
    /// Whether a client started the agent, which then ends when there is nothing left to do.
    package var isOnDemand = false
    /// How long an agent that was started on demand waits for more work.
    package var idleTime: Duration = .seconds(120)
    /// **Milliseconds** since 1970.
    package var now: @Sendable () -> Int64
    /// Waits. Ends early, with an error, if the task is cancelled.
    package var sleep: @Sendable (Duration) async throws -> Void
    /// Creates an engine for one piece of work.
    package var engine: @Sendable (EngineRequest) -> Result<AssembledEngine, ControlError>
    /// Creates the conditions of a run. The second argument says since when some of them already block.
    package var conditionCheck: @Sendable (RunRecipe, [String: Int64]) -> Result<ConditionCheck, ControlError> = {
        run, since in
        Result { () throws(PluginError) in
            try ConditionCheck(run.conditions, on: MachinePlaces(), blockedSince: since)
        }.mapError { ControlError(.invalid, "\($0)", exitStatus: .configuration) }
    }
    /// The calendar, for rates by time of day.
    package var windowClock: WindowClock = wallClock
    /// The interval between checks of the conditions of a running run.
    package var pollInterval: Duration = .seconds(5)
    /// The interval between checks of the conditions of a run that waits for them, in **milliseconds**.
    package var blockedInterval: Int64 = 30_000
    /// The schedules that the agent fires itself; `nil` for none.
    package var schedules: AgentSchedules?
    /// When sessions next run by their schedules, **milliseconds** since 1970, and how many schedules fail without a
    /// session. For metrics.
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

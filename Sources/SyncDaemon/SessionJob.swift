import SyncAgent
import SyncAssembly
import SyncEngine
import SyncModel
import SyncPlugins
import SyncSchedule
import SyncStore
import SyncSystem

/// Work in progress on one session: a run, or the hooks owed by an earlier run.
final class SessionJob: Sendable {
    private struct State: Sendable {
        var progress: PullProgress?
        var isOver = false
        /// The conditions of the run as it was when they were read; `nil` until then, and for a run without any.
        var conditions: (check: ConditionCheck, run: StoredRun, destination: String)?
        /// The result of their last evaluation.
        var report: ConditionReport?
        var isCallingHooks: Bool
        var hasCalledHooks = false
        /// Whether all files are fetched and the run waits for the time of its switch.
        var isWaiting = false
        /// Whether only the switch was left at the start; ends when bytes of files arrive all the same.
        var isBuilt = false
        /// Body **bytes** received when files were counted first, the manifest's.
        var receivedBefore: UInt64?
        var handle: AssembledEngine?
        /// An engine that has already fetched the manifest.
        var spare: AssembledEngine?
        /// The limit of the client and the settings, whatever the time of day.
        var usualLimit: UInt64?
        /// The run's own limit at present.
        var ownLimit: UInt64?
        var share: UInt64?
        /// Body **bytes** received when the share was set last.
        var received: UInt64 = 0
        var listeners: [CheckedContinuation<Void, Never>] = []
    }

    let agent: Agent
    let session: String
    /// `nil` if only owed hooks are run.
    let run: String?
    let stop = StopRequest()
    private let state: Mutex<State>
    /// The weight in dividing the agent's rate limit: a person's request counts four times that of a hook or a
    /// schedule.
    private let weight: Double

    /// - Parameters:
    ///   - run: `nil` if only owed hooks are run.
    ///   - engine: An engine that has already fetched the run's manifest, if there is one.
    init(_ agent: Agent, session: String, _ run: StoredRun?, engine: AssembledEngine?) {
        (self.agent, self.session, self.run) = (agent, session, run?.identifier)
        weight = run?.recipe.origin == .interactive ? 4 : 1
        state = Mutex(State(isCallingHooks: run == nil, spare: engine))
    }

    var environment: AgentEnvironment { agent.environment }

    /// Returns the engine given at creation; `nil` after the first call.
    func takeEngine() -> AssembledEngine? {
        state.withLock { state in
            defer { state.spare = nil }
            return state.spare
        }
    }

    /// Whether a hook is running. The job then transfers nothing and takes no slot.
    var isCallingHooks: Bool { state.withLock(\.isCallingHooks) }
    var hasCalledHooks: Bool { state.withLock(\.hasCalledHooks) }

    /// Whether the job takes no slot, because it transfers nothing for now.
    var takesNoTurn: Bool { state.withLock { $0.isCallingHooks || $0.isWaiting } }

    // MARK: The rate

    /// Notes the engine of the work that starts; `usual` is the run's own limit, in **bytes** a second, whatever the
    /// time of day.
    func opened(_ handle: AssembledEngine, usual: UInt64?) {
        let limit = ownLimit(usual)
        let isShared = state.withLock { state in
            (state.handle, state.usualLimit, state.ownLimit) = (handle, usual, limit)
            state.received = handle.received
            return state.share != nil
        }
        if isShared || limit != handle.rateLimit { applyLimits() }
    }

    /// Applies the limit for this time of day.
    func holdRate() {
        let (isOpen, usual) = state.withLock { ($0.handle != nil, $0.usualLimit) }
        guard isOpen else { return }
        let limit = ownLimit(usual)
        let isNew = state.withLock { state in
            defer { state.ownLimit = limit }
            return state.ownLimit != limit
        }
        if isNew { applyLimits() }
    }

    /// The limit at this time of day; outside of all windows, the usual one.
    private func ownLimit(_ usual: UInt64?) -> UInt64? {
        guard let rates = state.withLock({ $0.conditions?.run.recipe.conditions.rates }) else { return usual }
        return rate(at: environment.now(), of: rates, usual: usual, clock: environment.windowClock)
    }

    /// The run's claim to a share of the agent's rate limit; `nil` while it transfers nothing.
    ///
    /// - Parameter time: The time since the last call.
    func claim(after time: Duration) -> BandwidthClaim? {
        guard let received = state.withLock(\.handle)?.received else { return nil }
        return state.withLock { state in
            guard !state.isCallingHooks, !state.isWaiting else { return nil }
            var claim = BandwidthClaim(weight: weight, limit: state.ownLimit, share: state.share)
            let bytes = received - min(state.received, received)
            let rate = Double(bytes) / max(time / .seconds(1), 0.001)
            claim.used = UInt64(exactly: rate.rounded(.down)) ?? .max
            state.received = received
            return claim
        }
    }

    /// Sets the run's share of the agent's rate limit.
    func setShare(_ share: UInt64) {
        state.withLock { $0.share = share }
        applyLimits()
    }

    private func applyLimits() {
        let (handle, limit) = state.withLock { state in
            (state.handle, [state.ownLimit, state.share].compactMap(\.self).min())
        }
        handle?.setRateLimit(limit)
    }

    /// The progress; `nil` before the manifest is known.
    var progress: PullProgress? { state.withLock(\.progress) }

    var isOver: Bool { state.withLock(\.isOver) }

    /// - Returns: Whether the job takes no slot from now on.
    func note(_ progress: PullProgress) -> Bool {
        state.withLock { state in
            if progress.isCounting { state.progress = progress }
            if state.isBuilt, progress.phase == .fetching {
                if progress.received > state.receivedBefore ?? progress.received { state.isBuilt = false }
                state.receivedBefore = state.receivedBefore ?? progress.received
            }
            let begins = progress.phase == .waiting && !state.isWaiting
            if begins { state.isWaiting = true }
            return begins
        }
    }

    func note(_ event: SyncEvent) {
        if event.name == .hookStarted {
            state.withLock { ($0.isCallingHooks, $0.hasCalledHooks) = (true, true) }
        } else if event.name == .hookFinished, run != nil {
            state.withLock { $0.isCallingHooks = false }
        }
    }

    /// Notes that the work has ended and is recorded.
    func end() {
        let listeners = state.withLock { state in
            state.isOver = true
            state.handle = nil
            defer { state.listeners = [] }
            return state.listeners
        }
        for listener in listeners { listener.resume() }
    }

    /// Waits for the end of the work.
    func untilEnd() async {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if !state.isOver { state.listeners.append(continuation) }
                return state.isOver
            }
            if isOver { continuation.resume() }
        }
    }
}

// Whether the run may proceed: evaluated before its start and every few seconds while it runs.
extension SessionJob {
    /// Reads the conditions of the run, if it has any.
    ///
    /// - Throws: ``ControlError`` for a plugin that does not exist.
    func readConditions(of run: StoredRun, destination: String) throws(ControlError) {
        guard !run.recipe.conditions.isEmpty else { return }
        var since: [String: Int64] = [:]
        if let reason = run.reason, let start = run.waitingSince { since[reason.rawValue] = start }
        let check = try environment.conditionCheck(run.recipe, since).get()
        state.withLock { $0.conditions = (check, run, destination) }
    }

    /// Whether only the switch is left, so that no condition counts.
    var isBuilt: Bool {
        get { state.withLock(\.isBuilt) }
        set { state.withLock { $0.isBuilt = newValue } }
    }

    var hasConditions: Bool { state.withLock { $0.conditions != nil } }

    /// The report of the last evaluation, if it blocks the run.
    var block: ConditionReport? { state.withLock(\.report).flatMap { $0.isBlocked ? $0 : nil } }

    /// Evaluates all conditions and records changes; blocks for seconds at most.
    func mayContinue() -> Bool {
        let (conditions, handle) = state.withLock { ($0.isOver || $0.isBuilt ? nil : $0.conditions, $0.handle) }
        guard let (check, run, destination) = conditions else { return true }
        let now = environment.now()
        // Earlier attempts count, too.
        let received = run.counts.bytes.received.saturatingAdd(handle?.received ?? 0)
        let report = check.evaluate(ConditionContext(destination: destination, receivedBytes: received, now: now))
        state.withLock { $0.report = report }
        for warning in report.warnings { environment.log("\(escaped(session)): \(warning)") }
        record(report.changes, of: run.identifier, now)
        return !report.isBlocked
    }

    private func record(_ changes: [ConditionReport.Change], of run: String, _ now: Int64) {
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

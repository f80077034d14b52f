import SyncAssembly
import SyncEngine
import SyncModel
import SyncStore
import SyncSystem

/// Work in progress on one session: a run, or the hooks owed by an earlier run.
final class SessionJob: Sendable {
    private struct State: Sendable {
        var progress: PullProgress?
        var isOver = false
        var conditions: RunConditionCheck?
        var isCallingHooks: Bool
        var hasCalledHooks = false
        /// Whether all files are fetched and the run waits for the time of its switch.
        var isWaiting = false
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

    let session: String
    /// `nil` if only owed hooks are run.
    let run: String?
    let environment: AgentEnvironment
    /// Called when a hook starts or ends, and when the run only waits for a time, since other runs may then start, or
    /// no longer may.
    let turnChanged: @Sendable () -> Void
    /// Knows whether a client follows the session.
    let live: LiveSessions
    let stop = StopRequest()
    private let state: Mutex<State>
    /// The weight in dividing the agent's rate limit: a person's request counts four times that of a hook or a
    /// schedule.
    private let weight: Double

    /// - Parameters:
    ///   - run: `nil` if only owed hooks are run.
    ///   - engine: An engine that has already fetched the run's manifest, if there is one.
    init(
        session: String, _ run: StoredRun?, engine: AssembledEngine?, _ environment: AgentEnvironment,
        _ live: LiveSessions, turnChanged: @escaping @Sendable () -> Void
    ) {
        (self.session, self.run) = (session, run?.identifier)
        (self.environment, self.live, self.turnChanged) = (environment, live, turnChanged)
        weight = run?.recipe.origin == .interactive ? 4 : 1
        state = Mutex(State(isCallingHooks: run == nil, spare: engine))
    }

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

    private func ownLimit(_ usual: UInt64?) -> UInt64? {
        guard let conditions else { return usual }
        return conditions.rateLimit(usual: usual)
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

    /// The conditions of the run; `nil` until they have been read, and for a run without conditions.
    var conditions: RunConditionCheck? {
        get { state.withLock(\.conditions) }
        set { state.withLock { $0.conditions = newValue } }
    }

    /// Evaluates the conditions and records changes; blocks for seconds at most.
    func mayContinue() -> Bool {
        let (check, handle) = state.withLock { ($0.isOver ? nil : $0.conditions, $0.handle) }
        return check?.evaluate(received: handle?.received ?? 0) ?? true
    }

    var isOver: Bool { state.withLock(\.isOver) }

    /// - Returns: Whether the job takes no slot from now on.
    func note(_ progress: PullProgress) -> Bool {
        state.withLock { state in
            if progress.isCounting { state.progress = progress }
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

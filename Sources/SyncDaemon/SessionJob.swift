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
        /// Whether everything is here, and waits until it may be shown.
        var isWaiting = false
        var handle: AssembledEngine?
        /// An engine that has found the manifest already.
        var spare: AssembledEngine?
        /// What its client and the settings say, whatever the time of day.
        var usualLimit: UInt64?
        /// Its own limit now.
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
    /// Called when a hook starts and when it ends, and when only the time is waited for, since other runs may then start, or
    /// may not.
    let turnChanged: @Sendable () -> Void
    /// Knows whether a client follows the session.
    let live: LiveSessions
    let stop = StopRequest()
    private let state: Mutex<State>
    /// Its share of a limit for all: a person's request weighs four times that of a hook or a schedule.
    private let weight: Double

    /// - Parameters:
    ///   - run: `nil` if only owed hooks are run.
    ///   - engine: One that has the run's manifest already, if there is one.
    init(
        session: String, _ run: StoredRun?, engine: AssembledEngine?, _ environment: AgentEnvironment,
        _ live: LiveSessions, turnChanged: @escaping @Sendable () -> Void
    ) {
        (self.session, self.run) = (session, run?.identifier)
        (self.environment, self.live, self.turnChanged) = (environment, live, turnChanged)
        weight = run?.recipe.origin == .interactive ? 4 : 1
        state = Mutex(State(isCallingHooks: run == nil, spare: engine))
    }

    /// The engine that came with it, once.
    func takeEngine() -> AssembledEngine? {
        state.withLock { state in
            defer { state.spare = nil }
            return state.spare
        }
    }

    /// Whether a hook is running: the job then transfers nothing and takes no other job's turn.
    var isCallingHooks: Bool { state.withLock(\.isCallingHooks) }
    var hasCalledHooks: Bool { state.withLock(\.hasCalledHooks) }

    /// Whether it takes no other job's turn, because it will transfer nothing for now.
    var takesNoTurn: Bool { state.withLock { $0.isCallingHooks || $0.isWaiting } }

    // MARK: Its rate

    /// Work starts with this engine; `usual` is the run's own limit, in **bytes** a second, whatever the time of day.
    func opened(_ handle: AssembledEngine, usual: UInt64?) {
        let limit = ownLimit(usual)
        let isShared = state.withLock { state in
            (state.handle, state.usualLimit, state.ownLimit) = (handle, usual, limit)
            state.received = handle.received
            return state.share != nil
        }
        if isShared || limit != handle.rateLimit { applyLimits() }
    }

    /// Holds it to the limit for this time of day.
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

    /// Its claim to a share of a limit for all; `nil` while it transfers nothing.
    ///
    /// - Parameter time: Since it was asked last.
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

    /// Sets its share of the limit for all.
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

    /// The progress; `nil` before there is a manifest.
    var progress: PullProgress? { state.withLock(\.progress) }

    /// `nil` until they have been read, and for a run without conditions.
    var conditions: RunConditionCheck? {
        get { state.withLock(\.conditions) }
        set { state.withLock { $0.conditions = newValue } }
    }

    /// Asks its conditions, and records what has changed; blocks for seconds at most.
    func mayGoOn() -> Bool {
        let (check, handle) = state.withLock { ($0.isOver ? nil : $0.conditions, $0.handle) }
        return check?.evaluate(received: handle?.received ?? 0) ?? true
    }

    var isOver: Bool { state.withLock(\.isOver) }

    /// - Returns: Whether the job takes no turn from now on.
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

    /// Its work has ended and is recorded.
    func end() {
        let listeners = state.withLock { state in
            state.isOver = true
            state.handle = nil
            defer { state.listeners = [] }
            return state.listeners
        }
        for listener in listeners { listener.resume() }
    }

    /// Returns when its work has ended.
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

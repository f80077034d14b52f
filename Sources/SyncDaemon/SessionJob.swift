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
    /// Whether a client follows the session.
    let isWatched: @Sendable () -> Bool
    let stop = StopRequest()
    private let state: Mutex<State>
    /// Its share of a limit for all: a person's request weighs four times that of a hook or a schedule.
    private let weight: Double

    /// - Parameters:
    ///   - run: `nil` if only owed hooks are run.
    ///   - engine: One that has the run's manifest already, if there is one.
    ///   - isWatched: Whether a client follows the session.
    init(
        session: String, _ run: StoredRun?, engine: AssembledEngine?, _ environment: AgentEnvironment,
        isWatched: @escaping @Sendable () -> Bool, turnChanged: @escaping @Sendable () -> Void
    ) {
        (self.session, self.run) = (session, run?.identifier)
        (self.environment, self.isWatched, self.turnChanged) = (environment, isWatched, turnChanged)
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

    /// Work starts with this engine; `limit` is the run's own, in **bytes** a second.
    func opened(_ handle: AssembledEngine, limit: UInt64?) {
        let isShared = state.withLock { state in
            (state.handle, state.ownLimit, state.received) = (handle, limit, handle.received)
            return state.share != nil
        }
        if isShared { applyLimits() }
    }

    /// The run's own limit has changed.
    func setOwnLimit(_ limit: UInt64?) {
        state.withLock { $0.ownLimit = limit }
        applyLimits()
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

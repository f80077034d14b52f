import SyncFiles
import SyncModel
import SyncPlugins
import SyncStore
import SyncSystem

/// Runs owed hooks: recorded before they start and after they end, so that after a crash in between they are owed
/// again, with a higher attempt (S19, S33, F089).
struct OwedHooks {
    let environment: EngineEnvironment
    let destination: Destination

    /// Most attempts in a row of a hook that asks for a retry (F093).
    static let attemptLimit = 3

    /// Runs one hook to its end.
    ///
    /// - Parameter hook: As the store gave it, `pending`.
    /// - Returns: Whether it did its work; a hook that no call is due of has.
    /// - Throws: What the store throws: without a record no hook runs.
    func run(_ hook: StoredHook, _ input: HookInput) throws(StoreError) -> Bool {
        guard let runner = environment.hooks, let program = hook.arguments.first else { return false }
        let journal = RunJournal(environment: environment, session: hook.session, run: hook.run)
        let store = environment.store
        if input.calls == 0 {
            try store.skip(hook: hook.identifier, reason: StoredHook.nothingChanged, now: environment.now())
            return true
        }
        for round in 1...Self.attemptLimit {
            let attempt = try store.started(hook: hook.identifier, now: environment.now())
            if hook.attempt > 0, hook.ended != StoredHook.replayed, hook.batch == nil, hasReceipt(hook) {
                // It did its work, and only the record of that was lost.
                let now = environment.now()
                try store.finished(hook: hook.identifier, .succeeded, ended: "receipt", now: now)
                return true
            }
            let told = RunJournal.Hook(
                group: hook.group,
                program: program,
                attempt: attempt,
                batch: hook.batch,
                batches: input.calls,
                otherManifest: input.otherManifest
            )
            journal.started(told)
            try environment.events.flush()
            let calls = HookCalls(runner: runner, input: input, isStopped: isStopped)
            let end = calls.run(invocation(of: hook, attempt: attempt))
            let outcome = end.outcome
            let word = Self.word(outcome.end)
            journal.finished(told, outcome, result: word, calls: end.calls)
            try environment.events.flush()
            let next = self.input(after: outcome, round: round)
            try store.finished(
                hook: hook.identifier,
                next,
                ended: word,
                output: outcome.output,
                now: environment.now()
            )
            guard next == .askedForRetry else { return outcome.succeeded }
            wait(environment.hookRetryWait(round))
            if environment.stop.isStopped { return false }
        }
        return false
    }

    private func input(after outcome: HookOutcome, round: Int) -> HookRunInput {
        if outcome.succeeded { return .succeeded }
        // If a person cancelled it, it is no longer owed. After any other stop it is called again.
        if outcome.end == .stopped { return environment.stop.reason == .cancelled ? .failed : .interrupted }
        let asksAgain = outcome.isTransient || outcome.end == .exited(75)
        return asksAgain && round < Self.attemptLimit ? .askedForRetry : .failed
    }

    /// Whether the hook itself reported its work as done: `syncagent hooks receipt RUN_ID`.
    private func hasReceipt(_ hook: StoredHook) -> Bool {
        HookReceipt(run: hook.run, group: hook.group).exists(in: destination)
    }

    private var isStopped: @Sendable () -> Bool { { [stop = environment.stop] in stop.isStopped } }

    private func invocation(of hook: StoredHook, attempt: Int) -> HookInvocation {
        HookInvocation(
            arguments: hook.arguments,
            directory: destination.path,
            environment: [
                "SYNCAGENT_SESSION": hook.session,
                "SYNCAGENT_RUN_ID": hook.run,
                "SYNCAGENT_GROUP": hook.group,
                "SYNCAGENT_RESULT": hook.result?.rawValue ?? "",
                "SYNCAGENT_CHANGED": String(hook.changed),
                "SYNCAGENT_DESTINATION": destination.path,
                "SYNCAGENT_ATTEMPT": String(attempt),
            ],
            input: [],
            timeout: hook.timeout,
            isStopped: isStopped
        )
    }

    /// Waits, or until a stop is requested.
    private func wait(_ duration: Duration) {
        let end = ContinuousClock.now + duration
        while !environment.stop.isStopped, ContinuousClock.now < end { pauseThread(milliseconds: 50) }
    }

    private static func word(_ end: HookOutcome.End) -> String {
        switch end {
        case .exited(let status): "exit \(status)"
        case .signalled(let signal): "signal \(signal)"
        case .timedOut: "timeout"
        case .stopped: "stopped"
        case .notStarted(let reason): "not started: \(reason)"
        }
    }
}

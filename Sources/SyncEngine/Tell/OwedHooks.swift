import SyncFiles
import SyncModel
import SyncPlugins
import SyncStore
import SyncSystem

/// Runs owed hooks: recorded before they start and after they end, so that after a crash in between they are owed
/// again, with a higher attempt.
struct OwedHooks {
    let environment: EngineEnvironment
    let destination: Destination
    /// Groups of the run at hand with several hooks that may leave a receipt.
    private let sharedGroups = Monitor<(run: String, groups: Set<String>)?>(nil)

    /// Most attempts in a row of a hook that asks for a retry.
    static let attemptLimit = 3
    /// **Milliseconds** until a hook for which there is no process is called again.
    static let processWait: Int64 = 300_000

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
        let receipt = hook.batch == nil ? try receipt(of: hook) : nil
        for round in 1...Self.attemptLimit {
            let attempt = try store.started(hook: hook.identifier, now: environment.now())
            if hook.attempt > 0, hook.ended != StoredHook.replayed, receipt?.file.exists(in: destination) == true {
                // It did its work, and only the record of that was lost.
                let now = environment.now()
                try store.finished(hook: hook.identifier, .succeeded, ended: "receipt", now: now)
                return true
            }
            let told = RunJournal.Hook(
                group: hook.group, program: program, attempt: attempt, batch: hook.batch, batches: input.calls,
                otherManifest: input.otherManifest)
            journal.started(told)
            try environment.events.flush()
            let end = input.run(invocation(of: hook, attempt: attempt, number: receipt?.number), by: runner)
            let outcome = end.outcome
            let word = Self.word(outcome.end)
            journal.finished(told, outcome, result: word, calls: end.calls)
            try environment.events.flush()
            let isLast = round == Self.attemptLimit
            let next = self.input(after: outcome, isLast: isLast)
            // While it is owed, that a person asked for it counts: a receipt of earlier does not.
            let isReplay = hook.ended == StoredHook.replayed && (next == .askedForRetry || next == .interrupted)
            let now = environment.now()
            try store.finished(
                hook: hook.identifier, next, ended: isReplay ? StoredHook.replayed : word, output: outcome.output,
                due: next == .askedForRetry && isLast ? now.saturatingAdd(Self.processWait) : nil, now: now)
            guard next == .askedForRetry, !isLast else { return outcome.succeeded }
            wait(environment.hookRetryWait(round))
            if environment.stop.isStopped { return false }
        }
        return false
    }

    private func input(after outcome: HookOutcome, isLast: Bool) -> HookRunInput {
        if outcome.succeeded { return .succeeded }
        // If a person cancelled it, it is no longer owed. After any other stop it is called again.
        if outcome.end == .stopped { return environment.stop.reason == .cancelled ? .failed : .interrupted }
        let asksAgain = outcome.isTransient || outcome.end == .exited(75)
        if asksAgain, !isLast { return .askedForRetry }
        // No process could be created for it: it has not even been called.
        return outcome.isExhaustion ? .askedForRetry : .failed
    }

    /// Where the hook itself reports its work as done: `syncagent hooks receipt RUN_ID`.
    ///
    /// - Returns: The hook's number as well, if others of its group leave receipts, too.
    private func receipt(of hook: StoredHook) throws(StoreError) -> (file: HookReceipt, number: Int64?) {
        let number = try isOneOfSeveral(hook) ? hook.identifier : nil
        return (HookReceipt(run: hook.run, group: hook.group, hook: number), number)
    }

    /// Whether its group has other hooks with a single call, whatever their state.
    private func isOneOfSeveral(_ hook: StoredHook) throws(StoreError) -> Bool {
        if let known = sharedGroups.withLock({ $0 }), known.run == hook.run { return known.groups.contains(hook.group) }
        var (seen, shared): (Set<String>, Set<String>) = ([], [])
        for other in try environment.store.hooks(run: hook.run, limit: .max) where other.batch == nil {
            if !seen.insert(other.group).inserted { shared.insert(other.group) }
        }
        sharedGroups.withLock { $0 = (hook.run, shared) }
        return shared.contains(hook.group)
    }

    /// - Parameter number: The hook's own, where it needs it for its receipt.
    private func invocation(of hook: StoredHook, attempt: Int, number: Int64?) -> HookInvocation {
        var variables = [
            "SYNCAGENT_SESSION": hook.session, "SYNCAGENT_RUN_ID": hook.run, "SYNCAGENT_GROUP": hook.group,
            "SYNCAGENT_RESULT": hook.result?.rawValue ?? "", "SYNCAGENT_CHANGED": String(hook.changed),
            "SYNCAGENT_DESTINATION": destination.path, "SYNCAGENT_ATTEMPT": String(attempt),
        ]
        if let number { variables["SYNCAGENT_HOOK"] = String(number) }
        return HookInvocation(
            arguments: hook.arguments, directory: destination.path, environment: variables, input: [],
            timeout: hook.timeout, isStopped: environment.isStopped)
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
        case .notStarted(let reason): "\(StoredHook.notStarted): \(reason)"
        case .unknown(let reason): "unknown: \(reason)"
        }
    }
}

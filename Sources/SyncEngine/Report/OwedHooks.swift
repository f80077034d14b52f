import SyncFiles
import SyncManifest
import SyncModel
import SyncPlugins
import SyncStore
import SyncSystem

/// Runs owed hooks. Each is recorded before it starts and after it ends, so that after a crash in between it is owed
/// again, with a higher attempt.
struct OwedHooks {
    let environment: EngineEnvironment
    let destination: Destination
    /// Groups of the present run with several hooks that may leave a receipt.
    private let sharedGroups = Monitor<(run: String, groups: Set<String>)?>(nil)

    /// The most attempts in a row of a hook that asks for a retry.
    static let attemptLimit = 3
    /// **Milliseconds** until a hook is called again for which no process could be created.
    static let processWait: Int64 = 300_000

    /// Runs one hook to its end.
    ///
    /// - Parameter hook: As read from the store, `pending`.
    /// - Returns: Whether the hook did its work; also `true` if no call is due.
    /// - Throws: ``StoreError``: without a record no hook runs.
    func run(_ hook: StoredHook, _ input: HookInput) throws(StoreError) -> Bool {
        guard let runner = environment.hooks, !hook.arguments.isEmpty else { return false }
        let journal = RunJournal(environment: environment, session: hook.session, run: hook.run)
        let store = environment.store
        if input.calls == 0 {
            try store.skip(hook: hook.identifier, reason: StoredHook.nothingChanged, now: environment.now())
            return true
        }
        let receipt = hook.batch == nil ? try receipt(of: hook) : nil
        let run = try store.run(hook.run)
        for round in 1...Self.attemptLimit {
            let attempt = try store.started(hook: hook.identifier, now: environment.now())
            journal.started(hook, input, attempt: attempt)
            try environment.events.flush()
            if hook.attempt > 0, hook.ended != StoredHook.replayed, let receipt {
                let now = environment.now()
                let isDone: Bool
                do throws(FileError) {
                    isDone = try receipt.file.exists(in: destination)
                } catch {
                    // Nobody knows whether it did its work: it stays owed.
                    let ended = "\(StoredHook.notStarted): \(error)"
                    try uncalled(hook, input, attempt, .notStarted("\(error)"), ended, in: journal)
                    try store.finished(
                        hook: hook.identifier, .askedForRetry, ended: ended,
                        due: now.saturatingAdd(Self.processWait), now: now)
                    return false
                }
                if isDone {
                    // Only the record of its success was lost.
                    try uncalled(hook, input, attempt, .exited(0), StoredHook.receipt, in: journal)
                    try store.finished(hook: hook.identifier, .succeeded, ended: StoredHook.receipt, now: now)
                    return true
                }
            }
            let (outcome, calls) = input.run(
                invocation(of: hook, attempt: attempt, number: receipt?.number, isRollback: run.recipe.rollback),
                by: runner)
            let word = Self.word(outcome.end)
            journal.finished(hook, input, attempt: attempt, outcome, result: word, calls: calls)
            try environment.events.flush()
            let isLast = round == Self.attemptLimit
            let next = self.input(after: outcome, isLast: isLast, isOfOpenRun: run.state.isOpen)
            // While it is owed, a replay that a person asked for stays a replay: an earlier receipt does not count.
            let isGivenUp = environment.stop.reason == .cancelled
            let isReplay =
                hook.ended == StoredHook.replayed && (next == .askedForRetry || next == .interrupted && !isGivenUp)
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

    /// Reports the end of an attempt that did not call the hook.
    private func uncalled(
        _ hook: StoredHook, _ input: HookInput, _ attempt: Int, _ end: HookOutcome.End, _ ended: String,
        in journal: RunJournal
    ) throws(StoreError) {
        let outcome = HookOutcome(end: end, output: "", milliseconds: 0)
        journal.finished(hook, input, attempt: attempt, outcome, result: ended, calls: 0)
        try environment.events.flush()
    }

    private func input(after outcome: HookOutcome, isLast: Bool, isOfOpenRun: Bool) -> HookRunInput {
        if outcome.succeeded { return .succeeded }
        if outcome.end == .stopped {
            // A hook that a person cancelled is no longer owed once that is on record of its run: a process that is
            // killed before has given nothing up. After any other stop the hook is called again.
            return environment.stop.reason == .cancelled && !isOfOpenRun ? .failed : .interrupted
        }
        let asksAgain = outcome.isTransient || outcome.end == .exited(75)
        if asksAgain, !isLast { return .askedForRetry }
        // No process could be created for it: it has not even been called.
        return outcome.isExhaustion ? .askedForRetry : .failed
    }

    /// The file by which the hook itself reports its work as done: `syncagent hooks receipt RUN_ID`.
    ///
    /// - Returns: The file, and the hook's number if others of its group leave receipts, too.
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

    /// - Parameter number: The hook's own, if it needs that for its receipt.
    private func invocation(of hook: StoredHook, attempt: Int, number: Int64?, isRollback: Bool) -> HookInvocation {
        var variables = [
            "SYNCAGENT_SESSION": hook.session, "SYNCAGENT_RUN_ID": hook.run, "SYNCAGENT_GROUP": hook.group,
            "SYNCAGENT_RESULT": hook.result?.rawValue ?? "", "SYNCAGENT_CHANGED": String(hook.changed),
            "SYNCAGENT_DESTINATION": destination.path, "SYNCAGENT_ATTEMPT": String(attempt),
        ]
        if let number { variables["SYNCAGENT_HOOK"] = String(number) }
        if isRollback { variables["SYNCAGENT_ROLLBACK"] = "1" }
        return HookInvocation(
            arguments: hook.arguments, directory: destination.path, environment: variables, input: [],
            timeout: hook.timeout, isStopped: environment.isStopped)
    }

    /// Waits for a time, or until a stop is requested.
    private func wait(_ duration: Duration) {
        let end = ContinuousClock.now + duration
        while !environment.stop.isStopped, ContinuousClock.now < end { pauseThread(milliseconds: 50) }
    }

    static func word(_ end: HookOutcome.End) -> String {
        switch end {
        case .exited(let status): "exit \(status)"
        case .signalled(let signal): "signal \(signal)"
        case .timedOut: "timeout"
        case .stopped: StoredHook.stopped
        // The reason is a sentence of its own, and stands within another one here.
        case .notStarted(let reason):
            "\(StoredHook.notStarted): \(reason.hasSuffix(".") ? String(reason.dropLast()) : reason)"
        case .unknown(let reason): "unknown: \(reason)"
        }
    }
}

extension PullEngine {
    /// The input of a hook that is called after a crash, or once more.
    func lateInput(_ hook: StoredHook, _ run: StoredRun, in destination: Destination) -> HookInput {
        let report = PullReport(run, hook.result ?? .partial)
        var input = HookInput(
            report: report, group: CompletedGroup(name: hook.group, result: report.result, changed: hook.changed),
            destination: hook.destination, userData: run.facts.userData, digest: run.manifest,
            revision: run.facts.revision, batch: hook.batch)
        guard hook.batch != nil else { return input }
        do throws(EngineError) {
            let manifest = try manifest(of: run)
            let here = try presentRows(hook, run, manifest, in: destination)
            let changed = try recording { () throws(StoreError) in
                try environment.store.unreported(hook, includingOwn: true).map { work throws(StoreError) in
                    try environment.store.unreported(here, of: manifest, in: run.session, work)
                }
            }
            input.manifest = manifest
            // If the events of that time are gone: all files that are there, so that none is missed.
            input.rows = (changed ?? nil) ?? here
            if changed == .some(nil), hook.ended == StoredHook.replayed {
                input.obstacle =
                    "the changes of run \(run.identifier) are no longer on record: "
                    + "a session keeps its latest 16 MiB of events"
            }
        } catch { input.obstacle = "the files are no longer known: \(error.message)" }
        return input
    }

    /// The manifest of a run or, if that is no longer kept, the one of the session's latest run, which names what is
    /// there now.
    private func manifest(of run: StoredRun) throws(EngineError) -> Manifest {
        let source = try manifestSource(caching: true)
        func recorded(_ run: StoredRun) throws(EngineError) -> Manifest {
            try source.recorded(
                run.manifest, location: run.location, WantedRelease(run.recipe), isPublic: run.facts.isPublic
            ).decode()
        }
        do throws(EngineError) { return try recorded(run) } catch {
            let latest = try stored(environment.store.runs(session: run.session, limit: 1).first)
            guard let latest, latest.identifier != run.identifier else { throw error }
            return try recorded(latest)
        }
    }

    /// The hook's files that are in place.
    private func presentRows(_ hook: StoredHook, _ run: StoredRun, _ manifest: Manifest, in destination: Destination)
        throws(EngineError) -> [Int]
    {
        let stop = environment.stop
        var rows = try run.recipe.selectedRows(of: manifest, stop)
        if hook.group != RunRecipe.groupOfAll {
            let ofGroup = Set(try manifest.selectedRows(of: [hook.group], stop))
            rows.removeAll { !ofGroup.contains($0) }
        }
        let inventory = Inventory(
            of: manifest, rows: rows, in: destination, index: StatIndex.read(from: destination), traitPolicy: .ignored,
            environment: environment)
        return rows.filter(inventory.records.has)
    }
}

// The files that a batch hook has not been given: those placed since it last did its work.
extension SyncStore {
    /// Of `rows`, those that work has placed, according to its events; `nil` if some events are no longer kept.
    func unreported(_ rows: [Int], of manifest: Manifest, in session: String, _ work: UnreportedWork) throws(StoreError)
        -> [Int]?
    {
        guard work.isOnRecord else { return nil }
        // One number per path, so that a million paths need not be held; a collision only gives a hook a file too many.
        func mark(_ path: [UInt8]) -> Int {
            var hasher = Hasher()
            path.withUnsafeBytes { hasher.combine(bytes: $0) }
            return hasher.finalize()
        }
        var marks: Set<Int> = []
        var hasStarted = work.after == nil
        try scanEvents(of: session, after: work.after ?? 0) { event in
            if event.kind == .groupCompleted {
                if let through = work.through, let number = event.sequence, number > through { return false }
                hasStarted = true
            }
            if hasStarted, let path = event.installedPath { marks.insert(mark(path)) }
            return true
        }
        guard !marks.isEmpty else { return [] }
        return rows.filter { marks.contains(mark(SessionEvent.spelled(manifest.files.path($0)))) }
    }
}

extension StatIndex {
    /// Tolerance for file servers' clocks; **nanoseconds**.
    private static let slack: Int64 = 60_000_000_000

    /// Of `rows`, those whose status has changed since a time, and those for which that is not known. rename(2) sets
    /// the time of a file's last status change, and nobody can set it to another time.
    ///
    /// - Parameter time: **Milliseconds** since 1970.
    func changed(_ rows: [Int], of files: FileTable, since time: Int64) -> [Int] {
        let (nanoseconds, overflows) = time.multipliedReportingOverflow(by: 1_000_000)
        let first = overflows ? .min : nanoseconds.subtractingReportingOverflow(Self.slack).partialValue
        return rows.filter { row in
            let record = files.withPath(row, position(of:)).flatMap(record)
            return record.map { $0.status.changed >= first } ?? true
        }
    }
}

import SyncAgent
import SyncAssembly
import SyncEngine
import SyncModel
import SyncSchedule
import SyncStore
import SyncSystem

/// Works on runs in the background until it is stopped: takes up waiting runs from the store, and takes back runs that
/// other processes have left. All its state is in the store: if the agent is killed, the next one continues.
package actor Agent {
    let environment: AgentEnvironment
    let started: Int64

    /// Sessions that a command is working on, each with the commands that wait for it.
    var turns: [String: [CheckedContinuation<Void, Never>]] = [:]
    /// Pause and resume commands to be recorded together, by session.
    var pauseCommands:
        [String: [(input: RunInput, answered: CheckedContinuation<Result<SessionStatus, ControlError>, Never>)]] = [:]
    /// When a command last changed a session's run, **milliseconds** since 1970.
    var changes: [String: Int64] = [:]
    /// The tasks that wait for the deadlines of running runs, by session.
    private var deadlines: [String: Task<Void, Never>] = [:]
    /// Engines that have fetched the manifest of a run that may start at once, by run.
    var spares: [String: AssembledEngine] = [:]
    /// Stops for the work that commands wait for, such as fetching a manifest.
    var answering: [ObjectIdentifier: StopRequest] = [:]
    /// Failed attempts in a row to start a run or a session's owed hooks, by the name of the run or session.
    var failedStarts: [String: Int] = [:]
    /// The pause after a failed attempt, by session: its start and its length in **milliseconds**. For failures that
    /// the store does not record, such as that it cannot be written.
    var retries: [String: (since: Int64, wait: Int64)] = [:]
    var stopMode: AgentStop?
    /// Whether the agent has schedules of its own, for which it must not end.
    var hasSchedules = false
    /// Occurrences of schedules that were handled but could not be recorded, and starting points for schedules without
    /// a record.
    var handledSlots: [String: Slot] = [:]
    /// The last missed occurrence of each schedule that was reported.
    var missedSlots: [String: Slot] = [:]
    /// When a schedule that could not be enqueued is tried again, **milliseconds** since 1970, and how often it has
    /// failed.
    var failedSchedules: [String: (slot: Slot, count: Int, due: Int64)] = [:]
    /// The last run of each schedule for whose release the server was asked again.
    var askedAgain: [String: String] = [:]
    /// The time since which there has been nothing to do.
    private var idleSince: Int64?
    private var alarm: Task<Void, Never>?
    private var wakeUps: [CheckedContinuation<Void, Never>] = []
    private var isWoken = false
    /// Whether there was work since memory was last returned.
    private var hasWorked = true
    /// When history was last pruned, **milliseconds** since 1970.
    private var pruned: Int64?

    /// Work under way and the number of followers, by session, and whether the agent accepts no more readers.
    nonisolated let live = Mutex((jobs: [String: SessionJob](), followers: [String: Int](), isOver: false))

    /// Longest sleep: wall clocks jump, and other processes leave runs behind.
    private static let longestSleep = Duration.seconds(60)
    /// The shortest time in **milliseconds** from a command that changed a run to its start, so that rapid pausing and
    /// resuming does not cost a start each time.
    private static let quietTime: Int64 = 20
    /// No run is held for more **milliseconds** than this: conditions are checked again after two days at most.
    private static let longestHold: Int64 = 3 * 86_400_000
    /// **Milliseconds** between two prunings of the history.
    private static let pruneInterval: Int64 = 3_600_000

    package init(_ environment: AgentEnvironment) {
        self.environment = environment
        started = environment.now()
    }

    var store: SyncStore { environment.store }

    /// Works until ``stop(_:)`` is called, or until an agent started on demand has nothing left to do.
    ///
    /// - Returns: When every run is at rest and recorded.
    package func run() async {
        countSchedules()
        let schedules = Task { await self.followSchedules() }
        let bandwidth = Task { await self.shareBandwidth() }
        while stopMode == nil {
            pruneHistory()
            let due = startWhatMay()
            endSpares()
            if isIdle() {
                // From here on, clients are told to ask the next agent.
                stopMode = .release
            } else {
                await rest(until: due)
            }
        }
        // A run that is just being enqueued is not waited for: the next agent enqueues it again.
        schedules.cancel()
        bandwidth.cancel()
        live.withLock { $0.isOver = true }
        endSpares()
        for job in jobs.values { await job.untilEnd() }
    }

    /// Ends the engines kept for runs that are still waiting.
    private func endSpares() {
        for spare in spares.values { Task { await end(spare) } }
        spares = [:]
    }

    /// Prunes history beyond the limits from time to time: an agent can run for months.
    private func pruneHistory() {
        let now = environment.now()
        // A clock that was set back prunes, too.
        if let pruned, (0..<Self.pruneInterval).contains(now - pruned) { return }
        pruned = now
        do throws(StoreError) { try store.prune() } catch { environment.log("pruning: \(error)") }
    }

    /// Makes the agent check again which runs may start.
    func wake() {
        isWoken = true
        alarm?.cancel()
        let sleepers = wakeUps
        wakeUps = []
        for sleeper in sleepers { sleeper.resume() }
    }

    /// The same, for callers that do not wait: when a job's hook starts or ends, and when its run only waits for a time,
    /// other runs may start, or no longer may.
    nonisolated func wakeSoon() { Task { await self.wake() } }

    private func rest(until due: Int64?) async {
        if jobs.isEmpty, hasWorked { releaseMemory() }
        hasWorked = !jobs.isEmpty
        guard !isWoken else {
            isWoken = false
            return
        }
        let wait = due.map { Duration.milliseconds(max(1, $0 - environment.now())) } ?? Self.longestSleep
        let sleep = environment.sleep
        alarm = Task {
            // Cancelled: the agent has been woken already.
            guard (try? await sleep(min(wait, Self.longestSleep))) != nil else { return }
            self.wake()
        }
        await withCheckedContinuation { wakeUps.append($0) }
        alarm?.cancel()
        isWoken = false
    }

    /// Whether an agent started on demand has been idle for long enough.
    private func isIdle() -> Bool {
        guard environment.isOnDemand else { return false }
        // An agent with schedules of its own stays, since nothing else would run them.
        let isBusy =
            !jobs.isEmpty || !answering.isEmpty || !turns.isEmpty || live.withLock { !$0.followers.isEmpty }
            || hasSchedules || hasWork()
        guard !isBusy else {
            idleSince = nil
            return false
        }
        let now = environment.now()
        let since = idleSince ?? now
        idleSince = since
        return now - since >= Int64(environment.idleTime / .milliseconds(1))
    }

    private func hasWork() -> Bool {
        do throws(StoreError) {
            let open = try store.runs(onlyOpen: true, limit: 10_000)
            let owed = try store.owedHooks()
            return !owed.isEmpty || open.contains { $0.state != .paused }
        } catch {
            // Unreadable runs may be work.
            return true
        }
    }
}

// MARK: Starting

extension Agent {
    /// Starts every run that may start, oldest first, while there is room.
    ///
    /// - Returns: When to look again, **milliseconds** since 1970; `nil` when nothing is due.
    private func startWhatMay() -> Int64? {
        let now = environment.now()
        var next: Int64?
        func later(_ time: Int64) { next = min(next ?? time, time) }
        do throws(StoreError) {
            var open = try store.runs(onlyOpen: true, limit: 10_000)
            open.reverse()
            /// Whether a session is neither being worked on nor waiting after a failure.
            func isFree(_ session: String) -> Bool {
                guard jobs[session] == nil, turns[session] == nil else { return false }
                // A clock that was set back does not prolong the wait.
                guard let retry = retries[session], (0..<retry.wait).contains(now - retry.since) else { return true }
                later(retry.since + retry.wait)
                return false
            }
            /// Ignores a time too far ahead: it was recorded while the clock was wrong.
            func heldUntil(_ due: Int64?) -> Int64? {
                due.flatMap { $0.saturatingSubtract(now) > Self.longestHold ? nil : $0 }
            }
            for run in open where isFree(run.session) {
                if let changed = changes[run.session] {
                    if (0..<Self.quietTime).contains(now - changed) {
                        later(changed + Self.quietTime)
                        continue
                    }
                    changes[run.session] = nil
                }
                switch run.state {
                case .waiting:
                    let start = max(run.notBefore ?? 0, heldUntil(run.due) ?? 0)
                    if start > now { later(start) } else { begin(run.session, run) }
                case .running:
                    // The worker is another process, or gone: the lease tells which.
                    if store.holder(of: run.session) == nil { begin(run.session, run) } else { later(now + 1_000) }
                case .paused, .finished, .cancelled, .superseded: break
                }
            }
            // Hooks after the runs, so that runs start even if the record of a hook is damaged.
            let owed = try store.owedHooks()
            let known = Set(open.map(\.identifier) + owed.map(\.session))
            failedStarts = failedStarts.filter { known.contains($0.key) }
            let paused = Set(open.filter { $0.state == .paused }.map(\.identifier))
            for hook in owed where !paused.contains(hook.run) && isFree(hook.session) {
                if let due = heldUntil(hook.due), due > now { later(due) } else { begin(hook.session, nil) }
            }
        } catch {
            environment.log("\(error)")
            later(now + 5_000)
        }
        return next
    }

    /// How many runs take a slot. Hooks take none: two that run for an hour delay nobody. Nor does what is to be shown
    /// in the morning.
    var transferring: Int { jobs.values.count { !$0.takesNoTurn } }

    private func begin(_ session: String, _ run: StoredRun?) {
        let transferring = transferring
        guard stopMode == nil, run == nil || transferring < environment.maximumRuns,
            jobs.count < environment.maximumRuns + AgentEnvironment.hookCap
        else { return }
        let engine = run.flatMap { spares.removeValue(forKey: $0.identifier) }
        let job = SessionJob(self, session: session, run, engine: engine)
        // Until the next division the run gets an equal share.
        if let total = environment.rateLimit, run != nil { job.setShare(max(1, total / UInt64(transferring + 1))) }
        live.withLock { $0.jobs[session] = job }
        Task {
            do throws(ThreadError) { self.ended(job, try await onThread("run") { job.work() }) } catch {
                self.ended(job, .notYet(reason: .error, error: ControlError(.failed, "\(error)", exitStatus: .ioError)))
            }
        }
        if let deadline = run?.deadline { deadlines[session] = Task { await self.end(job, at: deadline) } }
        guard run?.recipe.conditions.isEmpty == false else { return }
        Task { await self.watch(job) }
    }

    /// Divides the rate limit among the runs that transfer, once a second.
    private func shareBandwidth() async {
        guard let total = environment.rateLimit else { return }
        var last = ContinuousClock.now
        while (try? await environment.sleep(.seconds(1))) != nil {
            let now = ContinuousClock.now
            defer { last = now }
            let claims = jobs.values.compactMap { job in job.claim(after: now - last).map { (job, $0) } }
            let shares = BandwidthClaim.divide(total, among: claims.map(\.1))
            for ((job, _), share) in zip(claims, shares) { job.setShare(share) }
        }
    }

    /// Checks every few seconds whether a run may go on. If not, stops it at a checkpoint, but never while it waits to
    /// be shown or calls hooks.
    private func watch(_ job: SessionJob) async {
        while !job.isOver, (try? await environment.sleep(environment.pollInterval)) != nil, !job.isOver {
            // All its files are there then.
            guard job.hasConditions, !job.takesNoTurn else { continue }
            job.holdRate()
            // If no thread can be started, the next check will do.
            let mayContinue = try? await onThread("look") { job.mayContinue() }
            if mayContinue == false, !job.takesNoTurn { return job.stop.stop(.policy) }
        }
    }

    /// Stops a run when its deadline passes, unless it calls hooks: all its files are in place then.
    ///
    /// - Parameter deadline: **Milliseconds** since 1970; the clock may be set meanwhile.
    private func end(_ job: SessionJob, at deadline: Int64) async {
        let deadline = max(deadline, environment.now().saturatingAdd(1_000))
        while case let left = deadline.saturatingSubtract(environment.now()), left > 0 {
            let wait = min(Duration.milliseconds(left), .seconds(60))
            // Cancelled: the run has ended.
            guard (try? await environment.sleep(wait)) != nil else { return }
        }
        if !job.isCallingHooks { job.stop.stop(.late) }
    }

    private func ended(_ job: SessionJob, _ end: SessionJob.End) {
        deadlines.removeValue(forKey: job.session)?.cancel()
        live.withLock { $0.jobs[job.session] = nil }
        switch end {
        case .done: (failedStarts[job.run ?? job.session], retries[job.session]) = (nil, nil)
        case .notYet(let reason, let error): hold(job, reason, error)
        case .blocked(let report): if let run = job.run { hold(run, job, report) }
        }
        job.end()
        wake()
    }

    /// Holds a run or hooks that could not start. They are tried again after ever longer waits, a run until its
    /// deadline.
    private func hold(_ job: SessionJob, _ reason: RestReason, _ error: ControlError?) {
        let count = (failedStarts[job.run ?? job.session] ?? 0) + 1
        failedStarts[job.run ?? job.session] = count
        let seconds: Int64 = reason == .sessionBusy ? 1 : min(1 << Int64(min(count, 12)), 3_600)
        let now = environment.now()
        retries[job.session] = (now, seconds * 1_000)
        func report() {
            if let error { environment.log("\(escaped(job.session)): \(error); retrying in \(seconds) s") }
        }
        do throws(StoreError) {
            if let run = job.run {
                let stored = try store.run(run)
                guard stored.state == .waiting else { return report() }
                // From here on the store records the wait, for this run alone.
                retries[job.session] = nil
                if try isGivenUp(stored, last: error?.message, now: now) { return }
                try store.hold(
                    run: run, reason: reason, error: error?.message, cause: error?.cause,
                    due: nextPoll(at: now + seconds * 1_000, stored, now: now))
            }
            report()
        } catch {
            retries[job.session] = (now, seconds * 1_000)
            environment.log("\(error)")
        }
    }

    /// Holds a run whose conditions do not hold; they are checked again when they may.
    private func hold(_ run: String, _ job: SessionJob, _ report: ConditionReport) {
        let now = environment.now()
        let reason = report.condition.map(RestReason.init(rawValue:))
        do throws(StoreError) {
            let stored = try store.run(run)
            guard stored.state == .waiting else { return }
            if try isGivenUp(stored, last: report.reason, now: now) { return }
            let check = report.nextCheck(after: now, every: environment.blockedInterval)
            try store.hold(
                run: run, reason: reason, error: report.reason, due: nextPoll(at: check, stored, now: now),
                since: report.since)
            if stored.reason != reason {
                environment.log("\(escaped(job.session)): waiting: \(escaped(report.reason ?? ""))")
            }
        } catch {
            retries[job.session] = (now, 5_000)
            environment.log("\(error)")
        }
    }

    /// When a run that waits until some time is looked at again: then, or at its deadline, if that comes first.
    private func nextPoll(at time: Int64, _ run: StoredRun, now: Int64) -> Int64 {
        min(time, max(run.deadline ?? time, now + 1_000))
    }

    /// Fails a run whose deadline has passed.
    private func isGivenUp(_ run: StoredRun, last: String?, now: Int64) throws(StoreError) -> Bool {
        guard let deadline = run.deadline, deadline <= now else { return false }
        let lease: FileLock?
        do throws(StoreError) { lease = try store.lease(of: run.session, process: environment.process, now: now) } catch
        {
            // The holder of the session may be about to replace the run.
            guard error.code == .busy else { throw error }
            return false
        }
        defer { withExtendedLifetime(lease) {} }
        let message = "the deadline has passed" + (last.map { "; last: \($0)" } ?? "")
        try store.fail(run.identifier, EngineError(.unavailable, message, cause: .late), now: now)
        environment.log("\(escaped(run.session)): \(message)")
        return true
    }
}

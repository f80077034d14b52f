import SyncFiles
import SyncManifest
package import SyncModel
import SyncPlugins
package import SyncStore
import SyncSystem

extension EngineEnvironment {
    /// Takes a session's lease for this process.
    ///
    /// - Throws: ``EngineError`` with status 75, which names the holder.
    func lease(_ session: String) throws(EngineError) -> FileLock? {
        try stored(store.lease(of: session, process: process, now: now()))
    }

    /// Records a run, or finds the open one with the same request. The caller holds the lease.
    ///
    /// - Parameters:
    ///   - isHeld: Whether this process works on it from here on.
    ///   - isBehind: Whether this process is calling hooks of the session: the run waits for them.
    func begin(_ start: RunStart, in destination: Destination, isHeld: Bool, isBehind: Bool = false)
        throws(EngineError) -> (run: StoredRun, isContinued: Bool, superseded: [String])
    {
        // A command can be repeated after a power cut; an acknowledged request must not be lost.
        let hasHooks = !start.recipe.hooks.isEmpty
        var start = start
        start.run = newRun
        start.session.move(to: destination.path, device: destination.device, inode: destination.inode)
        start.recipe.paused = start.recipe.paused && !isHeld
        let (wait, isLong) = (start.recipe.deadlineSeconds ?? 7 * 86_400).multipliedReportingOverflow(by: 1_000)
        let eligible = max(now(), start.recipe.notBefore?.milliseconds ?? 0)
        let (deadline, isLate) = eligible.addingReportingOverflow(wait)
        start.deadline = isLong || isLate ? .max : deadline
        return try recording { () throws(StoreError) in
            try store.begin(
                start, now: now(), isHeld: isHeld, continuing: true, isBehind: isBehind,
                durability: isHeld && !hasHooks ? .eventual : .synced)
        }
    }

    /// A new identifier, which sorts by time: `20261120T020000Z-` and 8 hexadecimal digits.
    private var newRun: String { runName(now: now(), random()) }
}

extension FoundManifest {
    /// A run of the manifest, to be recorded.
    ///
    /// - Parameters:
    ///   - facts: What the run records about the manifest.
    ///   - groups: The groups that will complete.
    ///   - destination: Its absolute path.
    func start(_ recipe: RunRecipe, _ facts: ManifestFacts, groups: [String], at destination: String) -> RunStart {
        var session = StoredSession(
            identifier: recipe.session ?? project, project: project, destination: destination, device: 0, inode: 0)
        session.label = recipe.label
        var start = RunStart(session: session, manifest: digest, recipe: recipe)
        start.recipe.manifest = location
        let taken = Set(groups)
        let hooks = recipe.hooks.filter { taken.contains($0.group) }
        // The order of calls: hooks with batches come first.
        start.recipe.hooks = hooks.filter { $0.batch != nil } + hooks.filter { $0.batch == nil }
        (start.facts, start.groups) = (facts, groups)
        return start
    }
}

private func runName(now: Int64, _ random: UInt64) -> String {
    let digits = timestamp(milliseconds: now).prefix(19).filter { $0 != "-" && $0 != ":" }
    return digits + "Z-" + padded(random & 0xFFFF_FFFF, 8, radix: 16)
}

// Attempts that led to no run.
extension PullEngine {
    /// Records a pull that led to no run, if its session is known, and reports that to the listener. A failure to
    /// record is ignored.
    func record(_ error: EngineError, of recipe: RunRecipe, began: Int64) {
        // A person who stopped the pull knows; a process that was in the way has a run of its own on record.
        guard !error.isOnRecord, error.status != .busy, environment.stop.reason.map({ $0 == .late }) ?? true else {
            return
        }
        var report = PullReport()
        report.result = .failed
        report.status = error.status
        report.requests = environment.transport.totals.requests
        report.bytes.received = environment.transport.totals.bytesReceived
        report.elapsedMilliseconds = environment.now() - began
        let event = environment.store.recordTry(
            recipe, error.after(environment.stop.reason), report, now: environment.now(), random: environment.random())?
            .event
        if let event { environment.events.notifyListener(event) }
    }
}

extension SyncStore {
    /// Records an attempt that led to no run, if its session is known: the one that it names, or that of its
    /// destination.
    ///
    /// - Parameters:
    ///   - report: The result of the attempt.
    ///   - now: **Milliseconds** since 1970.
    ///   - random: Part of the run's identifier.
    /// - Returns: The run that records the attempt, and its last event.
    package func recordTry(
        _ recipe: RunRecipe, _ error: EngineError, _ report: PullReport = PullReport(), now: Int64,
        random: UInt64 = .random(in: .min ... .max)
    ) -> (run: StoredRun, event: SyncEvent)? {
        do throws(StoreError) {
            guard let session = try knownSession(recipe) else { return nil }
            var (recipe, report) = (recipe, report)
            recipe.manifest = ManifestPlace(recipe.manifest).location
            (report.result, report.status) = (.failed, error.status)
            (report.session, report.run) = (session.identifier, runName(now: now, random))
            func event(_ run: String) -> SyncEvent {
                var told = report
                told.run = run
                return RunJournal.last(told, error: error.message, at: now)
            }
            let run = try recordTry(
                of: session.identifier, run: report.run, recipe, error: error.message, cause: error.cause,
                exitStatus: error.status.rawValue, work: SessionTotals(report), event: { event($0).json.bytes },
                began: now.saturatingSubtract(report.elapsedMilliseconds), now: now)
            return run.map { ($0, event($0.identifier)) }
        } catch {
            // The caller reports the error of the attempt all the same.
            return nil
        }
    }
}

// The run in the store: begun or taken over, and in the end finished or given back.
extension RunJournal {
    private var store: SyncStore { environment.store }

    /// Sends events to the store from here on.
    ///
    /// - Parameter epoch: The session's epoch in which this process works on the run.
    func open(epoch: Int64) {
        environment.events.open(session: session, run: run, in: store)
        environment.live.open(run: run, session: session, epoch: epoch, environment)
    }

    /// Records the end of the run together with its last event and what one process did for it, so that no crash can
    /// separate them.
    ///
    /// - Parameter work: The work to add to the session's totals; `nil` for none.
    func finish(_ report: PullReport, work: PullReport?, error: EngineError? = nil) throws(EngineError) {
        environment.live.close()
        let event = Self.last(report, error: error?.message, at: environment.now())
        try recording { () throws(StoreError) in
            try environment.events.emit([event]) { lines throws(StoreError) in
                try store.finish(
                    run: run, result: report.result, counts: report.counts, error: error?.message, cause: error?.cause,
                    exitStatus: report.status.rawValue, work: work.map(SessionTotals.init), events: lines,
                    now: environment.now())
            }
            try environment.events.close()
        }
    }

    /// The counts of this attempt and of those before it: a budget is for all of them. Once the groups are complete,
    /// the store has the sum.
    private func counts(_ report: PullReport) throws(StoreError) -> RunCounts {
        var counts = report.counts
        guard try store.groups(of: run).contains(where: { $0.state == .open }) else { return counts }
        let earlier = try store.run(run).counts
        counts.bytes.received = counts.bytes.received.saturatingAdd(earlier.bytes.received)
        counts.requests = counts.requests.saturatingAdd(earlier.requests)
        return counts
    }

    /// Records that the run is stopped before its end, together with what this process did for it: a process that is
    /// killed before has recorded neither, and the next one adds its work. The reason decides the state that the run is
    /// left in.
    func rest(_ reason: StopReason, _ report: PullReport) throws(EngineError) {
        environment.live.close()
        try recording { () throws(StoreError) in
            let input: RunInput =
                switch reason {
                case .user, .hangUp: .paused
                case .policy, .released, .late: .released
                case .cancelled: .cancelled
                }
            let counts = try counts(report)
            try environment.events.emit([]) { lines throws(StoreError) in
                _ = try store.apply(
                    input, to: run, reason: reason.rest, counts: counts, work: SessionTotals(report), events: lines,
                    now: environment.now())
            }
            try environment.events.close()
        }
    }
}

extension PullEngine {
    /// The last event, `pull.finished`, of a run that fails while no engine works on it: a JSON line.
    package static func lastEvent(ofFailed run: StoredRun, _ error: EngineError, now: Int64) -> [UInt8] {
        var report = PullReport(run, .failed)
        report.status = error.status
        return RunJournal.last(report, error: error.message, at: now).json.bytes
    }
}

extension SessionTotals {
    fileprivate init(_ report: PullReport) {
        self.init()
        received = report.bytes.received
        requests = report.requests
        files = UInt64(max(0, report.files.installed + report.files.reused))
        elapsed = report.elapsedMilliseconds
    }
}

extension EngineError {
    /// The error of a failed store operation.
    init(_ error: StoreError) { self.init(error.status, error.message) }
}

/// The value of a store operation, with errors converted.
func stored<R>(_ value: @autoclosure () throws(StoreError) -> R) throws(EngineError) -> R { try recording(value) }

/// Calls the store and converts its errors.
func recording<R>(_ body: () throws(StoreError) -> R) throws(EngineError) -> R {
    do throws(StoreError) { return try body() } catch { throw EngineError(error) }
}

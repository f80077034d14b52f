package import SyncModel
package import SyncStore

/// Reads what sessions did from the store; needs no agent and changes nothing.
package struct ReportReader: Sendable {
    /// What is known about a session from elsewhere.
    package struct Schedule: Sendable, Equatable {
        /// When it will run next, **milliseconds** since 1970.
        package var next: Int64?
        /// When it was to run last, **milliseconds** since 1970.
        package var lastDue: Int64?

        package init(next: Int64? = nil, lastDue: Int64? = nil) {
            self.next = next
            self.lastDue = lastDue
        }
    }

    /// A schedule whose session is not in the store: it has never come so far as to make one.
    package struct UnmetSchedule: Sendable, Equatable {
        package var name: String
        /// Absolute.
        package var destination: String
        package var schedule: Schedule
        /// Why it could not start the last time; `nil` when it could, or has not been to.
        package var failure: String?
        /// What that was; `nil` where an older program wrote it.
        package var cause: FailureCause?
        /// When that was, **milliseconds** since 1970.
        package var failed: Int64?

        package init(name: String, destination: String, schedule: Schedule) {
            self.name = name
            self.destination = destination
            self.schedule = schedule
        }
    }

    private let store: SyncStore
    private let clock: ReportClock
    private let version: String
    package var host: String?
    /// By session.
    package var schedules: [String: Schedule] = [:]
    /// Schedules without a session.
    package var unmet: [UnmetSchedule] = []

    /// Most nights of a report.
    package static let nightLimit = 30

    /// - Parameter clock: The time of the report.
    package init(store: SyncStore, clock: ReportClock, version: String) {
        self.store = store
        self.clock = clock
        self.version = version
    }

    /// Reads sessions.
    ///
    /// - Parameters:
    ///   - names: Only these; `nil` for all.
    ///   - hasNights: Whether ``SessionReport/nights`` are wanted; they are read from a month of events.
    /// - Throws: ``StoreError``; a session that is not there is left out.
    package func report(of names: [String]? = nil, since: Int64, hasNights: Bool) throws(StoreError) -> MorningReport {
        var sessions: [SessionReport] = []
        for session in try store.sessions() where names?.contains(session.identifier) ?? true {
            sessions.append(try read(session, since: since, hasNights: hasNights))
        }
        if names == nil {
            let known = Set(sessions.map(\.session))
            sessions += unmet.filter { !known.contains($0.name) }.map { unmet($0, since: since) }
        }
        return MorningReport(version: version, host: host, generated: clock.now, since: since, sessions: sessions)
    }

    private func unmet(_ unmet: UnmetSchedule, since: Int64) -> SessionReport {
        var report = SessionReport(session: unmet.name, project: "", destination: unmet.destination)
        report.next = unmet.schedule.next
        report.problems = [ProblemList.missed(unmet.schedule, since: since, now: clock.now) { _ in false }].compactMap {
            $0
        }
        report.headline = report.problems.isEmpty ? "its schedule is new" : "its schedule has never run"
        if let failure = unmet.failure {
            let problem = Problem(
                kind: unmet.cause ?? FailureCause(ofOldWords: failure), detail: failure, time: unmet.failed ?? clock.now
            )
            report.problems = [problem]
            report.headline = "its schedule could not start: \(problem.kind.words)"
        }
        report.verdict = report.problems.isEmpty ? .quiet : .attention
        return report
    }

    private func read(_ session: StoredSession, since: Int64, hasNights: Bool) throws(StoreError) -> SessionReport {
        var report = SessionReport(
            session: session.identifier, project: session.project, destination: session.destination)
        report.label = session.label
        report.next = schedules[session.identifier]?.next
        let stored = Array(try store.runs(session: session.identifier, limit: 200).reversed())
        let last = stored.last
        report.state = SessionState(last?.state)
        if let last { report.isInterrupted = try store.isInterrupted(last) }
        report.reason = last.flatMap { $0.state.isOpen ? $0.reason : nil }
        if let last, last.state == .waiting {
            let start = max(last.notBefore ?? 0, last.due ?? 0)
            if start > clock.now { report.until = start }
        }
        report.lastSuccess = stored.last { $0.result == .ok }?.finished

        // What blocks for longer than a day is found all the same.
        let earliest = since.saturatingSubtract(86_400_000)
        let month = clock.now - Int64(Self.nightLimit) * 86_400_000
        let facts = try facts(of: session, from: hasNights ? min(month, earliest) : earliest, since: since)
        report.isIncomplete = facts.isIncomplete
        var events = facts.events
        events.close(now: clock.now, isWaiting: last?.state.isOpen == true)
        add(stored, events, since: since, to: &report)
        report.waits = events.waits.sorted { $0.from < $1.from }
        report.origins = events.origins.values.filter { $0.requests > 0 || $0.failed > 0 }.sorted {
            ($1.bytes, $0.origin) < ($0.bytes, $1.origin)
        }
        report.otherBytes = events.otherBytes
        report.directories = events.directories.values.sorted {
            // What is not listed by name comes last.
            guard $0.path != nil, $1.path != nil else { return $0.path != nil && $1.path == nil }
            return ($1.bytes, $1.files, $0.path ?? "") < ($0.bytes, $0.files, $1.path ?? "")
        }
        try addGroupsAndHooks(last, since: since, to: &report)
        report.problems = ProblemList(
            stored: stored, events: events, schedule: schedules[session.identifier], since: since, now: clock.now
        ).problems(of: report)
        if hasNights { report.nights = NightSums(clock: clock).nights(stored, events.work) }
        let judgement = Judgement(report: report, runs: stored, clock: clock)
        report.verdict = judgement.verdict
        report.headline = judgement.headline
        return report
    }

    private func facts(of session: StoredSession, from earliest: Int64, since: Int64) throws(StoreError) -> (
        events: EventFacts, isIncomplete: Bool
    ) {
        var facts = EventFacts(since: since)
        var seen = try store.sequence(before: earliest, of: session.identifier)
        // With nothing pruned everything is there; else what is older than the oldest event may be missing.
        var isIncomplete = false
        if session.prunedSequence > 0 {
            isIncomplete = try store.sequence(before: since, of: session.identifier) <= session.prunedSequence
        }
        while true {
            let page = try store.events(of: session.identifier, after: seen)
            for event in page.events { facts.take(event.line) }
            guard let last = page.events.last?.sequence else { return (facts, isIncomplete) }
            seen = last
        }
    }

    private func add(_ stored: [StoredRun], _ events: EventFacts, since: Int64, to report: inout SessionReport) {
        for run in stored {
            let work = WorkPieces.of(run, events.work).filter { $0.ended >= since }
            let isOfTheTime = !work.isEmpty || run.state.isOpen || run.created >= since || (run.finished ?? 0) >= since
            guard isOfTheTime else { continue }
            var entry = RunReport(stored: run)
            entry.isInterrupted = report.isInterrupted && run == stored.last
            entry.work = work
            for piece in work { entry.amounts += piece.amounts }
            report.amounts += entry.amounts
            report.runs.append(entry)
        }
    }

    private func addGroupsAndHooks(_ last: StoredRun?, since: Int64, to report: inout SessionReport) throws(StoreError)
    {
        guard let last else { return }
        if report.runs.contains(where: { $0.identifier == last.identifier }) {
            report.groups = try store.groups(of: last.identifier).filter { $0.name != RunRecipe.groupOfAll }
        }
        let runs = Set(report.runs.map(\.identifier))
        let waiting: Set<HookRunState> = [.pending, .running]
        for hook in try store.hooks(session: report.session, limit: 200).reversed() {
            let isOwed = waiting.contains(hook.state)
            let isOfTheTime = (hook.finished ?? hook.started ?? 0) >= since
            guard hook.attempt > 0 || isOwed, isOwed || isOfTheTime && runs.contains(hook.run) else { continue }
            report.hooks.append(HookEnd(hook))
        }
    }
}

/// What was done for runs, also for those whose events are gone.
enum WorkPieces {
    static func of(_ run: StoredRun, _ known: [String: [WorkPiece]]) -> [WorkPiece] {
        if let pieces = known[run.identifier] { return pieces }
        guard let started = run.started, let ended = run.finished ?? run.pausedAt else { return [] }
        var amounts = Amounts()
        amounts.installed = run.counts.files.installed
        amounts.reused = run.counts.files.reused
        amounts.removed = run.counts.files.removed
        amounts.failed = run.counts.files.failed
        amounts.received = run.counts.bytes.received
        amounts.reusedBytes = run.counts.bytes.reused
        amounts.requests = run.counts.requests
        amounts.elapsed = max(0, ended.saturatingSubtract(started))
        var piece = WorkPiece(ended: ended, amounts: amounts)
        if run.finished == nil { piece.stop = run.reason }
        return [piece]
    }
}

extension HookEnd {
    /// A hook as the store has it, without what secrets may be in.
    init(_ hook: StoredHook) {
        number = hook.identifier
        run = hook.run
        group = hook.group
        let first = hook.arguments.first ?? ""
        // The path of a webhook is often its secret.
        program = URLOrigin.of(first).map { "\($0)/…" } ?? (first.contains("://") ? redacted(url: first) : first)
        state = hook.state
        ended = hook.ended
        attempt = hook.attempt
        finished = hook.finished
        if let started = hook.started, let finished = hook.finished {
            elapsed = max(0, finished.saturatingSubtract(started))
        }
        if hook.state == .failed { output = hook.output.map { String($0.suffix(2_000)) } }
    }
}

package import SyncModel
package import SyncStore

/// Reads reports on sessions from the store; needs no agent and changes nothing.
package struct ReportReader: Sendable {
    /// A schedule's facts from outside the store. Times are in **milliseconds** since 1970.
    package struct Schedule: Sendable, Equatable {
        /// Its next run.
        package var next: Int64?
        /// When it was last due.
        package var lastDue: Int64?
        /// Its name; empty in ``ReportReader/schedules``.
        package var name = ""
        /// Its session, if known; it may have been removed since.
        package var session: String?
        /// When it last fired.
        package var fired: Int64?
        /// Absolute.
        package var destination = ""
        /// Why the last start failed; `nil` if it succeeded, there was none, or the session records it.
        package var failure: String?
        package var cause: FailureCause?
        package var failed: Int64?

        package init(next: Int64? = nil, lastDue: Int64? = nil) { (self.next, self.lastDue) = (next, lastDue) }
    }

    private let store: SyncStore
    let clock: ReportClock
    private let version: String
    package var host: String?
    /// By session.
    package var schedules: [String: Schedule] = [:]
    /// Schedules by themselves; reported if they could not start, or their session is not in the store.
    package var unmet: [Schedule] = []

    /// Most nights in a report.
    package static let nightLimit = 30

    /// - Parameter clock: The time of the report.
    package init(store: SyncStore, clock: ReportClock, version: String) {
        (self.store, self.clock, self.version) = (store, clock, version)
    }

    /// Reads the report.
    ///
    /// - Parameters:
    ///   - names: Only these; `nil` for all.
    ///   - hasNights: Whether ``SessionReport/nights`` are wanted; they require a month of events.
    /// - Throws: ``StoreError``; sessions that do not exist are omitted.
    package func report(of names: [String]? = nil, since: Int64, hasNights: Bool) throws(StoreError) -> MorningReport {
        var sessions: [SessionReport] = []
        for session in try store.sessions() where names?.contains(session.identifier) ?? true {
            sessions.append(try read(session, since: since, hasNights: hasNights))
        }
        if names == nil {
            let known = Set(sessions.map(\.session))
            // A session that runs without its schedule does not report that the schedule could not start.
            sessions += unmet.filter { $0.failure != nil || !known.contains($0.session ?? $0.name) }.map {
                unmet($0, since: since)
            }
        }
        return MorningReport(version: version, host: host, generated: clock.now, since: since, sessions: sessions)
    }

    private func unmet(_ unmet: Schedule, since: Int64) -> SessionReport {
        var report = SessionReport(session: unmet.name, project: "", destination: unmet.destination)
        report.next = unmet.next
        // cron fires at the beginning of the minute.
        let fired = (unmet.fired ?? .min).saturatingAdd(60_000)
        report.problems = [missed(unmet, since: since) { $0 <= fired }].compactMap(\.self)
        report.headline = report.problems.isEmpty ? "its schedule is new" : "its schedule has never run"
        if unmet.fired != nil { report.headline = "its session was removed; the next run makes another one" }
        if unmet.next == nil { report.headline = "its schedule is paused, or never due" }
        if let failure = unmet.failure {
            let problem = Problem(kind: unmet.cause ?? .other, detail: failure, time: unmet.failed ?? clock.now)
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
        report.lastSuccess = try store.lastSuccess(of: session.identifier)?.finished

        // So that a block of more than a day is found, too.
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
            // The unlisted directories come last.
            guard $0.path != nil, $1.path != nil else { return $0.path != nil && $1.path == nil }
            return ($1.bytes, $1.files, $0.path ?? "") < ($0.bytes, $0.files, $1.path ?? "")
        }
        try addGroupsAndHooks(last, since: since, to: &report)
        report.problems = problems(of: report, stored, events, since: since)
        if hasNights { report.nights = nights(stored, events.work) }
        report.verdict = report.judged(last)
        report.headline = report.headline(last, clock)
        return report
    }

    private func facts(of session: StoredSession, from earliest: Int64, since: Int64) throws(StoreError) -> (
        events: EventFacts, isIncomplete: Bool
    ) {
        var facts = EventFacts(since: since)
        let start = try store.sequence(before: earliest, of: session.identifier)
        // If nothing was pruned, everything is there; otherwise events before the oldest one may be missing.
        var isIncomplete = false
        if session.prunedSequence > 0 {
            isIncomplete = try store.sequence(before: since, of: session.identifier) <= session.prunedSequence
        }
        try store.scanEvents(of: session.identifier, after: start) { event in
            facts.take(event)
            return true
        }
        return (facts, isIncomplete)
    }

    private func add(_ stored: [StoredRun], _ events: EventFacts, since: Int64, to report: inout SessionReport) {
        for run in stored {
            let work = WorkPiece.of(run, events.work).filter { $0.ended >= since }
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
        report.hooks = try store.owedHooks(session: report.session)
        let owed = Set(report.hooks.map(\.identifier))
        for run in report.runs {
            report.hooks += try store.hooks(run: run.identifier, limit: 1_000).filter { hook in
                hook.attempt > 0 && (hook.finished ?? hook.started ?? 0) >= since && !owed.contains(hook.identifier)
            }
        }
        report.hooks.sort { $0.identifier < $1.identifier }
    }
}

extension ReportReader {
    /// The nights from the first one with work to this one, thirty at most; none if there was no work.
    private func nights(_ runs: [StoredRun], _ work: [String: [WorkPiece]]) -> [Night] {
        let tonight = clock.night(of: clock.now)
        let earliest = tonight - Int64(Self.nightLimit) + 1
        var nights: [Int64: Night] = [:]
        func add(_ night: Int64, _ change: (inout Night) -> Void) {
            let empty = Night(date: ReportClock.date(night: night), label: ReportClock.shortDate(night: night))
            change(&nights[night, default: empty])
        }
        for run in runs {
            // Work that continues past noon belongs to the night in which it ended.
            let pieces = WorkPiece.of(run, work).map { (night: clock.night(of: $0.ended), amounts: $0.amounts) }
            for piece in pieces { add(piece.night) { $0.amounts += piece.amounts } }
            let end = run.result == nil ? nil : run.finished.map(clock.night)
            if let end {
                add(end) { night in
                    night.result = [RunResult.failed, .partial, .ok].first { $0 == night.result || $0 == run.result }
                }
            }
            for night in Set(pieces.map(\.night) + [end].compactMap(\.self)) { add(night) { $0.runs += 1 } }
        }
        guard let first = nights.keys.filter({ $0 >= earliest && $0 <= tonight }).min(),
            let last = nights.keys.filter({ $0 <= tonight }).max()
        else { return [] }
        // From noon on, the coming night does not count as one without work before there is some.
        let end = max(last, clock.timeOfDay(clock.now) >= "12:00" ? tonight - 1 : tonight)
        for night in first...end { add(night) { _ in } }
        return (first...end).compactMap { nights[$0] }
    }
}

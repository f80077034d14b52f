import SyncFiles
import SyncManifest
import SyncModel
import SyncPlugins
import SyncStore

// A run's record: in the store before anything is fetched, and ended there before anything is reported.
extension PullRun {
    /// Starts the run or takes it over; from here on everything is recorded.
    mutating func enter(_ groups: [String]) throws(EngineError) {
        report.manifest = found.tally.value
        let former = try followed()
        let run: String
        if let recorded {
            run = try stored(environment.store.take(run: recorded.identifier, now: environment.now()).identifier)
            isTakenUp = recorded.started != nil
        } else {
            let prepared = PreparedRun(recipe: recipe, found: found, facts: facts, groups: groups)
            let started = try environment.begin(prepared, in: destination, isHeld: true)
            run = started.run.identifier
            isTakenUp = started.isContinued
        }
        if isTakenUp { try? environment.store.forgetTasks(of: run) }  // They are tried again.
        report.run = run
        journal = RunJournal(environment: environment, session: session, run: run)
        journal.open()
        journal.started(found, destination: destination.path, userData: facts.userData, recipe, former: former)
    }

    /// The session's previous request, if it followed another channel.
    private func followed() throws(EngineError) -> RunRecipe? {
        guard recipe.revision == nil else { return nil }
        let runs = try stored(environment.store.runs(session: session, limit: 3))
        let last = runs.first { $0.identifier != recorded?.identifier && ($0.result == .ok || $0.result == .partial) }?
            .recipe
        guard let last, last.revision == nil, last.channel != recipe.channel else { return nil }
        return last
    }

    /// Ends a run before its groups are complete: the error is recorded, and its hooks are not owed. If only its end
    /// could not be recorded, that is left to the next process.
    mutating func failed(_ error: EngineError) -> EngineError {
        var error = error.after(environment.stop.reason)
        error.isOnRecord = true
        guard !isSummarized else { return error }
        let isHere = report.files.installed + report.files.reused + report.files.unchanged > 0
        report.result = environment.stop.reason == .late && isHere ? .partial : .failed
        report.status = error.status
        do throws(EngineError) {
            if let reason = environment.stop.reason, reason != .late {
                try rest(reason, error: error)
            } else {
                try finish(error: error)
            }
        } catch {
            // The first error is the one that counts.
        }
        return error
    }

    /// Ends a run for which nothing changed: the manifest is not even decoded.
    mutating func finish(_ completion: StatIndex.Completion?, _ groups: [String]) throws(EngineError) -> PullReport {
        report.files.total = Int(clamping: completion?.files ?? 0)
        report.files.unchanged = report.files.total
        report.bytes.total = completion?.totalBytes ?? 0
        journal.planned(Plan(), total: report.files.total, unchanged: report.files.unchanged)
        count()
        let ends = groups.map { CompletedGroup(name: $0, result: .ok, changed: 0) }
        _ = try stored(journal.complete(ends, report))
        try finish()
        return report
    }

    mutating func conclude(_ manifest: Manifest, _ states: RowStates) throws(EngineError) -> PullReport {
        count(states)
        report.reason = report.reason ?? states.commonReason(of: manifest)
        report.directories = DirectoryCounts(manifest, states)
        let pending = states.count(.pending)
        let missing = report.files.failed + pending
        if missing > 0 || report.folders.failed > 0 {
            report.result = missing > 0 && report.files.total == missing ? .failed : .partial
            if report.status == .done { report.status = .incomplete }
        }
        if environment.stop.reason == .late, pending > 0 {
            let here = report.files.total - missing
            let what = "\(here) of \(report.files.total) files are in place; the next pull continues from there"
            throw .late(what, report.changed == 0 ? .unavailable : .incomplete)
        }
        if let reason = environment.stop.reason, pending > 0 {
            try rest(reason)
            return report
        }
        count()
        let haveHooksSucceeded = try completeGroups(manifest, states)
        if !haveHooksSucceeded, report.status == .done { report.status = .hookFailed }
        if let reason = environment.stop.reason, try isCutShort(by: reason, haveHooksSucceeded) {
            // A hook was stopped: whoever continues the run calls it again.
            try rest(reason)
        } else {
            try finish()
        }
        return report
    }

    /// Counts the results of the files so far.
    mutating func count(_ states: RowStates) {
        report.files.installed = states.count(.installed)
        report.files.reused = states.count(.reused)
        report.files.unchanged = states.count(.unchanged)
        report.files.failed = states.missing
    }

    /// Whether a stop cut a hook short, and so the run.
    private func isCutShort(by reason: StopReason, _ haveHooksSucceeded: Bool) throws(EngineError) -> Bool {
        if reason == .cancelled, !haveHooksSucceeded { return true }
        return try stored(environment.store.owedHooks(session: session).contains { $0.run == report.run })
    }

    /// Counts what was sent and received so far; hooks get this, too.
    mutating func count() {
        let totals = environment.transport.totals
        report.requests = totals.requests
        report.bytes.received = totals.bytesReceived
        report.elapsedMilliseconds = environment.now() - started
    }

    /// Records the end of the run.
    private mutating func finish(error: EngineError? = nil) throws(EngineError) {
        summarize(stopped: nil)
        try journal.finish(report, work: report, error: error)
    }

    /// Records that the run is stopped before its end.
    private mutating func rest(_ reason: StopReason, error: EngineError? = nil) throws(EngineError) {
        summarize(stopped: reason)
        journal.stopped(report, error: error?.message, reason)
        try journal.rest(reason, report)
    }

    /// Reports what this process did for the run.
    private mutating func summarize(stopped reason: StopReason?) {
        isSummarized = true
        count()
        let tasks = environment.live.tasks
        tasks?.end(reason)
        let (origins, rest) = environment.ledger.entries
        journal.summary(report, tasks: tasks?.steps, stopped: reason, origins: origins, otherBytes: rest)
    }
}

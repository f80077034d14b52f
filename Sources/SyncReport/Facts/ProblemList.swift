import SyncModel
import SyncStore

extension ReportReader {
    /// **Milliseconds** after which a scheduled run counts as missed: timers, jitter, a busy machine.
    private static let grace: Int64 = 3_600_000

    /// All problems since a given time, the worst first, with whether they still matter.
    ///
    /// - Parameter stored: The session's runs, oldest first.
    func problems(of report: SessionReport, _ stored: [StoredRun], _ events: EventFacts, since: Int64) -> [Problem] {
        // Problems from before the last success are over.
        let success = stored.last { $0.result == .ok }?.finished ?? .min
        var all = events.problems.map { problem in
            var problem = problem
            problem.isOver = problem.time < success
            return problem
        }
        // Many runs end with the same error, and many problems have the same text: each pair is compared once.
        let details = Set(all.map(\.detail))
        var told: [String: Bool] = [:]
        all += report.runs.compactMap { run in
            problem(of: run, success) { error in
                if let known = told[error] { return known }
                let isTold = details.contains { error.contains($0) }
                told[error] = isTold
                return isTold
            }
        }
        all += report.hooks.compactMap { problem(of: $0, in: report) }
        if let schedule = schedules[report.session] {
            let missed = missed(schedule, since: since) { due in
                stored.contains { $0.created >= due || ($0.finished ?? 0) >= due || $0.state.isOpen }
            }
            if let missed { all.append(missed) }
        }
        all = Self.merged(all)
        // Stable: sorted by time where weights are equal.
        return all.enumerated().sorted { a, b in
            let (left, right) = (Self.weight(a.element), Self.weight(b.element))
            return left == right ? a.offset < b.offset : left > right
        }.map(\.element)
    }

    /// Merges problems of several runs with the same words into the last one.
    private static func merged(_ all: [Problem]) -> [Problem] {
        var merged: [Problem] = []
        var places: [String: Int] = [:]
        for problem in all {
            let key = "\(problem.kind.rawValue)\n\(FailureSums.kind(of: problem.detail))"
            guard problem.files == 0, problem.hook == nil, let place = places[key] else {
                if problem.files == 0, problem.hook == nil { places[key] = merged.count }
                merged.append(problem)
                continue
            }
            let runs = merged[place].runs + problem.runs
            if problem.time >= merged[place].time { merged[place] = problem }
            merged[place].runs = runs
        }
        return merged
    }

    private static func weight(_ problem: Problem) -> Int {
        if problem.isOver { return -1 }
        if problem.hook != nil { return 0 }
        return problem.files == 0 ? .max : problem.files
    }

    private func problem(of run: RunReport, _ success: Int64, isTold: (String) -> Bool) -> Problem? {
        let time = run.finished ?? run.work.last?.ended ?? run.created
        func made(_ kind: FailureCause, _ detail: String) -> Problem {
            var problem = Problem(kind: kind, detail: detail, time: time)
            problem.isOver = time < success
            return problem
        }
        switch (run.state, run.reason) {
        case (.paused, .quarantined): return made(.lostWorker, "its process was lost repeatedly")
        case (.paused, .userStop): return made(.stoppedByPerson, "paused by a user")
        case (.paused, .terminalClosed):
            return made(.other, "it ended when its terminal closed; 'syncagent resume' continues it")
        // A block is reported with its waits.
        case (.waiting, .condition): return nil
        default: break
        }
        guard let error = run.error, run.state == .finished || run.state == .waiting else { return nil }
        // A summary of single failures is redundant.
        guard !isTold(error) else { return nil }
        return made(run.cause ?? .other, error)
    }

    private func problem(of hook: StoredHook, in report: SessionReport) -> Problem? {
        guard hook.hasFailed else { return nil }
        let name = hook.group == RunRecipe.groupOfAll ? "" : " of group \(hook.group)"
        let detail = "hook \(hook.identifier)\(name), \(hook.shownProgram): \(hook.ended ?? "failed")"
        let hasStarted = hook.ended?.hasPrefix(StoredHook.notStarted) != true
        let kind = hasStarted ? FailureCause.hookFailed : .hookNotStarted
        var problem = Problem(kind: kind, detail: detail, time: hook.finished ?? clock.now)
        problem.hook = hook.identifier
        // The same program has succeeded later for the same group. In the same run that is another hook, with other
        // arguments or for files.
        problem.isOver = report.hooks.contains {
            $0.state == .done && $0.arguments.first == hook.arguments.first && $0.group == hook.group
                && $0.run != hook.run && ($0.finished ?? 0) > (hook.finished ?? 0)
        }
        return problem
    }

    /// A scheduled run that did not take place.
    func missed(_ schedule: Schedule, since: Int64, hasRun: (_ due: Int64) -> Bool) -> Problem? {
        guard let due = schedule.lastDue, due >= since, due.saturatingAdd(Self.grace) < clock.now, !hasRun(due) else {
            return nil
        }
        return Problem(kind: .notRun, detail: "its schedule was due, but nothing has run since", time: due)
    }
}

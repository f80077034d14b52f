import SyncModel
import SyncStore

// The verdict on a session, and its headline.
extension SessionReport {
    /// The last run of the period that has ended.
    private var ended: RunReport? { runs.last { $0.result != nil } }

    private var openProblems: [Problem] { problems.filter { !$0.isOver } }

    /// - Parameter last: The session's latest run on record.
    func judged(_ last: StoredRun?) -> Verdict {
        let isOpen = last?.state.isOpen == true
        if !isOpen, ended?.result == .failed { return .failed }
        // A run in progress may fix what an earlier one lacked; problems that need a person count anyway.
        let serious = openProblems.filter { problem in !isOpen || problem.kind.needsPerson }
        if !serious.isEmpty || state == .paused { return .attention }
        if !isOpen, let result = ended?.result, result != .ok { return .attention }
        if isOpen { return .working }
        return runs.isEmpty ? .quiet : .ok
    }

    /// - Parameter last: The session's latest run on record.
    func headline(_ last: StoredRun?, _ clock: ReportClock) -> String {
        if let last, last.state.isOpen { return underWay(last, clock) }
        guard let ended else {
            if let last = runs.last { return RunReport.words(of: last.state) }
            guard let lastSuccess else { return "nothing has run" }
            let wasOn = "everything was in place on \(clock.moment(lastSuccess))"
            return problems.contains { $0.kind == .notRun }
                ? "did not run; \(wasOn)" : "nothing has run in this time; \(wasOn)"
        }
        // Why a person should look, in a few words, if there is a reason.
        let why = verdict.needsAttention ? reason(of: ended)?.words : nil
        let missing = ended.counts.files.failed
        switch ended.result {
        case .ok: return arrived + (why.map { "; \($0)" } ?? "")
        case .partial:
            let share = "\(Figures.grouped(missing)) of \(Figures.count(ended.counts.files.total, "file"))"
            let reason = why.map { " (\($0))" } ?? ""
            let lack = "\(share) \(missing == 1 ? "is" : "are") missing\(reason)"
            return amounts.placed > 0 ? "\(lack); \(arrived)" : lack
        case .failed, nil:
            let reason = why.map { ": \($0)" } ?? ""
            return missing > 0 && missing == ended.counts.files.total
                ? "none of \(Figures.count(missing, "file")) could be installed\(reason)" : "it failed\(reason)"
        }
    }

    /// The reason for the result of the last ended run: its own problem, not one of an earlier run. If the run is ok,
    /// any open problem.
    private func reason(of run: RunReport) -> Problem? {
        if run.result == .ok { return openProblems.first }
        let begin = run.started ?? run.created
        return openProblems.first { $0.time >= begin && $0.kind != .notRun }
    }

    private var arrived: String {
        amounts.placed == 0 && amounts.removed == 0 ? "nothing to fetch" : received
    }

    private var received: String {
        var parts: [String] = []
        if amounts.placed > 0 { parts.append("\(Figures.count(amounts.placed, "file")) put in place") }
        if amounts.removed > 0 { parts.append("\(Figures.count(amounts.removed, "file")) removed") }
        parts.append("\(ByteCount(amounts.received)) received")
        return parts.joined(separator: ", ")
    }

    private func underWay(_ run: StoredRun, _ clock: ReportClock) -> String {
        let sofar = amounts.received > 0 ? "; \(received) so far" : ""
        switch run.state {
        case .paused: return run.reason == .quarantined ? "set aside\(sofar)" : "paused\(sofar)"
        case .running:
            return isInterrupted
                ? "was interrupted (the next agent or pull continues it)\(sofar)" : "is running\(sofar)"
        default: break
        }
        if let block = waits.last(where: { $0.to == nil }) {
            let why = block.detail.isEmpty ? "" : " (\(block.detail))"
            return "blocked by \(block.cause.rawValue)\(why) since \(clock.moment(block.from))\(sofar)"
        }
        if runs.last?.work.last?.stop == .policy {
            return "stopped by its conditions, continues when they are met\(sofar)"
        }
        let until = until.map { ", not before \(clock.moment($0))" } ?? ""
        return "waiting to continue\(until)\(sofar)"
    }
}

extension FailureCause {
    /// A few words that follow the outcome.
    var words: String {
        switch self {
        case .notThere: "the server does not have all of them"
        case .access: "access was denied"
        case .serverTrouble: "the server was in trouble"
        case .unreachable: "the server could not be reached"
        case .trust: "the server could not be trusted"
        case .loginPage: "a login page came instead of files"
        case .signature: "its signature was not accepted"
        case .refusedRedirect: "a redirect was refused"
        case .wrongBytes: "wrong bytes arrived"
        case .diskFull: "the disk is full"
        case .noPermission: "permission was denied"
        case .diskTrouble: "the disk has errors"
        case .inTheWay: "something is in the way"
        case .pruneRefused: "the prune was refused"
        case .olderRevision: "the set is older than the installed one"
        case .held: "the newest revision was rolled back and is held"
        case .badManifest: "its manifest cannot be fetched or read"
        case .rejected: "a verifier refused files"
        case .cancelled: "a plugin cancelled requests"
        case .late: "the time ran out"
        case .lostWorker: "its process was lost"
        case .stoppedByPerson: "it was stopped by a user"
        case .busy: "another process was working there"
        case .hookFailed: "a hook failed"
        case .hookNotStarted: "a hook could not be started"
        case .notRun: "its schedule did not run"
        case .configuration: "the configuration is wrong"
        case .other: "see below"
        }
    }

    /// Whether waiting and retrying will not fix it.
    var needsPerson: Bool {
        switch self {
        case .serverTrouble, .unreachable, .late, .busy, .wrongBytes, .notThere, .held: false
        default: true
        }
    }
}

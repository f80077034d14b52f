import SyncModel
import SyncStore

extension MorningReport {
    /// The report for a terminal: sessions that need attention first, a few lines each without line feeds, external text
    /// escaped.
    ///
    /// - Parameter clock: The time and time zone of the report.
    package func lines(_ clock: ReportClock) -> [String] {
        let host = host.map { "\(escaped($0)): " } ?? ""
        let span = clock.span(since, generated)
        guard !sessions.isEmpty else { return ["\(host)no sessions; \(span)"] }
        let bytes = ByteCount(sessions.reduce(0) { $0.saturatingAdd($1.amounts.received) })
        var lines = ["\(host)\(summary); \(bytes) received; \(span)"]
        for session in sessions {
            // A quiet session is one line below the others.
            if session.verdict != .quiet || lines.count < 2 || session.verdict.needsAttention { lines.append("") }
            lines += session.lines(clock)
        }
        return lines
    }
}

extension SessionReport {
    private static let nameWidth = 10
    /// Most origins and problems that are listed.
    private static let listed = 4

    private static func mark(_ verdict: Verdict) -> String {
        switch verdict {
        case .failed: "FAILED     "
        case .attention: "ATTENTION  "
        case .working: "working    "
        case .ok: "ok         "
        case .quiet: "-          "
        }
    }

    fileprivate func lines(_ clock: ReportClock) -> [String] {
        let label = label.map { " (\(escaped($0)))" } ?? ""
        let next = next.map { [row("next", clock.moment($0))] } ?? []
        let first = "\(Self.mark(verdict))\(escaped(session))\(label): \(escaped(headline))"
        guard verdict != .quiet else { return [first] + next }
        let reused = reused.map { [row("reused", $0)] } ?? []
        let note = isIncomplete ? [row("note", "older events are no longer kept; details may be missing")] : []
        return [
            [first], problemLines, transferLines, originLines, reused, waitLines(clock), hookLines, runLines(clock),
            next,
            note,
        ].flatMap(\.self)
    }

    private func row(_ name: String, _ text: String) -> String {
        let space = String(repeating: " ", count: max(1, Self.nameWidth - name.count))
        return "           \(name)\(space)\(text)"
    }

    private var problemLines: [String] {
        let shown = problems.prefix(Self.listed)
        var lines: [String] = []
        for problem in shown {
            let name = problem.isOver ? "earlier" : lines.isEmpty ? "problem" : ""
            lines.append(row(name, escaped(problem.summary)))
            if problem.isOver { continue }
            if let paths = problem.paths { lines.append(row("", "  \(escaped(paths))")) }
            if let last = lastWords(problem) { lines.append(row("", "  \(last)")) }
            lines.append(row("", "-> \(problem.advice)"))
        }
        let more = problems.count - shown.count
        if more > 0 { lines.append(row("", "and \(Figures.count(more, "more problem")); --json lists them")) }
        return lines
    }

    /// The last line of a failed hook's output.
    private func lastWords(_ problem: Problem) -> String? {
        let hook = hooks.first { $0.identifier == problem.hook }
        let line = hook?.output?.suffix(2_000).split(separator: "\n").last { !$0.allSatisfy(\.isWhitespace) }
        return line.map { "it wrote: \(escaped(String($0.prefix(200))))" }
    }

    private var transferLines: [String] {
        guard amounts.placed > 0 || amounts.removed > 0 || amounts.received > 0 else { return [] }
        var parts: [String] = []
        if amounts.installed > 0 { parts.append("\(Figures.count(amounts.installed, "file")) fetched") }
        if amounts.reused > 0 { parts.append("\(Figures.grouped(amounts.reused)) built from local data") }
        if amounts.removed > 0 { parts.append("\(Figures.grouped(amounts.removed)) removed") }
        parts.append("\(ByteCount(amounts.received)) in \(Figures.count(amounts.requests, "request"))")
        let rate = rate.map { ", \($0)" } ?? ""
        var lines = [row("arrived", parts.joined(separator: ", ") + "; \(Figures.period(amounts.elapsed))\(rate)")]
        let named = directories.prefix(5).map { directory in
            let name = directory.path.map { $0 == "." ? "top level" : escaped($0) } ?? "others"
            return "\(name) \(Figures.grouped(directory.files)) (\(ByteCount(directory.bytes)))"
        }
        let more = directories.count > 5 ? ", \(directories.count - 5) more" : ""
        if !named.isEmpty { lines.append(row("into", named.joined(separator: ", ") + more)) }
        let groups = groups.filter { $0.changed > 0 || $0.result != .ok }.prefix(6).map { group in
            let result = group.result.map { $0 == .ok ? "" : ", \($0.rawValue)" } ?? ", not complete"
            return "\(escaped(group.name)) \(Figures.count(group.changed, "file"))\(result)"
        }
        if !groups.isEmpty { lines.append(row("groups", groups.joined(separator: "; "))) }
        return lines
    }

    private var originLines: [String] {
        let width = origins.prefix(Self.listed).map { escaped($0.origin).count }.max() ?? 0
        var lines: [String] = []
        for origin in origins.prefix(Self.listed) {
            let name = escaped(origin.origin)
            let space = String(repeating: " ", count: width - name.count + 2)
            var text = "\(name)\(space)\(ByteCount(origin.bytes)) in \(Figures.count(origin.requests, "request"))"
            if origin.failed > 0 { text += ", \(Figures.count(origin.failed, "transfer")) failed" }
            if !origin.via.isEmpty { text += ", redirected by \(origin.via.map(escaped).joined(separator: ", "))" }
            lines.append(row(lines.isEmpty ? "from" : "", text))
        }
        let more = origins.count - Self.listed
        if more > 0 { lines.append(row("", "and \(Figures.count(more, "more server"))")) }
        if otherBytes > 0 {
            // Their servers are unknown: with no server above, this begins the lines.
            let text = "\(ByteCount(otherBytes)) in transfers that were cut off"
            lines.append(row(lines.isEmpty ? "from" : "", text))
        }
        return lines
    }

    /// A line on reused data, or on why nothing had to be fetched.
    private var reused: String? {
        guard let last = runs.last(where: { $0.result != nil }) else {
            return amounts.reusedBytes > 0
                ? "\(ByteCount(amounts.reusedBytes)) from what was here" : nil
        }
        if amounts.placed == 0, last.result == .ok {
            let all = Figures.count(last.counts.files.total, "file")
            return "all of \(all) (\(ByteCount(last.counts.bytes.total))) match the manifest"
        }
        var parts: [String] = []
        if filesHere > 0 {
            parts.append(
                "\(Figures.grouped(filesHere)) of \(Figures.count(last.counts.files.total, "file")) were correct"
            )
        }
        if amounts.reusedBytes > 0 {
            parts.append("\(ByteCount(amounts.reusedBytes)) from older versions, other files and parts")
        }
        return parts.isEmpty ? nil : parts.joined(separator: "; ")
    }

    private func waitLines(_ clock: ReportClock) -> [String] {
        var lines: [String] = []
        for wait in waits.suffix(Self.listed + 1) {
            let detail = wait.detail.isEmpty ? "" : ": \(escaped(wait.detail))"
            let text: String
            switch wait.cause {
            case .connectivity:
                text = "for a server or the network, \(Figures.period(wait.elapsed)) in all\(detail)"
            case .retry:
                // Waits of a few seconds are not worth reporting.
                guard wait.elapsed >= 5_000 || wait.count >= 10 else { continue }
                text = "to try again, \(Figures.count(wait.count, "time"))\(detail)"
            default:
                let time = wait.to.map { clock.span(wait.from, $0) } ?? "since \(clock.moment(wait.from)), still"
                text = "for \(escaped(wait.cause.rawValue)), \(Figures.period(wait.elapsed)), \(time)\(detail)"
            }
            lines.append(row(lines.isEmpty ? "waited" : "", text))
        }
        return lines
    }

    private var hookLines: [String] {
        var lines: [String] = []
        for hook in hooks.suffix(Self.listed) {
            let group = hook.group == RunRecipe.groupOfAll ? "" : " (group \(escaped(hook.group)))"
            let words = hook.words(time: hook.elapsed.map { " in \(Figures.period($0))" } ?? "")
            let line = "\(escaped(hook.shownProgram))\(group): \(escaped(words))"
            lines.append(row(lines.isEmpty ? "hooks" : "", line))
        }
        return lines
    }

    /// Several runs, or several pieces of work on one: each with its time.
    private func runLines(_ clock: ReportClock) -> [String] {
        guard runs.count + runs.reduce(0, { $0 + max(0, $1.work.count - 1) }) > 1 else { return [] }
        let shown = entries.suffix(6)
        var lines = shown.enumerated().map { place, entry in
            let amount = entry.amounts.map { ", \(ByteCount($0.received))" } ?? ""
            // How long a killed process worked is not known.
            let elapsed = entry.amounts?.elapsed ?? 0
            let time = elapsed > 0 ? " in \(Figures.period(elapsed))" : ""
            return row(place == 0 ? "runs" : "", "\(clock.moment(entry.time))  \(entry.end)\(amount)\(time)")
        }
        let more = entries.count - shown.count
        if more > 0 { lines.append(row("", "and \(Figures.count(more, "earlier one"))")) }
        return lines
    }
}

// The ends of runs and pieces of work, in words.
extension SessionReport {
    /// Each piece of work, or a run without any: its beginning and its end, sorted by time.
    var entries: [(time: Int64, end: String, amounts: Amounts?)] {
        runs.flatMap { run -> [(time: Int64, end: String, amounts: Amounts?)] in
            if run.work.isEmpty { return [(run.started ?? run.created, run.end, nil)] }
            return run.work.map { ($0.began, $0.stop.map(RunReport.words) ?? run.end, $0.amounts) }
        }.sorted { $0.time < $1.time }
    }
}

extension RunReport {
    fileprivate static func words(_ reason: RestReason) -> String {
        switch reason {
        case .policy: "stopped by its conditions"
        case .userStop: "stopped by a person"
        case .terminalClosed: "ended when its terminal closed"
        case .agentRestart: "interrupted"
        case .userCancel: "cancelled"
        default: "stopped (\(escaped(reason.words)))"
        }
    }

    static func words(of state: RunState) -> String {
        switch state {
        case .superseded: "replaced by a newer run"
        case .waiting: "waiting to continue"
        case .finished, .cancelled, .paused, .running: state.rawValue
        }
    }

    fileprivate var end: String {
        if self.state == .running, isInterrupted { return "interrupted" }
        guard self.state == .finished else { return Self.words(of: self.state) }
        switch self.result {
        case .ok: return amounts.placed == 0 && amounts.removed == 0 ? "ok, nothing to fetch" : "ok"
        case .partial: return "incomplete"
        case .failed, nil: return "failed"
        }
    }
}

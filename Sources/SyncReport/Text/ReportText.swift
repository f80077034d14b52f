import SyncModel
import SyncStore

/// A report for a terminal: sessions that need attention first, a few lines each, external text escaped.
package struct ReportText: Sendable {
    private let report: MorningReport
    private let clock: ReportClock

    private static let nameWidth = 10
    /// Most origins and problems that are listed.
    private static let listed = 4

    /// - Parameters:
    ///   - report: The report.
    ///   - clock: The time and time zone of the report.
    package init(_ report: MorningReport, clock: ReportClock) {
        (self.report, self.clock) = (report, clock)
    }

    /// The lines, without line feeds.
    package var lines: [String] {
        let host = report.host.map { "\(escaped($0)): " } ?? ""
        let span = clock.span(report.since, report.generated)
        guard !report.sessions.isEmpty else { return ["\(host)no sessions; \(span)"] }
        let bytes = ByteCount(report.sessions.reduce(0) { $0.saturatingAdd($1.amounts.received) })
        var lines = ["\(host)\(report.summary); \(bytes) received; \(span)"]
        for session in report.sessions {
            // A quiet session is one line below the others.
            if session.verdict != .quiet || lines.count < 2 || session.verdict.needsAttention { lines.append("") }
            lines += self.lines(of: session)
        }
        return lines
    }

    private static func mark(_ verdict: Verdict) -> String {
        switch verdict {
        case .failed: "FAILED     "
        case .attention: "ATTENTION  "
        case .working: "working    "
        case .ok: "ok         "
        case .quiet: "-          "
        }
    }

    private func lines(of session: SessionReport) -> [String] {
        let label = session.label.map { " (\(escaped($0)))" } ?? ""
        var lines = ["\(Self.mark(session.verdict))\(escaped(session.session))\(label): \(escaped(session.headline))"]
        guard session.verdict != .quiet else {
            if let next = session.next { lines.append(row("next", clock.moment(next))) }
            return lines
        }
        lines += problems(session)
        lines += transferred(session)
        lines += from(session)
        if let reused = reused(session) { lines.append(row("reused", reused)) }
        lines += waits(session)
        lines += hooks(session)
        lines += runs(session)
        if let next = session.next { lines.append(row("next", clock.moment(next))) }
        if session.isIncomplete { lines.append(row("note", "older events are no longer kept; details may be missing")) }
        return lines
    }

    private func row(_ name: String, _ text: String) -> String {
        let space = String(repeating: " ", count: max(1, Self.nameWidth - name.count))
        return "           \(name)\(space)\(text)"
    }

    private func problems(_ session: SessionReport) -> [String] {
        let shown = session.problems.prefix(Self.listed)
        var lines: [String] = []
        for problem in shown {
            let name = problem.isOver ? "earlier" : lines.isEmpty ? "problem" : ""
            lines.append(row(name, escaped(problem.summary)))
            if problem.isOver { continue }
            if let paths = problem.paths { lines.append(row("", "  \(escaped(paths))")) }
            if let last = Self.lastWords(problem, session) { lines.append(row("", "  \(last)")) }
            lines.append(row("", "-> \(problem.advice)"))
        }
        let more = session.problems.count - shown.count
        if more > 0 { lines.append(row("", "and \(Figures.count(more, "more problem")); --json lists them")) }
        return lines
    }

    /// The last line of a failed hook's output.
    private static func lastWords(_ problem: Problem, _ session: SessionReport) -> String? {
        let hook = session.hooks.first { $0.identifier == problem.hook }
        let line = hook?.output?.suffix(2_000).split(separator: "\n").last { !$0.allSatisfy(\.isWhitespace) }
        return line.map { "it wrote: \(escaped(String($0.prefix(200))))" }
    }

    private func transferred(_ session: SessionReport) -> [String] {
        let amounts = session.amounts
        guard amounts.placed > 0 || amounts.removed > 0 || amounts.received > 0 else { return [] }
        var parts: [String] = []
        if amounts.installed > 0 { parts.append("\(Figures.count(amounts.installed, "file")) fetched") }
        if amounts.reused > 0 { parts.append("\(Figures.grouped(amounts.reused)) built from local data") }
        if amounts.removed > 0 { parts.append("\(Figures.grouped(amounts.removed)) removed") }
        parts.append("\(ByteCount(amounts.received)) in \(Figures.count(amounts.requests, "request"))")
        let rate = session.rate.map { ", \($0)" } ?? ""
        var lines = [row("arrived", parts.joined(separator: ", ") + "; \(Figures.period(amounts.elapsed))\(rate)")]
        let named = session.directories.prefix(5).map { directory in
            let name = directory.path.map { $0 == "." ? "top level" : escaped($0) } ?? "others"
            return "\(name) \(Figures.grouped(directory.files)) (\(ByteCount(directory.bytes)))"
        }
        let more = session.directories.count > 5 ? ", \(session.directories.count - 5) more" : ""
        if !named.isEmpty { lines.append(row("into", named.joined(separator: ", ") + more)) }
        let groups = session.groups.filter { $0.changed > 0 || $0.result != .ok }.prefix(6).map { group in
            let result = group.result.map { $0 == .ok ? "" : ", \($0.rawValue)" } ?? ", not complete"
            return "\(escaped(group.name)) \(Figures.count(group.changed, "file"))\(result)"
        }
        if !groups.isEmpty { lines.append(row("groups", groups.joined(separator: "; "))) }
        return lines
    }

    private func from(_ session: SessionReport) -> [String] {
        let width = session.origins.prefix(Self.listed).map { escaped($0.origin).count }.max() ?? 0
        var lines: [String] = []
        for origin in session.origins.prefix(Self.listed) {
            let name = escaped(origin.origin)
            let space = String(repeating: " ", count: width - name.count + 2)
            var text = "\(name)\(space)\(ByteCount(origin.bytes)) in \(Figures.count(origin.requests, "request"))"
            if origin.failed > 0 { text += ", \(Figures.count(origin.failed, "transfer")) failed" }
            if !origin.via.isEmpty { text += ", redirected by \(origin.via.map(escaped).joined(separator: ", "))" }
            lines.append(row(lines.isEmpty ? "from" : "", text))
        }
        let more = session.origins.count - Self.listed
        if more > 0 { lines.append(row("", "and \(Figures.count(more, "more server"))")) }
        if session.otherBytes > 0 {
            // Their servers are unknown: with no server above, this begins the lines.
            let text = "\(ByteCount(session.otherBytes)) in transfers that were cut off"
            lines.append(row(lines.isEmpty ? "from" : "", text))
        }
        return lines
    }

    /// A line on reused data, or on why nothing had to be fetched.
    private func reused(_ session: SessionReport) -> String? {
        guard let last = session.runs.last(where: { $0.result != nil }) else {
            return session.amounts.reusedBytes > 0
                ? "\(ByteCount(session.amounts.reusedBytes)) from what was here" : nil
        }
        if session.amounts.placed == 0, last.result == .ok {
            let all = Figures.count(last.counts.files.total, "file")
            return "all of \(all) (\(ByteCount(last.counts.bytes.total))) match the manifest"
        }
        var parts: [String] = []
        if session.filesHere > 0 {
            parts.append(
                "\(Figures.grouped(session.filesHere)) of \(Figures.count(last.counts.files.total, "file")) were correct"
            )
        }
        if session.amounts.reusedBytes > 0 {
            parts.append("\(ByteCount(session.amounts.reusedBytes)) from older versions, other files and parts")
        }
        return parts.isEmpty ? nil : parts.joined(separator: "; ")
    }

    private func waits(_ session: SessionReport) -> [String] {
        var lines: [String] = []
        for wait in session.waits.suffix(Self.listed + 1) {
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

    private func hooks(_ session: SessionReport) -> [String] {
        var lines: [String] = []
        for hook in session.hooks.suffix(Self.listed) {
            let group = hook.group == RunRecipe.groupOfAll ? "" : " (group \(escaped(hook.group)))"
            let words = hook.words(time: hook.elapsed.map { " in \(Figures.period($0))" } ?? "")
            let line = "\(escaped(hook.shownProgram))\(group): \(escaped(words))"
            lines.append(row(lines.isEmpty ? "hooks" : "", line))
        }
        return lines
    }

    /// Several runs, or several pieces of work on one: each with its time.
    private func runs(_ session: SessionReport) -> [String] {
        guard session.runs.count + session.runs.reduce(0, { $0 + max(0, $1.work.count - 1) }) > 1 else { return [] }
        let entries = session.entries
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

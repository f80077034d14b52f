import SyncAgent
import SyncModel
import SyncReport
import SyncSchedule

/// Sessions in words: what each does, and why and until when it waits. Pure, except for the time zone.
struct SessionText: Sendable {
    /// **Milliseconds** since 1970.
    let now: Int64
    /// Whether an agent answers. Without one, no waiting run starts.
    var hasAgent = true
    var zone = Zone.machine

    func table(_ sessions: [SessionStatus]) -> [String] {
        var rows = [["SESSION", "STATE", "FILES", "BYTES", ""]]
        for session in sessions {
            let run = session.run
            rows.append([
                escaped(session.session), state(of: session), run.map(files) ?? "-", run.map(bytes) ?? "-",
                why(session) ?? "",
            ])
        }
        return tableLines(rows)
    }

    func details(_ session: SessionStatus) -> [String] {
        var rows = [
            ["session", escaped(session.session)], ["project", escaped(session.project)],
            ["destination", escaped(session.destination)],
        ]
        if let label = session.label { rows.append(["label", escaped(label)]) }
        rows.append(["state", [state(of: session), why(session)].compactMap(\.self).joined(separator: ": ")])
        if let process = session.holder { rows.append(["worked on by", "process \(process)"]) }
        if let run = session.run { rows += details(run) }
        for held in session.held ?? [] {
            rows.append([
                "held",
                "\(held.name), rolled back \(moment(held.since)); 'syncagent rollback \(escaped(session.session)) --release' lets it come back",
            ])
        }
        if session.owedHooks > 0 { rows.append(["hooks owed", String(session.owedHooks)]) }
        if session.limiterDelaySeconds > 0 {
            rows.append([
                "limiter",
                "the next run that a hook requests waits \(Figures.period(session.limiterDelaySeconds.multipliedReportingOverflow(by: 1_000).partialValue))",
            ])
        }
        rows.append(["last event", String(session.lastSequence)])
        return tableLines(rows, width: nil)
    }

    private func details(_ run: RunStatus) -> [[String]] {
        var rows = [
            ["run", run.run],
            [
                "manifest",
                escaped(run.manifest) + (run.channel.map { ", channel \(escaped($0))" } ?? "")
                    + (run.revision.map { ", revision \($0)" } ?? ""),
            ], ["run's state", [run.state.rawValue, run.result?.rawValue].compactMap(\.self).joined(separator: ", ")],
            ["files", files(run) + counts(run)],
            [
                "bytes",
                "\(bytes(run)); \(ByteCount(run.bytes.received)) received in "
                    + Figures.count(run.requests, "request"),
            ], ["requested", moment(run.created)],
        ]
        if let source = run.source { rows.insert(["source", source.shown], at: 2) }
        if let bytes = run.expectedBytes { rows.append(["expected", ByteCount(bytes).description]) }
        if let umask = run.umask { rows.append(["umask", umask.description]) }
        if let started = run.started { rows.append(["started", moment(started)]) }
        if let finished = run.finished { rows.append(["finished", moment(finished)]) }
        if run.finished == nil, let deadline = run.deadline { rows.append(["deadline", moment(deadline)]) }
        if let error = run.error { rows.append(["last error", escaped(error)]) }
        // The first is shown with the state.
        for wait in run.waits.prefix(10).dropFirst() { rows.append(["also", escaped(wait)]) }
        return rows
    }

    private func counts(_ run: RunStatus) -> String {
        let parts = [
            ("installed", run.files.installed), ("unchanged", run.files.unchanged), ("reused", run.files.reused),
            ("removed", run.files.removed), ("failed", run.files.failed),
        ].filter { $0.1 > 0 }.map { "\(Figures.grouped($0.1)) \($0.0)" }
        return parts.isEmpty ? "" : ": " + parts.joined(separator: ", ")
    }

    /// The state of a session; an idle one shows the result of its last run.
    private func state(of session: SessionStatus) -> String {
        guard session.state == .idle, let run = session.run else { return session.state.rawValue }
        return run.result.map { "idle (\($0.rawValue))" } ?? "idle (\(run.state.rawValue))"
    }

    /// The files of the whole run, even if another process has done a part of it.
    private func files(_ run: RunStatus) -> String {
        let done = run.files.installed &+ run.files.unchanged &+ run.files.reused
        // The plan of a run that has just begun is recorded a little later.
        let planned = run.progress.map { $0.phase == .looking ? 0 : $0.filesTotal } ?? 0
        return "\(Figures.grouped(done))/\(Figures.grouped(max(run.files.total, planned)))"
    }

    private func bytes(_ run: RunStatus) -> String {
        guard let progress = run.progress, progress.phase != .looking else {
            return ByteCount(run.bytes.total).description
        }
        let total = max(run.bytes.total, progress.bytesTotal)
        let left = progress.bytesTotal - min(progress.bytesDone, progress.bytesTotal)
        return "\(ByteCount(total - left))/\(ByteCount(total))"
    }

    /// Why a session does not progress, or what is known about its progress; `nil` if there is nothing to report.
    func why(_ session: SessionStatus) -> String? {
        let name = escaped(session.session)
        let until = session.until.map { " until \(moment($0))" } ?? ""
        switch session.state {
        case .paused: return "\(pauseReason(session.reason)); 'syncagent resume \(name)' resumes it"
        case .waiting:
            if let block = block(of: session) { return block }
            if session.holder != nil, session.owedHooks > 0, session.reason == nil || session.reason == .agentRestart {
                // Its own, or one of the run before it.
                return "a hook is running"
            }
            let reason = waitReason(session.reason)
            if session.until == nil, !hasAgent, session.holder == nil {
                return "no agent is running; 'syncagent agent run' starts one"
            }
            let error = session.run?.error.map { " (\(escaped($0)))" } ?? ""
            return (reason ?? "waits for its turn") + until + error
        case .running:
            if session.holder == nil { return "its process is gone; the \(hasAgent ? "" : "next ")agent continues it" }
            if let progress = session.run?.progress, progress.phase == .looking,
                progress.filesDone < progress.filesTotal
            {
                return
                    "checking \(Figures.grouped(progress.filesDone)) of \(Figures.grouped(progress.filesTotal)) files that are here already"
            }
            if session.run?.progress?.phase == .waiting { return "complete, but not to be shown" + until }
            return session.run?.waits.first.map { escaped($0) + until }
        case .idle:
            if session.owedHooks > 0 {
                return session.owedHooks == 1 ? "a hook is owed" : "\(session.owedHooks) hooks are owed"
            }
            guard let failed = session.failedHooks, failed > 0 else { return nil }
            return (failed == 1 ? "a hook failed" : "\(failed) hooks failed")
                + "; 'syncagent hooks list \(name) --output' shows the output"
        }
    }

    /// The condition that blocks, since when, and the next check; `nil` if none blocks.
    private func block(of session: SessionStatus) -> String? {
        guard case .condition(let name)? = session.reason, let since = session.since else { return nil }
        let error = session.run?.error.map { ": \(escaped($0))" } ?? ""
        let until = session.until.map { "; next check \(moment($0))" } ?? ""
        return "blocked by \(escaped(name)) since \(moment(since))\(error)\(until)"
    }

    private func pauseReason(_ reason: RestReason?) -> String {
        switch reason {
        case nil: "not started yet, as requested"
        case .userStop: "stopped by you"
        case .terminalClosed: "ended when its terminal closed"
        case .quarantined: "its process was lost repeatedly"
        case let reason?: "stopped (\(escaped(reason.words)))"
        }
    }

    private func waitReason(_ reason: RestReason?) -> String? {
        switch reason {
        case nil: nil
        case .notBefore: "not to start"
        case .agentRestart: "continues when its turn comes"
        case .error: "waits after an error"
        case .state: "waits for the state directory"
        case .policy: "waits for its window"
        case let reason?: "waits (\(escaped(reason.words)))"
        }
    }

    /// `2026-11-20 02:00:00 (in 3 h 12 min)`, in local time.
    func moment(_ time: WallTime) -> String {
        let text = zone.clockTime(time.milliseconds)
        let distance = time.milliseconds.saturatingSubtract(now) / 1_000 * 1_000
        if distance > 0 { return "\(text) (in \(Figures.period(distance)))" }
        return distance == 0 ? text : "\(text) (\(Figures.period(-distance)) ago)"
    }
}

extension HeldRevision {
    /// The revision as shown to people.
    var name: String { revision > 0 ? "revision \(revision)" : String(manifestSha256.prefix(12)) }
}

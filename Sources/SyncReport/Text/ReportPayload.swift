package import SyncModel
import SyncStore

/// A report as one JSON object: the output of `report --json` and the body for a webhook.
///
/// Documentation/reference/Report.md describes it. It contains no output and no arguments of hooks: they could be
/// secrets.
extension MorningReport {
    /// The object on one line, without a line feed.
    package var json: JSONLine {
        JSONLine.object { line in
            line.field("report", 1)
            line.field("version", version)
            line.field("host", optional: host)
            line.time("generated", generated)
            line.time("since", since)
            line.field("needs_attention", needingAttention)
            if !warnings.isEmpty { line.field("warnings", warnings) }
            line.list("sessions", sessions) { Self.write($0, to: &$1) }
        }
    }

    private static func write(_ session: SessionReport, to line: inout JSONLine) {
        line.field("session", session.session)
        line.field("label", optional: session.label)
        line.field("project", session.project)
        line.field("destination", session.destination)
        line.field("verdict", session.verdict.word)
        line.field("headline", session.headline)
        line.field("state", session.state)
        line.field("is_interrupted", session.isInterrupted)
        line.field("reason", optional: session.reason)
        line.time("until", session.until)
        line.time("next", session.next)
        line.time("last_success", session.lastSuccess)
        if session.isIncomplete { line.field("is_incomplete", true) }
        write(session.amounts, to: &line)
        line.list("origins", session.origins) { origin, line in
            line.field("origin", origin.origin)
            line.field("requests", origin.requests)
            line.field("bytes", origin.bytes)
            line.field("transfers", origin.transfers)
            line.field("failed", origin.failed)
            guard !origin.via.isEmpty else { return }
            line.field("via", origin.via)
        }
        if session.otherBytes > 0 { line.field("other_bytes", session.otherBytes) }
        line.list("directories", session.directories) { directory, line in
            line.field("path", optional: directory.path)
            line.field("files", directory.files)
            line.field("bytes", directory.bytes)
        }
        line.list("groups", session.groups) { group, line in
            line.field("group", group.name)
            line.field("result", optional: group.result)
            line.field("changed", group.changed)
        }
        line.list("runs", session.runs) { write($0, to: &$1) }
        line.list("problems", session.problems) { problem, line in
            line.field("kind", problem.kind.rawValue)
            line.field("detail", problem.detail)
            line.field("files", problem.files)
            line.field("runs", problem.runs)
            line.field("examples", problem.examples)
            line.field("hook", optional: problem.hook)
            line.time("time", problem.time)
            line.field("is_over", problem.isOver)
            line.field("advice", problem.advice)
        }
        line.list("waits", session.waits) { wait, line in
            line.field("cause", wait.cause)
            line.field("detail", wait.detail)
            line.time("from", wait.from)
            line.time("to", wait.to)
            line.field("count", wait.count)
            line.field("elapsed_ms", wait.elapsed)
        }
        line.list("hooks", session.hooks) { hook, line in
            line.field("number", hook.identifier)
            line.field("run", hook.run)
            line.field("group", hook.group)
            line.field("program", hook.shownProgram)
            line.field("state", hook.state)
            line.field("ended", optional: hook.ended)
            line.field("attempt", hook.attempt)
            line.time("finished", hook.finished)
            line.field("elapsed_ms", optional: hook.elapsed)
        }
        line.list("nights", session.nights) { night, line in
            line.field("night", night.date)
            line.field("runs", night.runs)
            line.field("result", optional: night.isStopped ? "stopped" : night.result?.rawValue)
            write(night.amounts, to: &line)
        }
    }

    private static func write(_ run: RunReport, to line: inout JSONLine) {
        line.field("run", run.identifier)
        line.field("origin", run.recipe.origin)
        line.field("manifest", run.shownManifest)
        line.field("manifest_sha256", run.manifest.hex)
        line.field(run.facts.source)
        line.field("state", run.state)
        line.field("is_interrupted", run.isInterrupted)
        line.field("reason", optional: run.reason)
        line.field("result", optional: run.result)
        line.field("error", optional: run.error)
        line.field("exit_status", optional: run.exitStatus)
        line.time("created", run.created)
        line.time("started", run.started)
        line.time("finished", run.finished)
        line.field("files_total", run.counts.files.total)
        line.field("files_unchanged", run.counts.files.unchanged)
        line.field("bytes_total", run.counts.bytes.total)
        line.field("expected_bytes", optional: run.recipe.expectedBytes)
        line.json("user_data", run.facts.userData)
        write(run.amounts, to: &line)
        line.list("work", run.work) { piece, line in
            line.time("ended", piece.ended)
            line.field("stopped", optional: piece.stop)
            write(piece.amounts, to: &line)
        }
    }

    private static func write(_ amounts: Amounts, to line: inout JSONLine) {
        line.object("files") {
            $0.field("installed", amounts.installed)
            $0.field("reused", amounts.reused)
            $0.field("removed", amounts.removed)
            $0.field("failed", amounts.failed)
        }
        line.object("bytes") {
            $0.field("received", amounts.received)
            $0.field("reused", amounts.reusedBytes)
        }
        line.field("requests", amounts.requests)
        line.field("elapsed_ms", amounts.elapsed)
    }
}

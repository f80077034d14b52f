import ArgumentParser
import SyncAgent
import SyncAssembly
import SyncEngine
import SyncFiles
import SyncModel
import SyncSystem

struct RevisionsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revisions", abstract: "List the revisions that a destination keeps.",
        discussion: """
            For destinations that change as a whole ('syncagent pull --atomic'). The first line is the 'current' \
            revision, which readers see; then come former ones, the most recently shown first. A revision that was \
            rolled back is 'held': pulls do not bring it back.
            """)

    @OptionGroup var session: SessionArgument

    @OptionGroup(title: "Output") var reporting: ReportingOptions

    func run() async throws {
        let output = reporting.output()
        let (store, name) = try StateAccess(output: output).session(session.session)
        let call = EngineCall(reporting, on: output, .ofRevisions)
        let revisions = try await call.withEngine(store: store, keepsMetrics: false) { engine, _ in
            try engine.revisions(name)
        }
        if reporting.json {
            for revision in revisions { output.event(revision.json, flushing: true) }
            return
        }
        for line in KeptRevision.lines(of: revisions) { output.line(line) }
    }
}

struct RollbackCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rollback", abstract: "Show a former revision again, whole and at once.",
        discussion: """
            For destinations that change as a whole ('syncagent pull --atomic'). Nothing is fetched. The session's \
            hooks run with SYNCAGENT_ROLLBACK=1. The revision that readers saw until now is held: pulls and \
            schedules do not bring it back. The hold ends with a newer revision, or with --release.
            """)

    @OptionGroup var session: SessionArgument

    @Option(
        name: .customLong("to"),
        help:
            "The revision to show, or the first 4 or more digits of its manifest's SHA-256.  (default: the one before)"
            .taking("revision"))
    var revision: String?

    @Flag(help: "Only end the hold of revisions that were rolled back; what readers see stays the same.") var release =
        false

    @Flag(help: "Keep files in the destination that no pull has put there.") var keepForeign = false

    @OptionGroup(title: "Output") var reporting: ReportingOptions

    func validate() throws {
        if release, revision != nil { throw ValidationError("--release shows no revision; leave --to out.") }
    }

    func run() async throws {
        let (output, end) = (reporting.output(), PullEnd())
        let (store, name) = try StateAccess(output: output).session(session.session)
        let call = EngineCall(reporting, on: output, .ofRevisions, end: end)
        if release {
            let count = try await call.withEngine(store: store, keepsMetrics: false) { engine, _ in
                try engine.release(name)
            }
            if reporting.json {
                output.event(
                    JSONLine.object {
                        $0.field("session", name)
                        $0.field("released", count)
                    }, flushing: true)
            }
            return output.message(
                count == 0
                    ? "\(escaped(name)): no revision is held."
                    : "\(escaped(name)): \(Figures.count(count, "revision")) released.")
        }
        CurrentProcess.clearUmask()  // The recipe has one.
        do {
            let report = try await call.rollback(name, to: revision, keepForeign: keepForeign)
            output.message(PullCommand.summary(report))
            if report.status != .done { throw CommandFailure(report.status) }
            if reporting.json { end.write(nil, on: output) }
        } catch {
            if reporting.json { end.write(error, on: output) }
            throw error
        }
    }
}

extension EngineRequest {
    /// A request for work on existing revisions, which needs no server.
    fileprivate static var ofRevisions: EngineRequest {
        EngineRequest(deadline: .seconds(7 * 86_400), patience: .seconds(60), stop: StopRequest())
    }
}

extension KeptRevision {
    /// Revisions as a table.
    fileprivate static func lines(of revisions: [KeptRevision]) -> [String] {
        guard !revisions.isEmpty else { return ["No revision is kept yet."] }
        let head = ["REVISION", "STATE", "SHOWN", "FILES", "SIZE", "OWN", "HOOKS", "MANIFEST"]
        return tableLines(
            [head]
                + revisions.map { revision in
                    let tree = revision.tree
                    return [
                        tree.revision > 0 ? "\(tree.revision)" : "-", revision.state.rawValue,
                        tree.shown.map { timestamp(milliseconds: $0) } ?? "-",
                        Figures.grouped(tree.content?.files ?? 0),
                        "\(ByteCount(tree.content?.bytes ?? 0))", "\(ByteCount(revision.own))",
                        tree.isProven ? "ok" : tree.isBuilding ? "-" : "not ok",
                        tree.manifest.map { String($0.hex.prefix(12)) } ?? "-",
                    ]
                })
    }

    fileprivate var json: JSONLine {
        JSONLine.object { line in
            line.field("revision", tree.revision)
            line.field("state", state)
            line.field("manifest_sha256", optional: tree.manifest?.hex)
            line.field("tree", tree.number)
            line.field("path", path)
            line.field("files", tree.content?.files ?? 0)
            line.field("bytes", tree.content?.bytes ?? 0)
            line.field("own_bytes", own)
            line.field("shared_bytes", shared)
            line.time("shown", tree.shown)
            line.time("left", tree.left)
            line.field("hooks_succeeded", tree.isProven)
            line.field("run", optional: tree.content?.run)
        }
    }
}

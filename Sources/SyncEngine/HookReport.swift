import SyncManifest
import SyncModel
import SyncStore

/// What a hook gets on standard input: one JSON object with every file of its group and what became of it.
struct HookReport {
    let manifest: Manifest
    let report: PullReport
    let group: String
    let result: PullReport.Result
    let destination: String
    /// Files of the group that changed.
    let changed: Int
    private let states: RowStates
    private let rows: RowSelection?

    init(
        manifest: Manifest,
        states: RowStates,
        report: PullReport,
        group: String,
        result: PullReport.Result,
        destination: String
    ) {
        self.manifest = manifest
        self.report = report
        self.group = group
        self.result = result
        self.destination = destination
        self.states = states
        rows = manifest.groups.first { $0.name == group }.map { manifest.rows(of: $0) }
        let rows = rows
        changed =
            rows == nil
            ? report.changed
            : manifest.files.indices.count {
                rows?.contains($0) == true && (states[$0] == .installed || states[$0] == .reused)
            }
    }

    /// The report, UTF-8.
    var json: [UInt8] {
        JSONLine.object { line in
            line.field("format", "syncagent-report/1")
            line.field("project", manifest.project)
            line.field("revision", manifest.revision)
            line.field("manifest_sha256", manifest.digest.hex)
            line.field("group", group)
            line.field("group_result", result.rawValue)
            line.field("changed", changed)
            line.field("destination", destination)
            report.write(to: &line)
            line.key("entries")
            line.array { entries in
                for row in manifest.files.indices where rows?.contains(row) ?? true {
                    guard states[row] != .unselected else { continue }
                    entries.object { write(row, to: &$0) }
                }
            }
        }.bytes
    }

    /// The report of a hook that is called after a crash: the numbers as they were recorded, and no files, because
    /// what became of each is not.
    static func late(_ hook: StoredHook, _ run: StoredRun) -> [UInt8] {
        var report = PullReport(run.counts)
        report.session = run.session
        report.run = run.identifier
        report.result = PullReport.Result(rawValue: hook.result ?? "") ?? .partial
        return JSONLine.object { line in
            line.field("format", "syncagent-report/1")
            line.field("manifest_sha256", run.manifest.hex)
            line.field("group", hook.group)
            line.field("group_result", report.result.rawValue)
            line.field("changed", hook.changed)
            line.field("destination", hook.destination)
            report.write(to: &line)
            line.field("late", true)
        }.bytes
    }

    private func write(_ row: Int, to entry: inout JSONLine) {
        let files = manifest.files
        entry.field("path", files.path(row))
        entry.field("state", states[row].word)
        if files.kind(row) == .link {
            entry.field("link", files.linkTarget(row) ?? "")
        } else {
            entry.field("size", files.size(row))
            entry.field("sha256", files.digest(row).hex)
        }
        entry.field("reason", optional: states.reasons[row])
    }
}

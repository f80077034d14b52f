import SyncManifest
import SyncModel
import SyncStore

/// The report for a hook called after a crash, or once more: the recorded numbers. The result of each file is no longer
/// known.
struct LateReport {
    let hook: StoredHook
    let run: StoredRun

    /// For a hook with a single call: it names no files.
    var json: [UInt8] { JSONLine.object { write(nil, to: &$0) }.bytes }

    /// For a hook that gets files: those that it has not accepted.
    ///
    /// - Parameters:
    ///   - manifest: The run's, or the one that names what is there now.
    ///   - rows: The hook's files that are in place, ascending.
    ///   - size: Most files a call.
    func input(_ manifest: Manifest, _ rows: [Int], size: Int) -> HookInput {
        var input = HookInput(batchesOf: rows, size: size, isLate: true) { rows, batch in
            JSONLine.object { line in
                write(manifest, to: &line)
                line.field("batch", batch.number)
                line.field("batches", batch.count)
                line.list("entries", rows) { row, line in
                    HookReport.write(row, of: manifest.files, state: HookReport.present, to: &line)
                }
            }.bytes
        }
        if isOther(manifest) { input.otherManifest = manifest.digest.hex }
        return input
    }

    /// Whether the run's own manifest is no longer kept.
    private func isOther(_ manifest: Manifest) -> Bool { manifest.digest != run.manifest }

    private func write(_ manifest: Manifest?, to line: inout JSONLine) {
        let report = PullReport(run, hook.result ?? .partial)
        line.field("format", "syncagent-report/1")
        line.field("project", optional: manifest?.project)
        let other = manifest.flatMap { isOther($0) ? $0 : nil }
        if let manifest, let revision = run.facts.revision ?? (other == nil ? manifest.revision : nil) {
            line.field("revision", revision)
        }
        line.field("manifest_sha256", run.manifest.hex)
        line.field("entries_manifest_sha256", optional: other?.digest.hex)
        line.field("entries_revision", optional: other?.revision)
        let group = CompletedGroup(name: hook.group, result: report.result, changed: hook.changed)
        line.group(group, in: manifest, userData: run.facts.userData)
        line.field("destination", hook.destination)
        report.write(to: &line)
        line.field("late", true)
    }
}

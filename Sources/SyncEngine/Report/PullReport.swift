package import SyncModel
import SyncStore

/// The result of a pull: the last JSON line, and the standard input of hooks.
package struct PullReport: Sendable {
    /// The cost of finding the manifest: body **bytes** received for it and its parts; parts read, 0 for a manifest in one
    /// text and if nothing had to be read; parts fetched because they were not cached.
    package typealias ManifestCounts = (bytes: UInt64, parts: Int, partsFetched: Int)

    package var result = RunResult.ok
    package var session = ""
    package var run = ""
    package var files = FileCounts()
    package var bytes = ByteCounts()
    package var manifest: ManifestCounts = (0, 0, 0)
    /// The listing that the manifest was derived from; `nil` for one that was published.
    package var source: SourceOrigin?
    /// Every HTTP request sent.
    package var requests: UInt64 = 0
    /// The time of this process, without what ``waited`` has of it.
    package var elapsedMilliseconds: Int64 = 0
    /// As ``RunCounts/waited``: of all processes.
    var waited: Int64?
    /// The results of directories named by the manifest.
    package var folders = (made: 0, removed: 0, failed: 0)
    /// Files that were replaced although no pull had put them there in that form.
    package var replaced = 0
    /// Files that earlier pulls installed, that the manifest no longer names, and that are still there.
    package var obsolete = 0
    /// Files and directories that should have been removed and were not.
    package var notRemoved = 0
    /// The placed files, by directory.
    var directories: [(path: String?, files: Int, bytes: UInt64)] = []
    /// The exit status.
    package var status = ExitStatus.done
    /// Why files are missing, if all are for the same reason.
    var reason: String?

    package init() {}

    /// The report of a recorded run.
    init(_ recorded: StoredRun, _ result: RunResult) {
        (session, run, self.result) = (recorded.session, recorded.identifier, result)
        source = recorded.facts.source
        (files, bytes, requests) = (recorded.counts.files, recorded.counts.bytes, recorded.counts.requests)
        waited = recorded.counts.waited
    }

    /// The numbers as stored.
    var counts: RunCounts {
        var counts = RunCounts()
        (counts.files, counts.bytes, counts.requests, counts.waited) = (files, bytes, requests, waited)
        return counts
    }

    /// Files that changed: what hooks see as `SYNCAGENT_CHANGED`.
    package var changed: Int { files.installed + files.reused + files.removed }

    /// Why ``status`` is not ``ExitStatus/done``, if nothing more is known.
    var shortfall: String {
        switch status {
        case .incomplete where files.failed == 0 && folders.failed > 0,
            .ioError where files.failed == 0 && folders.failed > 0:
            (folders.failed == 1 ? "1 directory" : "\(folders.failed) directories") + " could not be made"
        case .ioError where files.failed == 0 && notRemoved > 0:
            (notRemoved == 1 ? "1 file or directory" : "\(notRemoved) files or directories") + " could not be removed"
        case .incomplete, .ioError, .refused, .unavailable:
            (files.failed == 1 ? "1 file" : "\(files.failed) files") + " could not be fetched"
                + (reason.map { ": \($0)" } ?? "")
        case .hookFailed: "the files are in place, and a hook failed"
        default: "it ended with exit status \(status.rawValue)"
        }
    }

    /// The report of a pull that first called the hooks that earlier runs owed: its exit status counts those, too.
    func counting(owedHooks haveSucceeded: Bool) -> PullReport {
        var report = self
        if !haveSucceeded, status == .done { report.status = .hookFailed }
        return report
    }

    /// The fields of `pull.finished`, in the contract's order.
    package func write(to line: inout JSONLine) {
        line.field("result", result.rawValue)
        // Unknown if the pull ended before its manifest was found.
        if !session.isEmpty { line.field("session", session) }
        if !run.isEmpty { line.field("run", run) }
        line.field(source)
        line.key("files")
        files.write(to: &line)
        line.key("bytes")
        bytes.write(to: &line)
        line.object("manifest") {
            $0.field("bytes", manifest.bytes)
            $0.field("parts", manifest.parts)
            $0.field("parts_fetched", manifest.partsFetched)
        }
        if folders != (0, 0, 0) {
            line.object("directories") {
                $0.field("made", folders.made)
                $0.field("removed", folders.removed)
                $0.field("failed", folders.failed)
            }
        }
        if replaced > 0 { line.field("replaced", replaced) }
        if obsolete > 0 { line.field("obsolete", obsolete) }
        line.field("requests", requests)
        line.field("elapsed_ms", elapsedMilliseconds)
    }
}

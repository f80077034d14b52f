package import SyncModel
import SyncStore

/// How a pull ended: the last JSON line, and what hooks get on standard input.
package struct PullReport: Sendable {
    /// What finding the manifest has cost.
    package struct ManifestCounts: Sendable {
        /// Body **bytes** received for it and its parts.
        package var bytes: UInt64 = 0
        /// Parts that were read; 0 for a manifest of one text, and when nothing had to be read.
        package var parts = 0
        /// Parts that were not here, and fetched.
        package var partsFetched = 0
        package init() {}
    }

    package var result = RunResult.ok
    package var session = ""
    package var run = ""
    package var files = FileCounts()
    package var bytes = ByteCounts()
    package var manifest = ManifestCounts()
    /// Every HTTP request sent.
    package var requests: UInt64 = 0
    package var elapsedMilliseconds: Int64 = 0
    /// What became of the directories that the manifest names.
    package struct FolderCounts: Sendable, Equatable {
        package var made = 0
        package var removed = 0
        package var failed = 0
    }

    package var folders = FolderCounts()
    /// Where files were put.
    var directories = DirectoryCounts()
    /// What the process should exit with.
    package var status = ExitStatus.done
    /// Why every file that is missing is, where that is one thing.
    var reason: String?

    package init() {}

    /// What is on record of a run.
    init(_ counts: RunCounts) {
        (files, bytes, requests) = (counts.files, counts.bytes, counts.requests)
    }

    /// The numbers, as the store keeps them.
    var counts: RunCounts {
        var counts = RunCounts()
        (counts.files, counts.bytes, counts.requests) = (files, bytes, requests)
        return counts
    }

    /// Files that changed: what hooks see as `SYNCAGENT_CHANGED`.
    package var changed: Int { files.installed + files.reused + files.removed }

    /// Why ``status`` is not ``ExitStatus/done``, where nothing more is known.
    var shortfall: String {
        switch status {
        case .incomplete where files.failed == 0 && folders.failed > 0:
            (folders.failed == 1 ? "1 directory" : "\(folders.failed) directories") + " could not be made"
        case .incomplete, .ioError, .refused, .unavailable:
            (files.failed == 1 ? "1 file" : "\(files.failed) files") + " could not be fetched"
                + (reason.map { ": \($0)" } ?? "")
        case .hookFailed: "the files are in place, and a hook failed"
        default: "it ended with exit status \(status.rawValue)"
        }
    }

    /// The fields of `pull.finished`, in the contract's order.
    package func write(to line: inout JSONLine) {
        line.field("result", result.rawValue)
        // Nobody knows them where it ended before its manifest came.
        if !session.isEmpty { line.field("session", session) }
        if !run.isEmpty { line.field("run", run) }
        line.key("files")
        files.write(to: &line)
        line.key("bytes")
        bytes.write(to: &line)
        line.key("manifest")
        line.object {
            $0.field("bytes", manifest.bytes)
            $0.field("parts", manifest.parts)
            $0.field("parts_fetched", manifest.partsFetched)
        }
        if folders != FolderCounts() {
            line.key("directories")
            line.object {
                $0.field("made", folders.made)
                $0.field("removed", folders.removed)
                $0.field("failed", folders.failed)
            }
        }
        line.field("requests", requests)
        line.field("elapsed_ms", elapsedMilliseconds)
    }
}

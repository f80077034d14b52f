package import SyncManifest
package import SyncModel
package import SyncTrust

/// The progress of a publish. Reported between pieces of about 1 MiB, not for each file.
package struct PublishProgress: Sendable, Equatable {
    package enum Step: String, Sendable {
        case checking, walking, sampling, training, reading, hashing, sending, finishing
    }

    package var step: Step
    /// Files read, or found while walking and sampling.
    package var files: Int
    /// Files in all; 0 while checking, walking, sampling and training.
    package var totalFiles = 0
    /// **Bytes** read.
    package var bytes: UInt64 = 0
    /// **Bytes** in all; of packs while checking and sending, of the samples while sampling and training; 0 while
    /// walking.
    package var totalBytes: UInt64 = 0
}

/// The result of a publish, or of its preview, which writes no packs and no manifest, but has ``changes``.
package struct PublishReport: Sendable, Equatable {
    package var project = ""
    package var revision: UInt64 = 0
    /// Whether the channel pointed at exactly the same manifest already, which was left as it is.
    package var unchanged = false
    package var files = 0
    package var links = 0
    /// Directories named by the manifest: empty ones, or all of them.
    package var directories = 0
    /// Whether files stay as they are, without packs.
    package var isLoose = false
    /// Descriptions of the choices taken from the base.
    package var kept: [String] = []
    /// Entries that a pattern excluded; a directory counts once.
    package var excluded = 0
    /// Names that were left out although no pattern says so, such as `.git`.
    package var usuallyLeftOut: [String] = []
    /// Files that look unchanged since the last publish and were not read.
    package var unreadFiles = 0
    /// **Bytes** of all files.
    package var rawBytes: UInt64 = 0
    /// **Bytes** of all files, with identical content and chunks counted once.
    package var uniqueBytes: UInt64 = 0
    /// Stored **bytes** that this manifest needs.
    package var storedBytes: UInt64 = 0
    /// **Bytes** of blobs written to new packs.
    package var newBytes: UInt64 = 0
    /// Deltas named by this manifest, and **bytes** of new ones.
    package var deltas = 0
    package var deltaBytes: UInt64 = 0
    /// **Bytes** compressed to find out whether a dictionary pays.
    package var trialBytes: UInt64 = 0
    /// **Bytes** of a new dictionary, as stored; and what the dictionary saves on new blobs.
    package var dictionaryBytes: UInt64 = 0
    package var savedBytes: UInt64 = 0
    package var packsWritten = 0
    /// Packs that existed already.
    package var packsReused = 0
    /// Packs of the base that this manifest no longer names.
    package var packsDropped = 0
    /// Unneeded **bytes** in the packs that this manifest names.
    package var deadBytes: UInt64 = 0
    /// Those of ``newBytes`` that were moved from mostly unused packs, in **bytes**.
    package var movedBytes: UInt64 = 0
    /// What the prune of old releases did; `nil` where all are kept.
    package var pruned: Prune.Report?
    /// Whether `--repack` would rewrite a pack.
    package var repackPays = false
    /// Parts of the manifest, 0 if it is one text; those written by this run, and their **bytes** in packs.
    package var parts = 0
    package var partsWritten = 0
    package var partBytes: UInt64 = 0
    /// Length of `manifest.json` in **bytes**.
    package var manifestBytes: UInt64 = 0
    /// Length of `manifest.json.zst` in **bytes**.
    package var compressedManifestBytes: UInt64 = 0
    /// SHA-256 of `manifest.json`.
    package var manifestDigest: SHA256Digest?
    /// The channel that points at it; `nil` for the default one.
    package var channel: String?
    /// The statement that this is the newest; `nil` if unsigned.
    package var fresh: FreshStatement?
    /// The most **bytes** of pooled buffers in use at once.
    package var bufferBytes = 0
    /// The base's revision; `nil` without a base.
    package var baseRevision: UInt64?
    /// **Bytes** that would be compressed: content not in the base's packs, each counted once.
    package var encodedBytes: UInt64 = 0
    /// Files and links by how they would change against the base.
    package var counts: [Change.Kind: Int] = [:]
    /// Files and links that would differ from the base, in path order, and then directories; with
    /// ``PublishOptions/listsUnchanged`` also files and links that would not differ.
    package var changes: [Change] = []
    /// The piece of the work that was done; `nil` for all of it.
    package var shards: ShardWork?
    /// One line each, safe for a terminal.
    package var warnings: [String] = []

    /// How one file or link would change.
    package struct Change: Sendable, Equatable {
        package enum Kind: String, Sendable, CaseIterable { case new, changed, unchanged, removed }

        package let kind: Kind
        package let path: String
        /// **Bytes**; 0 for links; for removed files their former size.
        package let size: UInt64

        /// One line of `publish --dry-run --json -v`.
        package func json(time: String) -> JSONLine {
            JSONLine.event(.publishFile) { line in
                line.field("time", time)
                line.field("path", path)
                line.field("change", kind.rawValue)
                line.field("size", size)
            }
        }
    }

    package init() {}

    /// The last line of `publish --json`, or of a dry run; `elapsed` in **milliseconds**.
    ///
    /// - Parameter failure: The exit status of the process, and the reason; `nil` when all went well.
    package func json(
        isDryRun: Bool, time: String, elapsed: Int64, failure: (status: Int32, message: String)? = nil
    ) -> JSONLine {
        JSONLine.event(isDryRun ? .publishPlanned : .publishFinished) { line in
            line.field("time", time)
            line.result(failure)
            line.field("project", project)
            line.field("revision", revision)
            if isDryRun { line.field("base_revision", optional: baseRevision) }
            line.field("channel", optional: channel)
            if case .shard(let shard) = shards { line.field("shard", shard.number) }
            line.field("shards", optional: shards?.count)
            line.field("unchanged", unchanged)
            line.field("files", files)
            line.field("links", links)
            line.field("directories", directories)
            line.field("excluded", excluded)
            line.field("loose", isLoose)
            line.field("kept", kept)
            line.field("unread", unreadFiles)
            if isDryRun { writeChanges(to: &line) } else { writePacks(to: &line) }
            line.field("warnings", warnings)
            line.field("elapsed_ms", elapsed)
        }
    }

    private func writeChanges(to line: inout JSONLine) {
        line.object("changes") { line in
            for kind in Change.Kind.allCases { line.field(kind.rawValue, counts[kind] ?? 0) }
        }
        line.object("bytes") { line in
            line.field("raw", rawBytes)
            line.field("encoded", encodedBytes)
        }
    }

    private func writePacks(to line: inout JSONLine) {
        line.object("bytes") { bytes in
            bytes.field("raw", rawBytes)
            bytes.field("unique", uniqueBytes)
            bytes.field("stored", storedBytes)
            bytes.field("new", newBytes)
            bytes.field("moved", movedBytes)
            bytes.field("deltas", deltaBytes)
            bytes.field("dead", deadBytes)
            bytes.field("dictionary", dictionaryBytes)
            bytes.field("saved_by_dictionary", savedBytes)
            bytes.field("tried_for_dictionary", trialBytes)
            bytes.field("manifest", manifestBytes)
            bytes.field("manifest_zst", compressedManifestBytes)
        }
        if let fresh {
            line.object("signed") { line in
                line.field("root", fresh.root)
                line.field("serial", fresh.serial)
                line.time("until", fresh.until)
            }
        }
        line.object("packs") { packs in
            packs.field("written", packsWritten)
            packs.field("reused", packsReused)
            packs.field("dropped", packsDropped)
        }
        line.object("parts") { line in
            line.field("total", parts)
            line.field("written", partsWritten)
            line.field("bytes", partBytes)
        }
        line.field("deltas", deltas)
        line.field("repack_pays", repackPays)
        if let pruned { line.object("removed") { pruned.removed.write(to: &$0) } }
        line.field("manifest_sha256", optional: manifestDigest?.hex)
    }
}

extension JSONLine {
    /// `result`, and `error` after a failure.
    fileprivate mutating func result(_ failure: (status: Int32, message: String)?) {
        field("result", failure == nil ? "ok" : "failed")
        guard let failure else { return }
        object("error") { line in
            line.field("status", failure.status)
            line.field("message", failure.message)
        }
    }
}

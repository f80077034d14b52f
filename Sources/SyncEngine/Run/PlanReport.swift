import SyncManifest
package import SyncModel
package import SyncPlugins
import SyncSystem

/// What a pull would fetch, in which requests, and why: the answer of `syncagent plan`.
package struct PlanReport: Sendable {
    package let project: String
    package let revision: UInt64
    package let destination: String
    /// Files and links in the selection.
    package let files: Int
    /// Already here and right.
    package let unchanged: Int
    /// To be fetched or made.
    package let wanted: Int
    /// Files of these that take the place of something that no pull has put there as it is.
    package var replaced = 0
    /// Missing directories named by the manifest.
    package var missingDirectories = 0
    /// Directories that `--prune` would remove, where nothing else is in them.
    package var prunableDirectories = 0
    /// Places that cannot be used, each with a reason.
    package let obstructed: [String]
    /// Files that `--prune` would remove.
    package let prunable: Int
    /// Whether `--prune` was given.
    package let prunes: Bool
    /// Why a pull that prunes would be refused; `nil` when it would not, or does not prune.
    package let pruneRefusal: String?
    /// What a pull would end with before it fetched anything; `nil` when it would not.
    package let refusal: EngineError?
    /// **Bytes** of all files, and of those already here.
    package let totalBytes, unchangedBytes: UInt64
    /// **Bytes** of wanted files that older versions and other files here have.
    package let reusedBytes: UInt64
    /// **Bytes** left by an interrupted pull: what is wanted of them is not fetched, although the plan includes it.
    package let leftoverBytes: UInt64
    /// The part of ``packBytes`` that is deltas against local older versions.
    package let deltaBytes: UInt64
    /// **Bytes** of the dictionary, if blobs need it and it is not cached; not included in ``packBytes``.
    package let dictionaryBytes: UInt64
    /// Stored **bytes** wanted from packs, **bytes** of loose files, and **bytes** between blobs.
    package let packBytes, looseBytes, gapBytes: UInt64
    package let packRequests, looseRequests: Int
    /// Requests saved against one request per file.
    package let requestsAvoided: Int
    /// Requests made for this report.
    package let manifestRequests: UInt64
    /// Requests of the pull: the fewest, and the most to be expected where no server redirects or fails. Long ones are cut
    /// once more at their end, so that all connections end together.
    package let requestCount: ClosedRange<UInt64>
    /// Each request, in order.
    package let requests: [Request]
    /// Where the manifest came from; `nil` for a local one.
    package var referrer: TransferRequest.Referrer?

    package struct Request: Sendable {
        /// A pack's URL or a file's, as the manifest has it, redacted.
        package var url: String
        /// All of them, as the manifest has them: for requests, not for people.
        package var sources: [String]
        /// The whole object's **bytes**.
        package var size: UInt64
        /// **Bytes** of the object.
        package var range: Range<UInt64>
        /// Files or chunks it brings.
        package var blobs: Int
        /// **Bytes** in it that are not wanted.
        package var gapBytes: UInt64
    }
}

extension PlanReport.Request {
    init(_ span: Plan.Span, of plan: Plan, _ manifest: Manifest) {
        (sources, size) =
            switch span.source {
            case .pack(let pack): (manifest.packs[pack].urls, manifest.packs[pack].size)
            case .loose(let row): (manifest.files.urls(row), manifest.files.size(row))
            }
        url = redacted(url: sources.first ?? "")
        range = span.range
        blobs = span.slots.count
        gapBytes = span.range.length &- span.slots.reduce(UInt64(0)) { $0 &+ plan.slots[$1].range.length }
    }
}

extension PlanReport {
    /// The requests of a pull that makes `before` for the manifest and the dictionary.
    static func requestCount(_ plan: Plan, before: UInt64, least: UInt64?) -> ClosedRange<UInt64> {
        let planned = before &+ UInt64(plan.spans.count)
        let cuts = plan.spans.reduce(UInt64(0)) { $0 &+ Self.cuts($1.range.length) }
        let least = least ?? planned
        return least...max(least, planned &+ min(cuts, mostCuts))
    }

    /// How often a request of this many **bytes** can be cut into pieces of at least half a mebibyte.
    private static func cuts(_ bytes: UInt64) -> UInt64 { bytes < 1 << 20 ? 0 : bytes >> 19 &- 1 }

    /// All cuts together: sixteen connections, and each cut halves the rest.
    private static let mostCuts: UInt64 = 64

    /// The exit status of the pull, as far as it can be known.
    package var status: ExitStatus { refusal?.status ?? (obstructed.isEmpty ? .done : .incomplete) }

    /// The fields of the `plan` event.
    package func write(to line: inout JSONLine) {
        line.field("project", project)
        line.field("revision", revision)
        line.field("destination", destination)
        line.field("files", files)
        line.field("unchanged", unchanged)
        line.field("wanted", wanted)
        if replaced > 0 { line.field("replaced", replaced) }
        if missingDirectories > 0 { line.field("directories", missingDirectories) }
        line.field("prunable", prunable)
        if prunableDirectories > 0 { line.field("prunable_directories", prunableDirectories) }
        line.field("prune_refused", optional: pruneRefusal)
        if let refusal {
            line.object("refused") {
                $0.field("status", refusal.status.rawValue)
                $0.field("message", refusal.message)
            }
        }
        line.object("bytes") {
            $0.field("total", totalBytes)
            $0.field("unchanged", unchangedBytes)
            $0.field("reused", reusedBytes)
            $0.field("leftover", leftoverBytes)
            $0.field("packs", packBytes)
            $0.field("deltas", deltaBytes)
            $0.field("dictionary", dictionaryBytes)
            $0.field("loose", looseBytes)
            $0.field("gaps", gapBytes)
        }
        line.object("requests") {
            $0.field("least", requestCount.lowerBound)
            $0.field("most", requestCount.upperBound)
            $0.field("manifest", manifestRequests)
            $0.field("dictionary", dictionaryBytes > 0 ? 1 : 0)
            $0.field("packs", packRequests)
            $0.field("loose", looseRequests)
            $0.field("avoided", requestsAvoided)
        }
        line.list("spans", requests) { request, line in
            line.field("url", request.url)
            line.field("first", request.range.lowerBound)
            line.field("end", request.range.upperBound)
            line.field("blobs", request.blobs)
            line.field("gap_bytes", request.gapBytes)
        }
        if !obstructed.isEmpty { line.field("obstructed", obstructed) }
    }
}

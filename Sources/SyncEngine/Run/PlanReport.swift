import SyncManifest
package import SyncModel
import SyncPlanner
package import SyncPlugins

/// What a pull would fetch, in which requests, and why: the answer of `syncagent plan`.
package struct PlanReport: Sendable {
    package let project: String
    package let revision: UInt64
    package let destination: String
    /// Files and links the selection names.
    package let files: Int
    /// Already here and right.
    package let unchanged: Int
    /// To be fetched or made.
    package let wanted: Int
    /// Places that cannot be used, each with a reason.
    package let obstructed: [String]
    /// Files that `--prune` would remove.
    package let prunable: Int
    /// Why a pull that prunes would be refused; `nil` when it would not, or does not prune.
    package let pruneRefusal: String?
    /// **Bytes** of all files, and of those already here.
    package let totalBytes, unchangedBytes: UInt64
    /// **Bytes** of wanted files that older versions and other files here have.
    package let reusedBytes: UInt64
    /// Those of ``packBytes`` that are deltas against older versions here.
    package let deltaBytes: UInt64
    /// **Bytes** of the dictionary, when blobs need it and it is not here; not among ``packBytes``.
    package let dictionaryBytes: UInt64
    /// Stored **bytes** wanted from packs, **bytes** of loose files, and **bytes** between blobs.
    package let packBytes, looseBytes, gapBytes: UInt64
    package let packRequests, looseRequests: Int
    /// Requests that one request a file would cost more.
    package let requestsAvoided: Int
    /// Requests this report cost.
    package let manifestRequests: UInt64
    /// Each request, in order.
    package let requests: [Request]
    /// For what the manifest names; `nil` for one of this machine.
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
        /// **Bytes** in it that nobody wants.
        package var gapBytes: UInt64
    }
}

extension PlanReport {
    init(
        manifest: Manifest,
        rows: [Int],
        inventory: Inventory,
        plan: Plan,
        reusedBytes: UInt64,
        destination: String,
        prunable: Int,
        pruneRefusal: String? = nil,
        isDictionaryHere: Bool,
        manifestRequests: UInt64,
        referrer: TransferRequest.Referrer?
    ) {
        project = manifest.project
        self.referrer = referrer
        revision = manifest.revision
        self.destination = destination
        files = rows.count
        unchanged = inventory.records.count
        wanted = inventory.wanted.count
        obstructed = inventory.obstructed.map { "\($0.error)" }
        self.prunable = prunable
        self.pruneRefusal = pruneRefusal
        totalBytes = rows.reduce(UInt64(0)) { $0 &+ manifest.files.size($1) }
        unchangedBytes = rows.reduce(UInt64(0)) {
            !inventory.records.has($1) ? $0 : $0 &+ manifest.files.size($1)
        }
        self.reusedBytes = reusedBytes
        deltaBytes = plan.deltaBytes
        let needsDictionary = !isDictionaryHere && plan.slots.contains { $0.codec == .zstdDictionary }
        dictionaryBytes = needsDictionary ? manifest.dictionary?.blob.storedLength ?? 0 : 0
        packBytes = plan.packBytes
        looseBytes = plan.looseBytes
        gapBytes = plan.gapBytes
        looseRequests = plan.loose.count
        packRequests = plan.spans.count - plan.loose.count
        requestsAvoided = plan.requestsAvoided
        self.manifestRequests = manifestRequests
        requests = plan.spans.map { span in
            let (urls, size) =
                switch span.source {
                case .pack(let pack): (manifest.packs[pack].urls, manifest.packs[pack].size)
                case .loose(let row): (manifest.files.urls(row), manifest.files.size(row))
                }
            let wanted = span.slots.reduce(UInt64(0)) { $0 &+ plan.slots[$1].range.length }
            return Request(
                url: redacted(url: urls.first ?? ""),
                sources: urls,
                size: size,
                range: span.range,
                blobs: span.slots.count,
                gapBytes: span.range.length &- wanted
            )
        }
    }

    /// The fields of the `plan` event.
    package func write(to line: inout JSONLine) {
        line.field("project", project)
        line.field("revision", revision)
        line.field("destination", destination)
        line.field("files", files)
        line.field("unchanged", unchanged)
        line.field("wanted", wanted)
        line.field("prunable", prunable)
        line.field("prune_refused", optional: pruneRefusal)
        line.key("bytes")
        line.object {
            $0.field("total", totalBytes)
            $0.field("unchanged", unchangedBytes)
            $0.field("reused", reusedBytes)
            $0.field("packs", packBytes)
            $0.field("deltas", deltaBytes)
            $0.field("dictionary", dictionaryBytes)
            $0.field("loose", looseBytes)
            $0.field("gaps", gapBytes)
        }
        line.key("requests")
        line.object {
            $0.field("packs", packRequests)
            $0.field("loose", looseRequests)
            $0.field("avoided", requestsAvoided)
        }
        line.key("spans")
        line.array { spans in
            for request in requests {
                spans.object {
                    $0.field("url", request.url)
                    $0.field("first", request.range.lowerBound)
                    $0.field("end", request.range.upperBound)
                    $0.field("blobs", request.blobs)
                    $0.field("gap_bytes", request.gapBytes)
                }
            }
        }
        if !obstructed.isEmpty {
            line.key("obstructed")
            line.array { for reason in obstructed { $0.value(reason) } }
        }
    }
}

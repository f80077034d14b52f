package import SyncManifest
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
    /// Files and links already in place and right.
    package let unchanged: Int
    /// Files and links to fetch or make.
    package let wanted: Int
    /// Wanted files that replace something that no pull has installed in its present form.
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
    /// The error that would end a pull before it fetched anything; `nil` if there is none.
    package let refusal: EngineError?
    /// **Bytes** of all files, and of those already here.
    package let totalBytes, unchangedBytes: UInt64
    /// **Bytes** of wanted files that older versions and other local files provide.
    package let reusedBytes: UInt64
    /// **Bytes** left by an interrupted pull. The plan includes them, but the pull does not fetch the wanted ones
    /// again.
    package let leftoverBytes: UInt64
    /// **Bytes** of the dictionary, if blobs need it and it is not cached; not included in ``fetch``.
    package let dictionaryBytes: UInt64
    /// The blobs and files to fetch, by request.
    package let fetch: Plan
    /// Requests made for this report.
    package let manifestRequests: UInt64
    /// Requests of the pull: the fewest, and the most to expect if no server redirects or fails. Long requests are
    /// split once more at their end, so that all connections finish together.
    package let requestCount: ClosedRange<UInt64>
    /// Each request, in order.
    package let requests: [Request]
    /// The listing that the manifest was derived from; `nil` for one that was published.
    package var source: SourceOrigin?
    /// Files that the listing does not describe completely: they are fetched to learn the rest.
    package var unknown = 0
    /// The hub's request quota, if it states one and the plan has many files.
    package var quota: RequestQuota?
    /// The origin of the manifest; `nil` for a local one.
    package var referrer: TransferRequest.Referrer?

    package struct Request: Sendable {
        /// The URL of a pack or a file, as the manifest has it, redacted.
        package var url: String
        /// All URLs of the object, as the manifest has them, not redacted: for requests, not for people.
        package var sources: [String]
        /// The whole object's **bytes**.
        package var size: UInt64
        /// The requested **bytes** of the object.
        package var range: Range<UInt64>
        /// Files or chunks in the range.
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
    /// The number of requests of a pull, `before` of them for the manifest and the dictionary.
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

    /// Requests for packs.
    package var packRequests: Int { fetch.spans.count - fetch.loose.count }

    /// The **seconds** that the pull takes at least because of the hub's quota; 0 without one.
    package var limitSeconds: UInt64 { quota?.wait(for: UInt64(fetch.loose.count)) ?? 0 }

    /// The exit status of the pull, as far as it can be known.
    package var status: ExitStatus { refusal?.status ?? (obstructed.isEmpty ? .done : .incomplete) }

    /// The fields of the `plan` event.
    package func write(to line: inout JSONLine) {
        line.field("project", project)
        line.field("revision", revision)
        line.field(source)
        line.field("destination", destination)
        line.field("files", files)
        line.field("unchanged", unchanged)
        line.field("wanted", wanted)
        if unknown > 0 { line.field("unknown", unknown) }
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
            $0.field("packs", fetch.packBytes)
            $0.field("deltas", fetch.deltaBytes)
            $0.field("dictionary", dictionaryBytes)
            $0.field("loose", fetch.looseBytes)
            $0.field("gaps", fetch.gapBytes)
        }
        line.object("requests") {
            $0.field("least", requestCount.lowerBound)
            $0.field("most", requestCount.upperBound)
            $0.field("manifest", manifestRequests)
            $0.field("dictionary", dictionaryBytes > 0 ? 1 : 0)
            $0.field("packs", packRequests)
            $0.field("loose", fetch.loose.count)
            $0.field("avoided", fetch.requestsAvoided)
        }
        if let quota {
            line.object("limit") {
                $0.field("requests", quota.most)
                $0.field("window", quota.window)
                $0.field("left", quota.left)
                $0.field("seconds", limitSeconds)
            }
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

extension PlanReport {
    /// Objects in one directory of one server.
    package struct Source: Sendable {
        /// The URL up to the last slash of its path, absolute. Not redacted.
        package let prefix: String
        /// One of the objects: its URL, absolute, not redacted; and its **bytes**.
        package let example: (url: String, size: UInt64)
        /// The number of different objects.
        package fileprivate(set) var objects: Int
        /// Requests sent there if the servers before it do not fail.
        package fileprivate(set) var requests: Int
    }

    /// The places that the plan's requests can go to, mirrors included, each once, in the order of the plan.
    ///
    /// - Parameter location: The manifest's path or URL as it was given; relative URLs resolve against it.
    package func sources(of location: String) -> [Source] {
        let base = manifestURL(location)
        var sources: [Source] = []
        var places: [Substring: Int] = [:]
        var seen: Set<String> = []
        for request in requests {
            for (index, written) in request.sources.enumerated() {
                let url = resolve(written, against: base)
                let plain = url.prefix { $0 != "?" && $0 != "#" }
                let prefix = plain[...(plain.lastIndex(of: "/") ?? plain.startIndex)]
                let isNew = seen.insert(url).inserted
                if let place = places[prefix] {
                    sources[place].objects += isNew ? 1 : 0
                    sources[place].requests += index == 0 ? 1 : 0
                } else {
                    places[prefix] = sources.count
                    sources.append(
                        Source(
                            prefix: String(prefix), example: (url, request.size), objects: 1,
                            requests: index == 0 ? 1 : 0))
                }
            }
        }
        return sources
    }
}

/// What a pull would do with a file, a link, or a directory named by the manifest.
package struct PlannedFile: Sendable {
    /// The action, as spelled in events and lines.
    package enum Action: String, Sendable {
        /// Nothing is there.
        case new
        /// Something else is there and is replaced.
        case changed
        /// Right already.
        case unchanged
        /// An earlier pull installed it, the manifest does not name it, and `--prune` removes it, or it is in the way.
        case removed
        /// Like ``removed``, but only `--prune` would remove it.
        case obsolete
        /// Its place cannot be used.
        case blocked
    }

    package let path: String
    package let action: Action
    package var isDirectory = false
    /// **Bytes**; `nil` for a link.
    package var size: UInt64?
    /// The link's target.
    package var link: String?
    /// A local file with the same content.
    package var from: String?
    /// **Bytes** of it that are available locally.
    package var here: UInt64 = 0
    /// Why its place cannot be used.
    package var reason: String?

    /// The fields of `plan.file`.
    package func write(to line: inout JSONLine) {
        line.field("path", path)
        line.field("action", action.rawValue)
        if isDirectory { line.field("directory", true) }
        line.field("size", optional: size)
        line.field("link", optional: link)
        line.field("from", optional: from)
        if here > 0 { line.field("here", here) }
        line.field("reason", optional: reason)
    }
}

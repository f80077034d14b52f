import Foundation
import SyncEngine
import SyncManifest
import SyncModel
import SyncPlugins
import SyncReport

enum PlanText {
    static func lines(_ plan: PlanReport) -> [String] {
        func figure(_ number: Int) -> String { Figures.grouped(number) }
        var lines = [
            "\(escaped(plan.project)) revision \(plan.revision) into \(escaped(plan.destination))",
            "files      \(figure(plan.files)): \(figure(plan.unchanged)) up to date, \(figure(plan.wanted)) to fetch",
            "bytes      \(ByteCount(plan.totalBytes)) in all, \(ByteCount(plan.unchangedBytes)) here",
            "to fetch   \(ByteCount(plan.fetch.packBytes)) from packs, \(ByteCount(plan.fetch.looseBytes)) from individual files,"
                + " \(ByteCount(plan.fetch.gapBytes)) in gaps between needed blobs", requests(plan),
        ]
        if let source = plan.source { lines.append("source     \(source.shown)") }
        if plan.unknown > 0 {
            lines.append(
                "unknown    \(Figures.count(plan.unknown, "file")) whose size or SHA-256 the source does not say; fetched once to "
                    + "find it out")
        }
        if let quota = plan.quota {
            let window = Figures.period(Int64(clamping: min(quota.window, 1 << 40)) * 1_000)
            lines.append("limit      the hub takes \(Figures.count(quota.most, "request")) in \(window): \(wait(plan))")
        }
        if plan.missingDirectories > 0 { lines.insert("folders    \(figure(plan.missingDirectories)) to make", at: 2) }
        if plan.reusedBytes > 0 {
            lines.insert(
                "reused     \(ByteCount(plan.reusedBytes)) from older versions and other files here",
                at: plan.missingDirectories > 0 ? 4 : 3)
        }
        if plan.fetch.deltaBytes > 0 {
            lines.append(
                "deltas     \(ByteCount(plan.fetch.deltaBytes)) of it, made for the older versions that are here")
        }
        if plan.dictionaryBytes > 0 {
            lines.append(
                "dictionary \(ByteCount(plan.dictionaryBytes)) more, in one request; it is kept for later pulls")
        }
        if plan.replaced > 0 {
            lines.append(
                "replaced   \(Figures.count(plan.replaced, "file")) that no pull installed, or that were edited "
                    + "since; with --backup-dir DIR such files are kept")
        }
        if plan.prunable > 0 { lines.append(gone(Figures.count(plan.prunable, "file"), plan.prunes)) }
        if plan.prunableDirectories > 0 {
            let directories = Figures.count(plan.prunableDirectories, "directory", "directories")
            lines.append(gone(directories, plan.prunes) + ", unless they hold something else")
        }
        for reason in plan.obstructed { lines.append("blocked    \(reason)") }
        for request in plan.requests {
            lines.append(
                "  \(request.url) bytes \(request.range.lowerBound)-\(request.range.upperBound): "
                    + "\(Figures.count(request.blobs, "blob")), \(ByteCount(request.gapBytes)) in gaps")
        }
        return lines
    }

    /// How long the hub's limit makes a pull take.
    private static func wait(_ plan: PlanReport) -> String {
        let seconds = Int64(clamping: min(plan.limitSeconds, 1 << 40))
        return seconds == 0 ? "more than this needs" : "this takes \(Figures.period(seconds * 1_000)) at least"
    }

    /// What the manifest no longer names.
    private static func gone(_ what: String, _ prunes: Bool) -> String {
        prunes ? "removed    \(what) that the manifest no longer names" : "obsolete   \(what), removed with --prune"
    }

    /// How many requests, of what, and why that is not certain.
    private static func requests(_ plan: PlanReport) -> String {
        let range = plan.requestCount
        func figure(_ number: some BinaryInteger) -> String { Figures.grouped(number) }
        var parts = ["\(figure(plan.manifestRequests)) for the manifest"]
        if plan.dictionaryBytes > 0 { parts.append("1 for the dictionary") }
        parts.append("\(figure(plan.packRequests)) for packs")
        parts.append("\(figure(plan.fetch.loose.count)) for files")
        var line = "requests   \(figure(range.lowerBound))"
        if range.count > 1 { line += " to \(figure(range.upperBound))" }
        line += ": " + parts.joined(separator: ", ")
        if plan.leftoverBytes > 0 {
            line += "; fewer, since an interrupted pull left \(ByteCount(plan.leftoverBytes)) here"
        } else if range.count > 1 {
            line += "; more if idle connections take over the ends of long ones"
        }
        if plan.fetch.requestsAvoided > 0 {
            line += "; one per file would be \(figure(plan.fetch.requestsAvoided)) more"
        }
        return line
    }

    /// One file and what happens to it.
    static func line(_ file: PlannedFile) -> String {
        let word = file.action.rawValue.padding(toLength: 9, withPad: " ", startingAt: 0)
        var line = "\(word)  \(escaped(file.path))\(file.isDirectory ? "/" : "")"
        if let link = file.link { line += " -> \(escaped(link))" }
        switch file.action {
        case .new, .changed:
            if let from = file.from {
                line += "  (copied from \(from == file.path ? "what is here" : escaped(from)))"
            } else if file.here > 0 {
                line += "  (\(ByteCount(file.size ?? 0)), \(ByteCount(file.here)) of it already here)"
            } else if let size = file.size {
                line += "  (\(ByteCount(size)))"
            }
        case .obsolete: line += "  (removed with --prune)"
        case .blocked: line += "  (\(file.reason ?? ""))"
        case .unchanged, .removed: break
        }
        return line
    }
}

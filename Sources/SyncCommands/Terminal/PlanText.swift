import Foundation
import SyncEngine
import SyncManifest
import SyncModel
import SyncPlugins
import SyncReport

extension PlanReport {
    /// The plan for people.
    var lines: [String] {
        func figure(_ number: Int) -> String { Figures.grouped(number) }
        // Most sources have none.
        let numbered = revision > 0 ? " revision \(revision)" : ""
        var lines = [
            "\(escaped(project))\(numbered) into \(escaped(destination))",
            "files      \(figure(files)): \(figure(unchanged)) up to date, \(figure(wanted)) to fetch",
            "bytes      \(ByteCount(totalBytes)) in all, \(ByteCount(unchangedBytes)) here",
            "to fetch   \(ByteCount(fetch.packBytes)) from packs, \(ByteCount(fetch.looseBytes)) from individual files,"
                + " \(ByteCount(fetch.gapBytes)) in gaps between needed blobs", requestWords,
        ]
        if let source { lines.append("source     \(source.shown)") }
        if unknown > 0 {
            lines.append(
                "unknown    \(Figures.count(unknown, "file")) whose size or SHA-256 the source does not give; fetched once to "
                    + "determine it")
        }
        if let quota {
            let window = Figures.period(Int64(clamping: min(quota.window, 1 << 40)) * 1_000)
            lines.append("limit      the hub takes \(Figures.count(quota.most, "request")) in \(window): \(limitWords)")
        }
        if missingDirectories > 0 { lines.insert("folders    \(figure(missingDirectories)) to make", at: 2) }
        if reusedBytes > 0 {
            lines.insert(
                "reused     \(ByteCount(reusedBytes)) from older versions and other files here",
                at: missingDirectories > 0 ? 4 : 3)
        }
        if fetch.deltaBytes > 0 {
            lines.append(
                "deltas     \(ByteCount(fetch.deltaBytes)) of it, made for the older versions that are here")
        }
        if dictionaryBytes > 0 {
            lines.append(
                "dictionary \(ByteCount(dictionaryBytes)) more, in one request; it is kept for later pulls")
        }
        if replaced > 0 {
            lines.append(
                "replaced   \(Figures.count(replaced, "file")) that no pull installed, or that somebody "
                    + "has edited since; with --backup-dir DIR such files are kept")
        }
        if prunable > 0 { lines.append(gone(Figures.count(prunable, "file"))) }
        if prunableDirectories > 0 {
            let directories = Figures.count(prunableDirectories, "directory", "directories")
            lines.append(gone(directories) + ", unless they hold something else")
        }
        for reason in obstructed { lines.append("blocked    \(reason)") }
        for request in requests {
            lines.append(
                "  \(request.url) bytes \(request.range.lowerBound)-\(request.range.upperBound): "
                    + "\(Figures.count(request.blobs, "blob")), \(ByteCount(request.gapBytes)) in gaps")
        }
        return lines
    }

    /// How long a pull takes at least, because of the hub's limit.
    private var limitWords: String {
        let seconds = Int64(clamping: min(limitSeconds, 1 << 40))
        return seconds == 0 ? "more than this needs" : "this takes \(Figures.period(seconds * 1_000)) at least"
    }

    /// The line for files that the manifest no longer lists.
    private func gone(_ what: String) -> String {
        prunes ? "removed    \(what) that the manifest no longer lists" : "obsolete   \(what), removed with --prune"
    }

    /// How many requests there will be, of which kinds, and why the number is not certain.
    private var requestWords: String {
        let range = requestCount
        func figure(_ number: some BinaryInteger) -> String { Figures.grouped(number) }
        var parts = ["\(figure(manifestRequests)) for the manifest"]
        if dictionaryBytes > 0 { parts.append("1 for the dictionary") }
        parts.append("\(figure(packRequests)) for packs")
        parts.append("\(figure(fetch.loose.count)) for files")
        var line = "requests   \(figure(range.lowerBound))"
        if range.count > 1 { line += " to \(figure(range.upperBound))" }
        line += ": " + parts.joined(separator: ", ")
        if leftoverBytes > 0 {
            line += "; fewer, since an interrupted pull left \(ByteCount(leftoverBytes)) here"
        } else if range.count > 1 {
            line += "; more if idle connections take over the ends of long ones"
        }
        if fetch.requestsAvoided > 0 {
            line += "; one per file would be \(figure(fetch.requestsAvoided)) more"
        }
        return line
    }
}

extension PlannedFile {
    /// The line for the file: its action and the reason.
    var line: String {
        var line = "\(action.rawValue.padded(to: 9))  \(escaped(path))\(isDirectory ? "/" : "")"
        if let link { line += " -> \(escaped(link))" }
        switch action {
        case .new, .changed:
            if let from {
                line += "  (copied from \(from == path ? "what is here" : escaped(from)))"
            } else if here > 0 {
                line += "  (\(ByteCount(size ?? 0)), \(ByteCount(here)) of it already here)"
            } else if let size {
                line += "  (\(ByteCount(size)))"
            }
        case .obsolete: line += "  (removed with --prune)"
        case .blocked: line += "  (\(reason ?? ""))"
        case .unchanged, .removed: break
        }
        return line
    }
}

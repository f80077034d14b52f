import SyncModel
import SyncPublisher
import SyncReport

extension ReleaseList {
    /// The list as a table.
    var lines: [String] {
        let head = ["REVISION", "CREATED", "FILES", "SIZE", "OWN", "CHANNELS", "MANIFEST"]
        return tableLines(
            [head]
                + entries.map { entry in
                    [
                        "\(entry.revision)", escaped(entry.created ?? "-"), Figures.grouped(entry.files),
                        "\(ByteCount(entry.bytes))", "\(ByteCount(entry.ownBytes))",
                        entry.channels.isEmpty ? "-" : entry.channels.joined(separator: ","),
                        String(entry.manifest.hex.prefix(12)),
                    ]
                })
    }
}

extension Prune.Report {
    /// The result of a prune, or of its dry run.
    func summary(isDryRun: Bool) -> String {
        let verb = isDryRun ? "would be removed" : "removed"
        let stay = "\(Figures.count(releases, "release")) kept, \(ByteCount(kept.bytes))"
        return "\(removed.words) \(verb); \(stay)\(rest)"
    }

    /// A line on what a publish has removed; `nil` for nothing.
    var removal: String? {
        guard removed.objects > 0 else { return nil }
        return "Old releases: \(removed.words) removed; \(Figures.count(releases, "release")) kept\(rest)."
    }

    private var rest: String {
        guard waiting.objects > 0 else { return "" }
        return "; \(ByteCount(waiting.bytes)) more once no pull can ask for it"
    }
}

extension Prune.Count {
    fileprivate var words: String { "\(Figures.count(objects, "file")), \(ByteCount(bytes))," }
}

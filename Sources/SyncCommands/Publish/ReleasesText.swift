import SyncModel
import SyncPublisher
import SyncReport

/// What is said to people of the releases of a set.
enum ReleasesText {
    /// A table.
    static func lines(_ entries: [ReleaseList.Entry]) -> [String] {
        let head = ["REVISION", "CREATED", "FILES", "SIZE", "OWN", "CHANNELS", "MANIFEST"]
        return TextTable.lines(
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

    /// What a prune has done, or would do.
    static func summary(_ report: Prune.Report, isDryRun: Bool) -> String {
        let verb = isDryRun ? "would be removed" : "removed"
        let kept = "\(Figures.count(report.releases, "release")) kept, \(ByteCount(report.kept.bytes))"
        return "\(files(report.removed)) \(verb); \(kept)\(waiting(report))"
    }

    /// What a publish has removed; `nil` for nothing.
    static func removed(_ report: Prune.Report) -> String? {
        guard report.removed.objects > 0 else { return nil }
        return "Old releases: \(files(report.removed)) removed; \(Figures.count(report.releases, "release")) kept"
            + "\(waiting(report))."
    }

    private static func files(_ count: Prune.Count) -> String {
        "\(Figures.count(count.objects, "file")), \(ByteCount(count.bytes)),"
    }

    private static func waiting(_ report: Prune.Report) -> String {
        guard report.waiting.objects > 0 else { return "" }
        return "; \(ByteCount(report.waiting.bytes)) more once no pull can ask for it"
    }
}

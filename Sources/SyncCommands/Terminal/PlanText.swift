import SyncEngine
import SyncModel
import SyncReport

/// A plan in plain words.
enum PlanText {
    static func lines(_ plan: PlanReport) -> [String] {
        func figure(_ number: Int) -> String { Figures.grouped(number) }
        var lines = [
            "\(escaped(plan.project)) revision \(plan.revision) into \(escaped(plan.destination))",
            "files      \(figure(plan.files)), of which \(figure(plan.unchanged)) are here"
                + " and \(figure(plan.wanted)) are wanted",
            "bytes      \(ByteCount(plan.totalBytes)) in all, \(ByteCount(plan.unchangedBytes)) here",
            "to fetch   \(ByteCount(plan.packBytes)) from packs, \(ByteCount(plan.looseBytes)) from files of their own,"
                + " \(ByteCount(plan.gapBytes)) between wanted blobs",
            "requests   \(figure(plan.packRequests)) for packs, \(figure(plan.looseRequests)) for files;"
                + " one a file would be \(figure(plan.requestsAvoided)) more",
        ]
        if plan.reusedBytes > 0 {
            lines.insert(
                "reused     \(ByteCount(plan.reusedBytes)) from older versions and other files here",
                at: 3
            )
        }
        if plan.deltaBytes > 0 {
            lines.append(
                "deltas     \(ByteCount(plan.deltaBytes)) of it, made for the older versions that are here"
            )
        }
        if plan.dictionaryBytes > 0 {
            lines.append(
                "dictionary \(ByteCount(plan.dictionaryBytes)) besides, in one request; it is kept for what comes later"
            )
        }
        if plan.prunable > 0 {
            lines.append("obsolete   \(Figures.count(plan.prunable, "file")), removed with --prune")
        }
        if let refusal = plan.pruneRefusal { lines.append("refused    \(refusal)") }
        for reason in plan.obstructed { lines.append("blocked    \(reason)") }
        for request in plan.requests {
            lines.append(
                "  \(request.url) bytes \(request.range.lowerBound)-\(request.range.upperBound): "
                    + "\(Figures.count(request.blobs, "blob")), \(ByteCount(request.gapBytes)) unwanted"
            )
        }
        return lines
    }
}

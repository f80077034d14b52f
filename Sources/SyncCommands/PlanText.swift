import SyncEngine
import SyncModel

/// A plan in plain words.
enum PlanText {
    static func lines(_ plan: PlanReport) -> [String] {
        var lines = [
            "\(escaped(plan.project)) revision \(plan.revision) into \(escaped(plan.destination))",
            "files      \(plan.files), of which \(plan.unchanged) are here and \(plan.wanted) are wanted",
            "bytes      \(ByteCount(plan.totalBytes)) in all, \(ByteCount(plan.unchangedBytes)) here",
            "to fetch   \(ByteCount(plan.packBytes)) from packs, \(ByteCount(plan.looseBytes)) from files of their own,"
                + " \(ByteCount(plan.gapBytes)) between wanted blobs",
            "requests   \(plan.packRequests) for packs, \(plan.looseRequests) for files;"
                + " one a file would be \(plan.requestsAvoided) more",
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
        if plan.prunable > 0 { lines.append("obsolete   \(plan.prunable) files, removed with --prune") }
        for reason in plan.obstructed { lines.append("blocked    \(reason)") }
        for request in plan.requests {
            lines.append(
                "  \(request.url) bytes \(request.range.lowerBound)-\(request.range.upperBound): "
                    + "\(request.blobs) blobs, \(ByteCount(request.gapBytes)) unwanted"
            )
        }
        return lines
    }
}

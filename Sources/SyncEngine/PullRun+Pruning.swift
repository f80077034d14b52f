import SyncFiles
import SyncModel

/// What a pull removes, and when it refuses to.
extension PullRun {
    /// Refuses to remove more than half of what is here, unless forced.
    func checkPrune(_ doomed: Int, _ index: StatIndex) throws(EngineError) {
        let ours = (0..<index.count).count { index.record($0)?.installed == true }
        guard !options.force, doomed * 2 > ours else { return }
        throw EngineError(
            .refused,
            "--prune would remove \(doomed) of \(ours) installed files from "
                + "\(escaped(destination.path)), more than half; nothing was changed. "
                + "Is it the right manifest? If so, add --force"
        )
    }

    /// Removes obsolete files: with `--prune` all, otherwise only what stands in the way.
    mutating func remove(_ doomed: [Int], _ pruning: Pruning) -> Set<Int> {
        guard !doomed.isEmpty else { return [] }
        let result = pruning.remove(doomed)
        report.files.removed += result.removed
        for position in result.gone {
            journal.removed(pruning.index.withPath(position) { String(decoding: $0, as: UTF8.self) })
        }
        return Set(result.gone)
    }
}

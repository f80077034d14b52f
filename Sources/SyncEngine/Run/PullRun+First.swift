import SyncManifest
import SyncPlanner
import SyncStore

extension PullRun {
    /// Fetches what somebody waits for before everything else is even planned, in requests of its own (S89, S162).
    ///
    /// - Parameters:
    ///   - open: Wanted rows; those fetched here are taken out.
    ///   - prefix: First **bytes** of a row that need not be fetched.
    /// - Returns: The rows that could not be brought.
    func fetchFirst(
        _ open: inout [Int],
        _ manifest: Manifest,
        _ rounds: FetchRounds,
        _ parts: PartFiles,
        prefix: (Int) -> UInt64
    ) throws -> [FetchRounds.Failure] {
        guard let recorded, !recorded.firstPaths.isEmpty, !environment.stop.isStopped else { return [] }
        let paths = Set(recorded.firstPaths)
        let first = open.filter { paths.contains(manifest.files.path($0)) }
        guard !first.isEmpty else { return [] }
        let taken = Set(first)
        open.removeAll(where: taken.contains)
        let plan = try makePlan(
            manifest,
            wanted: first,
            rule: CoalescingRule(spanLength: 1 << 20),
            prefix: prefix,
            skipping: { parts.isHere(row: $0, blob: $1) }
        )
        return rounds.run(plan, parts: parts)
    }
}

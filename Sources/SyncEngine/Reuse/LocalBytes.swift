import SyncFiles
import SyncManifest
import SyncModel

/// What local files have of wanted ones: chunks, and bases of deltas. A pull and its plan look with the same eyes; nothing
/// is created.
struct LocalBytes: Sendable {
    let sources: ChunkSources
    /// `nil` without a destination.
    let bases: DeltaBases?
    private let manifest: Manifest
    private let wanted: [Int]
    private let isHere: @Sendable (_ row: Int, _ blob: Int) -> Bool

    /// - Parameters:
    ///   - wanted: Rows of which no local file has the whole content.
    ///   - isHere: Blobs that an earlier run has put in place.
    ///   - destination: `nil` if there is none yet.
    ///   - leftovers: Parts of files that are not wanted any more.
    init(
        _ manifest: Manifest, wanted: [Int],
        isHere: @escaping @Sendable (_ row: Int, _ blob: Int) -> Bool = { _, _ in false }, index: StatIndex,
        destination: Destination?, staging: Staging? = nil, leftovers: [Staging.File] = [],
        _ environment: EngineEnvironment, isStopped: @escaping @Sendable () -> Bool
    ) {
        (self.manifest, self.wanted, self.isHere) = (manifest, wanted, isHere)
        guard let destination else {
            (sources, bases) = (ChunkSources(manifest: manifest), nil)
            return
        }
        let sources = ChunkSources.find(
            manifest, wanted: wanted, isHere: isHere, index: index, destination: destination, staging: staging,
            parts: leftovers, isStopped: isStopped)
        self.sources = sources
        bases = DeltaBases(
            manifest, wanted: wanted, isWanted: { !isHere($0, $1) && !sources.has(row: $0, blob: $1) }, index: index,
            destination: destination, threads: environment.workers, isStopped: isStopped)
    }

    /// **Bytes** of a wanted file found in local chunks.
    func bytes(of row: Int) -> UInt64 {
        manifest.files.blobs(row).enumerated().reduce(UInt64(0)) { sum, next in
            sources.has(row: row, blob: next.offset) ? sum &+ next.element.rawLength : sum
        }
    }

    /// The plan for what is neither in place nor in local files.
    ///
    /// - Parameter isResumed: Whether an interrupted run left something: then gaps are what it has fetched, and are
    ///   hardly ever read again. A run that is killed every minute still comes to an end.
    func plan(connections: Int, isResumed: Bool = false, gaps: (_ row: Int) -> [Range<UInt64>]? = { _ in nil })
        throws(PlanError) -> Plan
    {
        let skipping = { isHere($0, $1) || sources.has(row: $0, blob: $1) }
        var rule = FetchRounds.rule(for: manifest, wanted: wanted, connections: connections, skipping: skipping)
        if isResumed { (rule.maximumGap, rule.wastePercent) = (32 << 10, 1) }
        return try makePlan(
            manifest, wanted: wanted, rule: rule, gaps: gaps, skipping: skipping,
            delta: { bases?.delta(row: $0, blob: $1) })
    }
}

import SyncFiles
import SyncManifest
import SyncModel
import SyncPlanner
import SyncSystem

/// Fetches what is not here while chunks that are here are copied; what turns out wrong is fetched afterwards.
struct ChunkReuse {
    private let site: Site
    private let wanted: [Int]
    private let leftovers: [Staging.File]
    private let copies: ChunkCopies
    private let bases: DeltaBases

    /// Looks for chunks, and writes down of which chunks the files will be made.
    ///
    /// - Parameter leftovers: Parts of what is not wanted any more.
    init(_ site: Site, wanted: [Int], leftovers: [Staging.File]) {
        (self.site, self.wanted, self.leftovers) = (site, wanted, leftovers)
        let (manifest, index, parts) = (site.manifest, site.index, site.parts)
        let sources = ChunkSources.find(
            manifest,
            wanted: wanted,
            isHere: parts.isHere,
            index: index,
            destination: site.destination,
            staging: site.staging,
            parts: leftovers,
            isStopped: { site.isStopped }
        )
        bases = DeltaBases(
            manifest,
            wanted: wanted,
            isWanted: { !parts.isHere(row: $0, blob: $1) && !sources.has(row: $0, blob: $1) },
            index: index,
            destination: site.destination,
            threads: site.environment.workers,
            isStopped: { site.isStopped }
        )
        ChunkSources.remember(manifest, index: index, in: site.destination)
        copies = ChunkCopies(site, sources, rows: wanted)
    }

    /// The plan for what is neither in place nor in local files.
    ///
    /// - Parameter isResumed: Whether an interrupted run left something: then gaps are what it has fetched, and are
    ///   hardly ever read again. A run that is killed every minute still comes to an end.
    func plan(
        connections: Int,
        isResumed: Bool,
        prefix: (_ row: Int) -> UInt64
    ) throws(PlanError) -> Plan {
        try plan(wanted, connections, isResumed, prefix, delta: bases.delta) {
            site.parts.isHere(row: $0, blob: $1) || isComing($0, $1)
        }
    }

    private func plan(
        _ rows: [Int],
        _ connections: Int,
        _ isResumed: Bool,
        _ prefix: (_ row: Int) -> UInt64,
        delta: (_ row: Int, _ blob: Int) -> Int? = { _, _ in nil },
        skipping: (_ row: Int, _ blob: Int) -> Bool
    ) throws(PlanError) -> Plan {
        let manifest = site.manifest
        var rule = FetchRounds.rule(for: manifest, wanted: rows, connections: connections, skipping: skipping)
        if isResumed { (rule.maximumGap, rule.wastePercent) = (32 << 10, 1) }
        return try makePlan(
            manifest,
            wanted: rows,
            rule: rule,
            prefix: prefix,
            skipping: skipping,
            delta: delta
        )
    }

    private func isComing(_ row: Int, _ blob: Int) -> Bool { copies.sources.has(row: row, blob: blob) }

    /// Rows that get something from here and nothing by network.
    func rowsWithoutNetwork(_ plan: Plan) -> Set<Int> {
        guard !copies.rows.isEmpty else { return [] }
        let fetched = Set(plan.targets.map(\.row))
        return copies.rows.subtracting(fetched)
    }

    /// Fetches and copies.
    ///
    /// - Parameter beside: Work to be done at the same time.
    /// - Returns: Rows that failed, and **bytes** taken from here.
    func run(
        _ plan: Plan,
        _ rounds: FetchRounds,
        _ origins: RowOrigins,
        beside: @escaping @Sendable () -> [FetchRounds.Failure]
    ) -> (failures: [FetchRounds.Failure], bytes: UInt64) {
        site.environment.releaseMemory()  // What looking around and planning took.
        var first = rounds
        first.bases = bases
        first.copies = copies
        var failures = concurrently(3, name: "fetch") {
            [site, copies, first] part -> [FetchRounds.Failure] in
            switch part {
            case 0: beside()
            case 1: site.isStopped ? [] : first.run(plan)
            default: copies.run(onBytes: first.onBytes)
            }
        }.flatMap { $0 }
        let outcome = copies.outcome
        if !site.isStopped {
            failures += fetchMissing(outcome.missing, besides: failures, rounds, origins)
        }
        for file in leftovers { site.staging.remove(file) }
        return (failures, outcome.bytes)
    }

    /// What was thought to be here and is not.
    private func fetchMissing(
        _ rows: Set<Int>,
        besides failures: [FetchRounds.Failure],
        _ rounds: FetchRounds,
        _ origins: RowOrigins
    ) -> [FetchRounds.Failure] {
        let missing = rows.subtracting(failures.map(\.row)).sorted()
        guard !missing.isEmpty else { return [] }
        origins.set(Set(missing), .network)
        do throws(PlanError) {
            let plan = try plan(missing, rounds.connections, false, { _ in 0 }, skipping: site.parts.isHere)
            return rounds.run(plan)
        } catch {
            return missing.map { FetchRounds.Failure(row: $0, reason: "\(error)", cause: .badManifest) }
        }
    }
}

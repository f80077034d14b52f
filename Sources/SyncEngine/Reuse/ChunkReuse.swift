import SyncFiles
import SyncManifest
import SyncModel
import SyncPlanner
import SyncSystem

/// Fetches what is not here while chunks that are here are copied; what turns out wrong is fetched afterwards.
struct ChunkReuse {
    private let manifest: Manifest
    private let wanted: [Int]
    private let parts: PartFiles
    private let leftovers: [Staging.File]
    private let staging: Staging
    private let copies: ChunkCopies
    private let bases: DeltaBases

    /// Looks for chunks, and writes down of which chunks the files will be made.
    init(
        manifest: Manifest,
        wanted: [Int],
        parts: PartFiles,
        leftovers: [Staging.File],
        index: StatIndex,
        destination: Destination,
        staging: Staging,
        committer: Committer,
        threads: Int,
        isStopped: @escaping @Sendable () -> Bool
    ) {
        self.manifest = manifest
        self.wanted = wanted
        self.parts = parts
        self.leftovers = leftovers
        self.staging = staging
        let sources = ChunkSources.find(
            manifest,
            wanted: wanted,
            isHere: parts.isHere,
            index: index,
            destination: destination,
            staging: staging,
            parts: leftovers,
            isStopped: isStopped
        )
        bases = DeltaBases(
            manifest,
            wanted: wanted,
            isWanted: { !parts.isHere(row: $0, blob: $1) && !sources.has(row: $0, blob: $1) },
            index: index,
            destination: destination,
            threads: threads,
            isStopped: isStopped
        )
        ChunkSources.remember(manifest, index: index, in: destination)
        copies = ChunkCopies(
            sources,
            rows: wanted,
            index: index,
            destination: destination,
            staging: staging,
            parts: parts,
            committer: committer
        )
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
            parts.isHere(row: $0, blob: $1) || isComing($0, $1)
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
        origin: RowOrigins,
        beside: @escaping @Sendable () -> [FetchRounds.Failure]
    ) -> (failures: [FetchRounds.Failure], bytes: UInt64) {
        let stop = rounds.environment.stop
        rounds.environment.releaseMemory()  // What looking around and planning took.
        var first = rounds
        first.bases = bases
        first.copies = copies
        var failures = concurrently(3, name: "fetch") {
            [copies, first, parts] part -> [FetchRounds.Failure] in
            switch part {
            case 0: beside()
            case 1: stop.isStopped ? [] : first.run(plan, parts: parts)
            default:
                copies.run(
                    threads: first.environment.workers,
                    isStopped: { stop.isStopped },
                    onBytes: first.onBytes
                )
            }
        }.flatMap { $0 }
        let outcome = copies.outcome
        if !stop.isStopped {
            failures += fetchMissing(outcome.missing, besides: failures, rounds, origin)
        }
        for file in leftovers { staging.remove(file) }
        return (failures, outcome.bytes)
    }

    /// What was thought to be here and is not.
    private func fetchMissing(
        _ rows: Set<Int>,
        besides failures: [FetchRounds.Failure],
        _ rounds: FetchRounds,
        _ origin: RowOrigins
    ) -> [FetchRounds.Failure] {
        let missing = rows.subtracting(failures.map(\.row)).sorted()
        guard !missing.isEmpty else { return [] }
        origin.set(Set(missing), .network)
        do throws(PlanError) {
            let plan = try plan(missing, rounds.connections, false, { _ in 0 }, skipping: parts.isHere)
            return rounds.run(plan, parts: parts)
        } catch {
            return missing.map { FetchRounds.Failure(row: $0, reason: "\(error)", cause: .badManifest) }
        }
    }
}

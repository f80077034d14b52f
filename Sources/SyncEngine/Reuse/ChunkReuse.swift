import SyncFiles
import SyncManifest
import SyncModel
import SyncPlanner
import SyncSystem

/// Fetches what is missing while local chunks are copied; chunks that turn out wrong are fetched afterwards.
struct ChunkReuse {
    private let context: RunContext
    private let wanted: [Int]
    private let leftovers: [Staging.File]
    private let copies: ChunkCopies
    private let bases: DeltaBases

    /// Searches for chunks, and records which chunks the files will consist of.
    ///
    /// - Parameter leftovers: Parts of what is not wanted any more.
    init(_ context: RunContext, wanted: [Int], leftovers: [Staging.File]) {
        (self.context, self.wanted, self.leftovers) = (context, wanted, leftovers)
        let (manifest, index, parts) = (context.manifest, context.index, context.parts)
        let sources = ChunkSources.find(
            manifest,
            wanted: wanted,
            isHere: parts.isHere,
            index: index,
            destination: context.destination,
            staging: context.staging,
            parts: leftovers,
            isStopped: { context.isStopped }
        )
        bases = DeltaBases(
            manifest,
            wanted: wanted,
            isWanted: { !parts.isHere(row: $0, blob: $1) && !sources.has(row: $0, blob: $1) },
            index: index,
            destination: context.destination,
            threads: context.environment.workers,
            isStopped: { context.isStopped }
        )
        ChunkSources.remember(manifest, index: index, in: context.destination)
        copies = ChunkCopies(context, sources, rows: wanted)
    }

    /// The plan for what is neither in place nor in local files.
    ///
    /// - Parameter isResumed: Whether an interrupted run left something: then gaps are what it has fetched, and are
    ///   hardly ever read again. A run that is killed every minute still comes to an end.
    func plan(
        connections: Int,
        isResumed: Bool,
        gaps: (_ row: Int) -> [Range<UInt64>]?
    ) throws(PlanError) -> Plan {
        let skipping = { context.parts.isHere(row: $0, blob: $1) || isComing($0, $1) }
        let manifest = context.manifest
        var rule = FetchRounds.rule(
            for: manifest,
            wanted: wanted,
            connections: connections,
            skipping: skipping
        )
        if isResumed { (rule.maximumGap, rule.wastePercent) = (32 << 10, 1) }
        return try makePlan(
            manifest,
            wanted: wanted,
            rule: rule,
            gaps: gaps,
            skipping: skipping,
            delta: bases.delta
        )
    }

    private func isComing(_ row: Int, _ blob: Int) -> Bool { copies.sources.has(row: row, blob: blob) }

    /// Rows that get something from local files and nothing from the network.
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
        beside: @escaping @Sendable () -> [RowFailure]
    ) -> (failures: [RowFailure], bytes: UInt64) {
        context.environment.releaseMemory()  // What looking around and planning took.
        var first = rounds
        first.bases = bases
        first.copies = copies
        var failures = concurrently(3, name: "fetch") {
            [context, copies, first] part -> [RowFailure] in
            switch part {
            case 0: beside()
            case 1: context.isStopped ? [] : first.run(plan)
            default: copies.run(onBytes: first.onBytes)
            }
        }.flatMap { $0 }
        let outcome = copies.outcome
        if !context.isStopped {
            failures += fetchMissing(outcome.missing, besides: failures, rounds, origins)
        }
        for file in leftovers { context.staging.remove(file) }
        return (failures, outcome.bytes)
    }

    /// Fetches chunks that turned out not to be here.
    private func fetchMissing(
        _ rows: Set<Int>,
        besides failures: [RowFailure],
        _ rounds: FetchRounds,
        _ origins: RowOrigins
    ) -> [RowFailure] {
        let missing = rows.subtracting(failures.map(\.row)).sorted()
        guard !missing.isEmpty else { return [] }
        origins.set(Set(missing), .network)
        do throws(PlanError) {
            let (manifest, isHere) = (context.manifest, context.parts.isHere)
            let rule = FetchRounds.rule(
                for: manifest,
                wanted: missing,
                connections: rounds.connections,
                skipping: isHere
            )
            return rounds.run(try makePlan(manifest, wanted: missing, rule: rule, skipping: isHere))
        } catch {
            return missing.map { RowFailure(row: $0, reason: "\(error)", cause: .badManifest) }
        }
    }
}

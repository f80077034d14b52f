import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Fetches what is missing while local chunks are copied; chunks that turn out wrong are fetched afterwards.
struct ChunkReuse {
    private let context: RunContext
    private let wanted: [Int]
    private let leftovers: [Staging.File]
    private let local: LocalBytes
    private let copies: ChunkCopies

    /// Searches for chunks, and records which chunks the files will consist of.
    ///
    /// - Parameter leftovers: Parts of what is not wanted any more.
    init(_ context: RunContext, wanted: [Int], leftovers: [Staging.File]) {
        (self.context, self.wanted, self.leftovers) = (context, wanted, leftovers)
        local = LocalBytes(
            context.manifest, wanted: wanted, isHere: context.parts.isHere, index: context.index,
            destination: context.destination, staging: context.staging, leftovers: leftovers, context.environment,
            isStopped: { context.isStopped })
        ChunkSources.remember(context.manifest, index: context.index, in: context.destination)
        copies = ChunkCopies(context, local.sources, rows: wanted)
    }

    /// The plan for what is neither in place nor in local files; see ``LocalBytes/plan(connections:isResumed:gaps:)``.
    func plan(connections: Int, isResumed: Bool, gaps: (_ row: Int) -> [Range<UInt64>]?) throws(PlanError) -> Plan {
        try local.plan(connections: connections, isResumed: isResumed, gaps: gaps)
    }

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
    func run(_ plan: Plan, _ rounds: FetchRounds, _ origins: RowOrigins, beside: @escaping @Sendable () -> [RowFailure])
        -> (failures: [RowFailure], bytes: UInt64)
    {
        context.environment.releaseMemory()  // What looking around and planning took.
        var first = rounds
        first.bases = local.bases
        first.copies = copies
        var failures = concurrently(3, name: "fetch") { [context, copies, first] part -> [RowFailure] in
            switch part {
            case 0: beside()
            case 1: context.isStopped ? [] : first.run(plan)
            default: copies.run(onBytes: first.onBytes)
            }
        }.flatMap { $0 }
        let outcome = copies.outcome
        if !context.isStopped { failures += fetchMissing(outcome.missing, besides: failures, rounds, origins) }
        for file in leftovers { context.staging.remove(file) }
        return (failures, outcome.bytes)
    }

    /// Fetches chunks that turned out not to be here.
    private func fetchMissing(
        _ rows: Set<Int>, besides failures: [RowFailure], _ rounds: FetchRounds, _ origins: RowOrigins
    ) -> [RowFailure] {
        let missing = rows.subtracting(failures.map(\.row)).sorted()
        guard !missing.isEmpty else { return [] }
        origins.set(Set(missing), .network)
        do throws(PlanError) {
            let (manifest, isHere) = (context.manifest, context.parts.isHere)
            let rule = FetchRounds.rule(
                for: manifest, wanted: missing, connections: rounds.connections, skipping: isHere)
            return rounds.run(try makePlan(manifest, wanted: missing, rule: rule, skipping: isHere))
        } catch { return missing.map { RowFailure(row: $0, reason: "\(error)", cause: .badManifest) } }
    }
}

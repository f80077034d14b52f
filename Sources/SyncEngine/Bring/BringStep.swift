import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Brings files to the destination, each from the nearest source of its bytes: another local file, the remains of an
/// interrupted run, chunks of older files, the network.
struct BringStep {
    /// What became of the rows.
    struct Outcome {
        /// What is known of the rows that are now in place.
        var records = RecordColumn()
        var failures: [RowFailure] = []
        /// **Bytes** taken from local files.
        var reusedBytes: UInt64 = 0
        /// Why all the others are missing, if the disk has failed.
        var diskFailure: FileError?
        /// Whether files are in place that may not be durable.
        var leftUnsynced = false
    }

    private let context: RunContext
    private let wanted: [Int]
    private let origins: RowOrigins
    private let progress: ProgressCount
    private let rounds: FetchRounds

    private var manifest: Manifest { context.manifest }

    /// - Parameters:
    ///   - wanted: The rows to bring, ascending.
    ///   - origins: Told where rows come from.
    init(
        _ context: RunContext, wanted: [Int], from found: FoundManifest, origins: RowOrigins, connections: Int,
        _ progress: ProgressCount
    ) {
        (self.context, self.wanted) = (context, wanted)
        (self.origins, self.progress) = (origins, progress)
        rounds = FetchRounds(
            context: context, places: found.bases, referrer: found.referrer, connections: connections,
            onBytes: { progress.add(bytes: $0) }, dictionary: found.dictionary(of: context.manifest))
    }

    /// - Parameters:
    ///   - first: The most urgent paths, of files and of directories: they are fetched before everything else is even planned.
    ///   - planned: Told the plan for what is to be fetched.
    ///   - outcome: Takes what became of the rows, as far as it is known when this throws.
    /// - Throws: ``EngineError`` when nothing could be fetched; what came before that is in place, and in `outcome`.
    func run(first paths: [String], into outcome: inout Outcome, planned: (Plan) -> Void) throws(EngineError) {
        context.environment.live.watch(context.parts)
        do {
            let copies = LocalCopies(context: context).run(wanted: wanted)
            origins.set(copies.rows, .reused)
            outcome.reusedBytes = copies.bytes
            progress.add(bytes: copies.bytes)

            let rest = wanted.without(copies.rows)
            let adopted = try Leftovers(context: context).adopt(rest)
            origins.set(adopted.complete, .reused)
            progress.add(bytes: adopted.bytes)

            var open = rest.without(adopted.complete)
            outcome.failures += try fetch(paths, of: &open, adopted)
            try fetch(open, adopted, planned, &outcome)
        } catch {
            finish(&outcome)
            throw error as? EngineError ?? EngineError(.internalError, "\(error)")
        }
        finish(&outcome)
    }

    /// Fetches the most urgent rows, in requests of their own.
    ///
    /// - Parameter open: Wanted rows; those fetched here are taken out.
    private func fetch(_ paths: [String], of open: inout [Int], _ adopted: Leftovers.Adopted) throws(PlanError)
        -> [RowFailure]
    {
        guard !paths.isEmpty, !context.isStopped else { return [] }
        var isFirst = [Bool](repeating: false, count: manifest.files.count)
        for path in paths { for row in manifest.files.rows(below: Array(path.utf8)) { isFirst[row] = true } }
        let first = open.filter { isFirst[$0] }
        guard !first.isEmpty else { return [] }
        open = open.without(Set(first))
        let plan = try makePlan(
            manifest, wanted: first, rule: CoalescingRule(spanLength: 1 << 20), gaps: { adopted.gaps[$0] },
            skipping: { [parts = context.parts] in parts.isHere(row: $0, blob: $1) })
        return rounds.run(plan, isAll: false)
    }

    /// Copies chunks and fetches the rest; creates links and empty files meanwhile.
    private func fetch(_ open: [Int], _ adopted: Leftovers.Adopted, _ planned: (Plan) -> Void, _ outcome: inout Outcome)
        throws
    {
        // Verifiers look at single files.
        if context.environment.verifications.isEmpty {
            context.wholes.choose(wanted, open: open, of: manifest.files, in: context.destination)
        }
        let present = { (rows: [Int]) in adopted.present(of: rows) }
        var unwanted = adopted.unwanted
        if !unwanted.isEmpty, try context.destination.shortage(of: open, in: manifest, present: present) != nil {
            // Their chunks may be of use, their space is needed more.
            for file in unwanted { context.staging.remove(file) }
            unwanted = []
        }
        let chunks = ChunkReuse(context, wanted: open, leftovers: unwanted)
        let isResumed = adopted.bytes > 0 || !context.partialBlobs.isEmpty
        let plan = context.partialBlobs.shortened(
            try chunks.plan(connections: rounds.connections, isResumed: isResumed) { adopted.gaps[$0] })
        origins.set(chunks.rowsWithoutNetwork(plan), .reused)
        planned(plan)
        progress.fetch(wire: plan.fetchBytes)
        if let shortage = try context.destination.shortage(of: open, in: manifest, present: present) { throw shortage }
        // Tens of thousands of links take a second: create them while data arrives.
        let fetched = chunks.run(plan, rounds, origins) { [context] in context.stageSmallEntries(open) }
        outcome.failures += fetched.failures
        outcome.reusedBytes &+= fetched.bytes
    }

    /// Waits until everything is in place.
    private func finish(_ outcome: inout Outcome) {
        let placed = context.committer.finish()
        outcome.records = placed.records
        outcome.failures += placed.failures.map { RowFailure(row: $0.row, disk: $0.error) }
        outcome.failures += placed.refusals.sorted { $0.key < $1.key }.map {
            RowFailure(row: $0.key, reason: $0.value, cause: .rejected)
        }
        outcome.leftUnsynced = placed.leftUnsynced
        guard let failure = context.disk.failure else { return }
        // The transfers were stopped because of that, whatever they report.
        outcome.diskFailure = failure
        outcome.failures.removeAll { !$0.cause.isOfDisk }
        let known = Set(outcome.failures.map(\.row)).union(placed.records.rows)
        outcome.failures += wanted.without(known).map { RowFailure(row: $0, disk: failure) }
    }
}

import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

// Gets files to the destination, each from the nearest source of its bytes: another local file, the remains of an
// interrupted run, chunks of older files, the network.
extension FetchRounds {
    /// Fetches rows; ``finish(_:)`` waits until they are in place.
    ///
    /// - Parameters:
    ///   - wanted: The rows to place, ascending.
    ///   - first: The most urgent paths, of files and of directories: they are fetched before everything else is even
    ///     planned.
    ///   - planned: Receives the plan for the fetch.
    /// - Throws: ``EngineError`` when nothing could be fetched; what was placed before that counts.
    mutating func fetch(_ wanted: [Int], first paths: [String], planned: (Plan) -> Void) throws(EngineError) {
        environment.live.watch(context.progressOfParts)
        do {
            let local = context.copyLocally(wanted)
            reusedBytes = local.bytes
            onBytes(local.bytes)

            let rest = wanted.without(local.rows)
            let adopted = try Leftovers(adopting: rest, in: context)
            onBytes(adopted.bytes)

            var open = rest.without(adopted.complete)
            failures += fetchUrgent(paths, of: &open, adopted)
            // Verifiers check single files.
            if environment.verifications.isEmpty {
                context.wholes.choose(wanted, open: open, of: manifest.files, in: context.destination)
            }
            try fetchRest(open, adopted, planned)
        } catch { throw error as? EngineError ?? EngineError(.internalError, "\(error)") }
    }

    /// Fetches the most urgent rows, in requests of their own.
    ///
    /// - Parameter open: Wanted rows; those fetched here are removed.
    private func fetchUrgent(_ paths: [String], of open: inout [Int], _ adopted: Leftovers) -> [RowFailure] {
        guard !paths.isEmpty, !context.isStopped else { return [] }
        var isFirst = [Bool](repeating: false, count: manifest.files.count)
        for path in paths { for row in manifest.files.rows(below: Array(path.utf8)) { isFirst[row] = true } }
        let first = open.filter { isFirst[$0] }
        guard !first.isEmpty else { return [] }
        open = open.without(Set(first))
        let plan = makePlan(
            manifest, wanted: first, rule: CoalescingRule(spanLength: 1 << 20), gaps: { adopted.gaps[$0] },
            skipping: context.isHere)
        return run(plan, isAll: false)
    }

    /// Copies chunks and fetches the rest; creates links and empty files meanwhile.
    private mutating func fetchRest(_ open: [Int], _ adopted: Leftovers, _ planned: (Plan) -> Void) throws {
        let present = { (rows: [Int]) in adopted.present(of: rows) }
        var unwanted = adopted.unwanted
        if !unwanted.isEmpty, try context.destination.shortage(of: open, in: manifest, present: present) != nil {
            // Their chunks may be useful, but their space is needed more.
            for file in unwanted { context.staging.remove(file) }
            unwanted = []
        }
        let local = LocalBytes(
            manifest, wanted: open, isHere: context.isHere, index: context.index,
            destination: context.destination, staging: context.staging, leftovers: unwanted, environment,
            isStopped: { [context] in context.isStopped })
        // Records the chunks of the old and the new files.
        ChunkSources.remember(manifest, index: context.index, in: context.destination)
        let copies = ChunkCopies(context, local.sources, rows: open)
        let isResumed = adopted.bytes > 0 || !context.partialBlobs.isEmpty
        let plan = context.partialBlobs.shortened(
            local.plan(connections: connections, isResumed: isResumed) { adopted.gaps[$0] })
        if !copies.rows.isEmpty {
            let withoutNetwork = copies.rows.subtracting(plan.targets.map(\.row))
            context.reused.withLock { $0.formUnion(withoutNetwork) }
        }
        planned(plan)
        if let shortage = try context.destination.shortage(of: open, in: manifest, present: present) { throw shortage }
        environment.releaseMemory()  // The memory of searching and planning.
        (bases, self.copies) = (local.bases, copies)
        failures += concurrently(3, name: "fetch") { [self] part -> [RowFailure] in
            switch part {
            // Tens of thousands of links take a second: create them while data arrives.
            case 0: context.stageSmallEntries(open)
            case 1: context.isStopped ? [] : run(plan)
            default: copies.run(onBytes: onBytes)
            }
        }.flatMap { $0 }
        (bases, self.copies) = (nil, nil)
        let outcome = copies.outcome
        if !context.isStopped { fetchMissing(outcome.missing) }
        for file in unwanted { context.staging.remove(file) }
        reusedBytes &+= outcome.bytes
    }

    /// Fetches chunks that no local file had after all.
    private mutating func fetchMissing(_ rows: Set<Int>) {
        let missing = rows.subtracting(failures.map(\.row)).sorted()
        guard !missing.isEmpty else { return }
        context.reused.withLock { $0.subtract(missing) }
        let isHere = context.isHere
        let rule = Self.rule(for: manifest, wanted: missing, connections: connections, skipping: isHere)
        failures += run(makePlan(manifest, wanted: missing, rule: rule, skipping: isHere))
    }

    /// Waits until everything is in place.
    ///
    /// - Returns: The results of placing; why rows are missing is added to ``failures``.
    mutating func finish(_ wanted: [Int]) -> Committer.Outcome {
        let placed = context.committer.finish()
        failures += placed.failures.map { RowFailure(row: $0.row, disk: $0.error) }
        failures += placed.refusals.sorted { $0.key < $1.key }.map {
            RowFailure(row: $0.key, reason: $0.value, cause: .rejected)
        }
        guard let failure = context.disk.failure else { return placed }
        // The transfers were stopped because of that, whatever error they report.
        failures.removeAll { !$0.cause.isOfDisk }
        let known = Set(failures.map(\.row)).union(placed.records.rows)
        failures += wanted.without(known).map { RowFailure(row: $0, disk: failure) }
        return placed
    }
}

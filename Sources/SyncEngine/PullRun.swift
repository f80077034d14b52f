import SyncDigest
import SyncFiles
import SyncManifest
import SyncModel
import SyncPlanner
import SyncPlugins
import SyncUnpack
import Synchronization

/// One execution of one manifest in one destination.
struct PullRun {
    let options: PullOptions
    let environment: EngineEnvironment
    let found: FoundManifest
    let destination: Destination
    /// **Milliseconds** since 1970.
    var started: Int64 = 0
    let identifier: String
    let session: String
    let journal: RunJournal

    private var report = PullReport()

    init(
        options: PullOptions,
        environment: EngineEnvironment,
        found: FoundManifest,
        destination: Destination
    ) {
        self.options = options
        self.environment = environment
        self.found = found
        self.destination = destination
        session = options.session ?? found.project
        identifier = Self.runIdentifier(environment)
        journal = RunJournal(environment: environment, session: session, run: identifier)
    }

    /// Sorts by time: `20261120T020000Z-` and 8 hexadecimal digits.
    private static func runIdentifier(_ environment: EngineEnvironment) -> String {
        let digits = timestamp(milliseconds: environment.now()).prefix(19).filter { $0 != "-" && $0 != ":" }
        let random = String(environment.random() & 0xFFFF_FFFF, radix: 16)
        return digits + "Z-" + String(repeating: "0", count: 8 - random.count) + random
    }

    static func selectedRows(_ manifest: Manifest, _ groups: [String]) throws(EngineError) -> [Int] {
        do throws(UnknownGroup) {
            return try manifest.selection(groups: groups).rows
        } catch {
            throw EngineError(.usage, "\(error)")
        }
    }

    /// A hook for a group that is not there would never run, and nobody would hear of it.
    private func requireHookGroups(_ manifest: Manifest) throws(EngineError) {
        let groups = options.hooks.map(\.group).filter { $0 != "all" }
        if !groups.isEmpty { _ = try Self.selectedRows(manifest, groups) }
    }

    mutating func run() throws(EngineError) -> PullReport {
        report.session = session
        report.run = identifier
        let index = StatIndex.read(from: destination)
        let owner = index.owner.split(separator: "\n", omittingEmptySubsequences: false).first.map(
            String.init
        )
        if let owner, !owner.isEmpty, owner != found.project {
            throw EngineError(
                .cannotCreate,
                "\(escaped(destination.path)) belongs to project \(escaped(owner)), not \(escaped(found.project));"
                    + " choose another directory with --into"
            )
        }
        journal.started(found, destination: destination.path)
        if let shortcut = unchangedSinceCompletion(index) { return try finish(shortcut, index) }
        let manifest = try found.decode()
        let states = try bring(manifest, index)
        return try conclude(manifest, states)
    }

    // MARK: Nothing to do

    /// When the index was completed for this very manifest and every file still has the status it had, there is
    /// nothing to decode, open or write.
    private func unchangedSinceCompletion(_ index: StatIndex) -> StatIndex.Completion? {
        guard let completion = index.completion, completion.manifest == found.digest,
            completion.selection == selectionMark(options.groups),
            !options.prune || UInt64(index.count) == completion.files,
            IndexCheck(index: index, destination: destination, threads: environment.workers).isCurrent()
        else { return nil }
        return completion
    }

    private mutating func finish(
        _ completion: StatIndex.Completion,
        _ index: StatIndex
    ) throws(EngineError) -> PullReport {
        report.files.total = Int(clamping: completion.files)
        report.files.unchanged = report.files.total
        report.bytes.total = completion.totalBytes
        journal.planned(Plan(), total: report.files.total, unchanged: report.files.unchanged)
        if !options.hooks.isEmpty {
            // Hooks get every file by name.
            let manifest = try found.decode()
            var states = RowStates(count: manifest.files.count)
            for row in try Self.selectedRows(manifest, options.groups) { states[row] = .unchanged }
            try requireHookGroups(manifest)
            return try conclude(manifest, states)
        }
        let names = index.owner.split(separator: "\n").dropFirst().map(String.init)
        for group in ["all"] + names
        where options.groups.isEmpty || group == "all" || options.groups.contains(group) {
            journal.groupCompleted(group, result: .ok)
        }
        return finished()
    }

    // MARK: Bringing

    private mutating func bring(
        _ manifest: Manifest,
        _ index: StatIndex
    ) throws(EngineError) -> RowStates {
        let rows = try Self.selectedRows(manifest, options.groups)
        try requireHookGroups(manifest)
        var states = RowStates(count: manifest.files.count)
        for row in rows { states[row] = .pending }
        report.files.total = rows.count
        report.bytes.total = rows.reduce(UInt64(0)) { $0 &+ manifest.files.size($1) }

        let logged = Set(IndexLog.read(destination).map(\.path))
        let stop = environment.stop
        func look(at rows: [Int]) -> Inventory {
            InventoryScan(
                manifest: manifest,
                rows: rows,
                destination: destination,
                index: index,
                logged: logged,
                threads: environment.workers,
                isStopped: { stop.isStopped }
            ).run()
        }
        var inventory = look(at: rows)
        let pruning = Pruning(manifest: manifest, destination: destination, index: index)
        let obsolete = pruning.candidates()
        if options.prune { try checkPrune(obsolete.count, index) }
        var gone = remove(pruning.blocking(obsolete), pruning)
        if !gone.isEmpty, !inventory.obstructed.isEmpty {
            // What was in the way may have been ours.
            let again = look(at: inventory.obstructed.map(\.row))
            inventory.obstructed = again.obstructed
            inventory.wanted = (inventory.wanted + again.wanted).sorted()
        }
        for row in rows where inventory.records[row] != nil { states[row] = .unchanged }
        for obstruction in inventory.obstructed {
            fail(obstruction.row, "\(obstruction.error)", &states, manifest)
        }

        if !inventory.wanted.isEmpty {
            try fetch(manifest, index, &inventory, &states)
        }
        if options.prune, !stop.isStopped {
            // Only now: what moved has been copied from its old place.
            gone.formUnion(remove(obsolete.filter { !gone.contains($0) }, pruning))
        }
        if !stop.isStopped || !inventory.wanted.isEmpty {
            try writeIndex(manifest, rows, index, inventory, states, gone: gone)
        }
        return states
    }

    /// Refuses to remove more than half of what is here, unless forced.
    private func checkPrune(_ doomed: Int, _ index: StatIndex) throws(EngineError) {
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
    private mutating func remove(_ doomed: [Int], _ pruning: Pruning) -> Set<Int> {
        guard !doomed.isEmpty else { return [] }
        let result = pruning.remove(doomed)
        report.files.removed += result.removed
        for position in result.gone {
            journal.removed(pruning.index.withPath(position) { String(decoding: $0, as: UTF8.self) })
        }
        return Set(result.gone)
    }

    private mutating func fetch(
        _ manifest: Manifest,
        _ index: StatIndex,
        _ inventory: inout Inventory,
        _ states: inout RowStates
    ) throws(EngineError) {
        let staging: Staging
        do throws(FileError) {
            staging = try Staging(destination, lanes: environment.workers + 2)
        } catch {
            throw PullEngine.cannotUse(error)
        }
        let progress = ProgressCount(
            files: inventory.wanted.count,
            bytes: inventory.wanted.reduce(UInt64(0)) { $0 &+ manifest.files.size($1) },
            report: environment.progress
        )
        let origins = Mutex<[Int: RowOrigin]>([:])
        let origin = RowOrigins(origins: origins)
        let committer = Committer(
            manifest: manifest,
            destination: destination,
            staging: staging,
            isDurable: environment.isDurable
        ) { [journal] rows in
            for row in rows { journal.installed(row, of: manifest, from: origin[row]) }
            progress.add(files: rows.count)
        }
        var failures: [FetchRounds.Failure] = []
        let copies = LocalCopies(
            manifest: manifest,
            destination: destination,
            index: index,
            staging: staging,
            committer: committer,
            threads: environment.workers,
            isStopped: { [stop = environment.stop] in stop.isStopped }
        ).run(wanted: inventory.wanted)
        origin.set(copies.rows, .reused)
        report.bytes.reused = copies.bytes
        progress.add(bytes: copies.bytes)

        let rest = inventory.wanted.filter { !copies.rows.contains($0) }
        let rounds = FetchRounds(
            manifest: manifest,
            baseURL: found.baseURL,
            environment: environment,
            staging: staging,
            committer: committer,
            connections: options.connections,
            onBytes: { progress.add(bytes: $0) }
        )
        let parts = PartFiles(manifest: manifest, staging: staging, lane: environment.workers)
        let leftovers = Leftovers(manifest: manifest, parts: parts, staging: staging, committer: committer)
        do {
            let adopted = try leftovers.adopt(rest)
            origin.set(adopted.complete, .reused)
            progress.add(bytes: adopted.bytes)
            let open = rest.filter { !adopted.complete.contains($0) }
            let rule = FetchRounds.rule(for: manifest, wanted: open, connections: options.connections)
            let plan = try makePlan(
                manifest,
                wanted: open,
                rule: rule,
                prefix: { adopted.prefixes[$0] ?? 0 },
                skipping: { parts.isHere(row: $0, blob: $1) }
            )
            journal.planned(plan, total: report.files.total, unchanged: states.count(.unchanged))
            try destination.checkSpace(for: open, of: manifest, present: adopted.bytes)
            let small = SmallEntries(manifest: manifest, staging: staging, committer: committer)
            let (lane, stop) = (environment.workers + 1, environment.stop)
            // Tens of thousands of links take a second of system calls: nobody waits for them.
            failures += concurrently(2, name: "fetch") { part in
                part == 0
                    ? small.stage(open, lane: lane) : stop.isStopped ? [] : rounds.run(plan, parts: parts)
            }.joined()
        } catch {
            _ = committer.finish()
            throw error as? EngineError ?? EngineError(.internalError, "\(error)")
        }
        let outcome = committer.finish()
        for (row, record) in outcome.records {
            inventory.records[row] = record
            states[row] = origin[row] == .reused ? .reused : .installed
        }
        for (row, error) in outcome.failures {
            failures.append(FetchRounds.Failure(row: row, reason: "\(error)", isDisk: true))
        }
        note(failures, &states, manifest)
    }

    private mutating func note(
        _ failures: [FetchRounds.Failure],
        _ states: inout RowStates,
        _ manifest: Manifest
    ) {
        for failure in failures where states[failure.row] == .pending {
            if environment.stop.isStopped, !failure.isDisk { continue }
            fail(failure.row, failure.reason, &states, manifest)
            if failure.isDisk { report.status = .ioError }
        }
        guard report.status == .done, !failures.isEmpty, !environment.stop.isStopped else { return }
        let nothingCame = states.count(.installed) == 0
        if failures.allSatisfy(\.isRefused) {
            report.status = .refused
        } else if nothingCame, failures.allSatisfy(\.isUnreachable) {
            report.status = .unavailable
        }
    }

    private func fail(_ row: Int, _ reason: String, _ states: inout RowStates, _ manifest: Manifest) {
        states.fail(row, reason)
        journal.failed(manifest.files.path(row), reason: reason)
    }

    // MARK: The end

    private func writeIndex(
        _ manifest: Manifest,
        _ rows: [Int],
        _ index: StatIndex,
        _ inventory: Inventory,
        _ states: RowStates,
        gone: Set<Int>
    ) throws(EngineError) {
        let isComplete = rows.allSatisfy { inventory.records[$0] != nil }
        let completion = StatIndex.Completion(
            manifest: manifest.digest,
            selection: selectionMark(options.groups),
            totalBytes: report.bytes.total,
            files: UInt64(rows.count)
        )
        let merged = IndexMerge(manifest: manifest, records: inventory.records, old: index, gone: gone)
        let owner = ([manifest.project] + manifest.groups.map(\.name)).joined(separator: "\n")
        do throws(FileError) {
            try merged.write(
                to: destination,
                owner: owner,
                completion: isComplete ? completion : nil,
                durable: environment.isDurable
            )
            IndexLog.remove(destination)
        } catch {
            // Files are in place and verified; the next run hashes them again. Disk full is the likely cause.
            throw EngineError(.ioError, "\(error)")
        }
    }

    private mutating func conclude(
        _ manifest: Manifest,
        _ states: RowStates
    ) throws(EngineError) -> PullReport {
        report.files.installed = states.count(.installed)
        report.files.reused = states.count(.reused)
        report.files.unchanged = states.count(.unchanged)
        report.files.failed = states.count(.failed)
        let pending = states.count(.pending)
        if report.files.failed + pending > 0 {
            report.result = report.files.total == report.files.failed + pending ? .failed : .partial
            if report.status == .done { report.status = .incomplete }
        }
        guard !environment.stop.isStopped || pending == 0 else { return finished() }
        count()
        let groups = GroupCompletion(
            manifest: manifest,
            states: states,
            journal: journal,
            environment: environment,
            options: options,
            destination: destination.path
        )
        if !groups.run(report), report.status == .done { report.status = .hookFailed }
        return finished()
    }

    /// What has been sent and received so far: hooks are told, too.
    private mutating func count() {
        let totals = environment.transport.totals
        report.requests = totals.requests
        report.bytes.received = totals.bytesReceived
        report.elapsedMilliseconds = environment.now() - started
    }

    private mutating func finished() -> PullReport {
        count()
        journal.finished(report)
        return report
    }
}

/// First 8 bytes of the SHA-256 of the sorted group names; 0 for all files.
func selectionMark(_ groups: [String]) -> UInt64 {
    guard !groups.isEmpty, !groups.contains("all"),
        let digest = try? sha256(Set(groups).sorted().joined(separator: "\n"))  // No memory: no short cut.
    else { return 0 }
    return (0..<8).reduce(1) { $0 << 8 | UInt64(digest[byte: $1]) } | 1
}

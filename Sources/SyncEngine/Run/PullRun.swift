import SyncDigest
import SyncFiles
import SyncManifest
import SyncModel
import SyncPlanner
import SyncPlugins
import SyncStore
import SyncSystem
import SyncUnpack

/// One execution of one manifest in one destination.
struct PullRun {
    private(set) var recipe: RunRecipe
    private(set) var facts: ManifestFacts
    let environment: EngineEnvironment
    let found: FoundManifest
    let destination: Destination
    /// **Milliseconds** since 1970.
    let started: Int64
    let progress: ProgressCount
    let session: String
    /// The run to take up; `nil` to begin one.
    let recorded: StoredRun?
    /// Whether another process has worked on it before.
    var isTakenUp = false

    var journal: RunJournal
    var report = PullReport()

    init(
        recipe: RunRecipe,
        environment: EngineEnvironment,
        found: FoundManifest,
        destination: Destination,
        started: Int64,
        progress: ProgressCount,
        recorded: StoredRun?
    ) {
        self.recipe = recipe
        facts = recorded?.facts ?? found.facts
        facts.userData = facts.userData ?? recipe.userData?.text
        (self.environment, self.found, self.destination) = (environment, found, destination)
        (self.started, self.progress, self.recorded) = (started, progress, recorded)
        session = recipe.session ?? found.project
        journal = RunJournal(environment: environment, session: session, run: "")
        report.session = session
    }

    /// Runs it to its end, or to where it is stopped; the caller has the session and the destination.
    mutating func run() throws(EngineError) -> PullReport {
        let index = StatIndex.read(from: destination)
        try Self.requireOwner(index, of: destination.path, project: found.project)
        let completion = unchangedSinceCompletion(index)
        let names: [String]
        var manifest: Manifest?
        var named: NamedHooks?
        if completion != nil, recipe.hooks.isEmpty, environment.namedHooks.isEmpty {
            names = index.owner.split(separator: "\n").dropFirst().map(String.init)
            facts.revision = index.revision?.number
        } else {
            // Hooks get every file by name.
            let decoded = try found.decode()
            if recorded == nil {
                let found = NamedHooks(decoded, recipe, environment.namedHooks)
                recipe.hooks += found.specifications
                named = found
            }
            // A hook for a group that is not there would never run, and nobody would hear of it.
            try Self.requireHookGroups(recipe, decoded)
            try Self.requireGroups(recipe.groups, in: decoded)
            names = decoded.groups.map(\.name)
            facts.revision = decoded.revision
            facts.userData = facts.userData ?? decoded.userData
            manifest = decoded
        }
        let record = try enter(GroupCompletion.names(names, recipe))
        named?.tell(environment.events, session: session, run: report.run, time: environment.now())
        do throws(EngineError) {
            if let manifest {
                let states: RowStates
                if let completion {
                    states = try unchanged(completion, manifest)
                } else {
                    states = try bring(manifest, index)
                }
                return try conclude(manifest, states, record)
            }
            return try finish(completion, GroupCompletion.names(names, recipe), record)
        } catch {
            throw failed(error, record)
        }
    }

    static func requireOwner(
        _ index: StatIndex,
        of path: String,
        project: String
    ) throws(EngineError) {
        let owner = index.owner.split(separator: "\n", omittingEmptySubsequences: false).first.map(
            String.init
        )
        guard let owner, !owner.isEmpty, owner != project else { return }
        throw EngineError(
            .cannotCreate,
            "\(escaped(path)) belongs to project \(escaped(owner)), not \(escaped(project));"
                + " choose another directory with --into"
        )
    }

    // MARK: Nothing to do

    /// When the index was completed for this very manifest and every file still has the status it had, there is
    /// nothing to decode, open or write.
    private func unchangedSinceCompletion(_ index: StatIndex) -> StatIndex.Completion? {
        guard let completion = index.completion, completion.manifest == found.digest,
            completion.selection == selectionMark(recipe),
            !recipe.prune || UInt64(index.count - index.namedDirectories) == completion.files,
            IndexCheck(index: index, destination: destination, threads: environment.workers).isCurrent()
        else { return nil }
        return completion
    }

    private mutating func unchanged(
        _ completion: StatIndex.Completion,
        _ manifest: Manifest
    ) throws(EngineError) -> RowStates {
        report.files.total = Int(clamping: completion.files)
        report.bytes.total = completion.totalBytes
        journal.planned(Plan(), total: report.files.total, unchanged: report.files.total)
        var states = RowStates(count: manifest.files.count)
        for row in try Self.selectedRows(manifest, recipe, environment.stop) {
            states[row] = .unchanged
        }
        return states
    }

    // MARK: Bringing

    private mutating func bring(
        _ manifest: Manifest,
        _ found: StatIndex
    ) throws(EngineError) -> RowStates {
        let rows = try Self.selectedRows(manifest, recipe, environment.stop)
        var states = RowStates(count: manifest.files.count)
        for row in rows { states[row] = .pending }
        report.files.total = rows.count
        report.bytes.total = rows.reduce(UInt64(0)) { $0 &+ manifest.files.size($1) }

        try checkRevision(manifest, found)
        try environment.refuseMeetingNames(of: manifest, in: destination)
        let log = IndexLog.read(destination)
        let logged = Set(log.map(\.path))
        let index = try fold(log, into: found)
        let (stop, directoryFoldsCase) = (environment.stop, environment.directoryFoldsCase)
        func look(at rows: [Int]) -> Inventory {
            InventoryScan(
                manifest: manifest,
                rows: rows,
                destination: destination,
                index: index,
                logged: logged,
                threads: environment.workers,
                foldsCase: directoryFoldsCase,
                isStopped: { stop.isStopped }
            ).run()
        }
        var inventory = look(at: rows)
        try environment.refuseMeetingNames(of: manifest, in: destination, folding: inventory.folding)
        let backup = try openBackup()
        let pruning = Pruning(manifest: manifest, destination: destination, index: index, backup: backup)
        let named = NamedDirectories(
            manifest: manifest,
            destination: destination,
            index: index,
            rows: Self.selectedDirectories(manifest, recipe, rows)
        )
        let unnamed = pruning.obsolete()
        let obsolete = unnamed.filter { index.record($0)?.installed == true }
        if recipe.prune { try checkPrune(obsolete.count, index) }
        for row in rows where inventory.records.has(row) { states[row] = .unchanged }
        try takeUp(logged, inventory, manifest, rows, &states)
        IndexLog.remove(destination)
        let missingDirectories = named.preview().missing
        named.announce(missingDirectories)
        if !inventory.wanted.isEmpty || !obsolete.isEmpty { named.prepare() }
        let formerDirectories = pruning.obsoleteDirectories()
        if recipe.prune { named.prepare(former: formerDirectories) }
        var gone = remove(
            pruning.blocking(obsolete) + pruning.blockingDirectories(formerDirectories),
            pruning
        )
        gone.formUnion(try removeStraying(unnamed.filter { !gone.contains($0) }, rows, pruning))
        if !gone.isEmpty, !inventory.obstructed.isEmpty {
            // What was in the way may have been ours.
            let again = look(at: inventory.obstructed.map(\.row))
            inventory.obstructed = again.obstructed
            inventory.wanted = (inventory.wanted + again.wanted).sorted()
        }
        let tasks = environment.live.begin(states, bytes: report.bytes.total)
        for obstruction in inventory.obstructed {
            fail(obstruction.row, obstruction.error.reason, obstruction.error.cause, &states, manifest)
        }
        let links = UpwardLinks(manifest, destination, index)
        for row in inventory.wanted where links.isAstray(row) {
            fail(
                row,
                UpwardLinks.astray,
                .inTheWay,
                &states,
                manifest
            )
        }
        inventory.wanted.removeAll { states[$0] == .failed }

        if !inventory.wanted.isEmpty {
            try fetch(manifest, index, &inventory, &states, tasks, backup)
        }
        if recipe.prune, !stop.isStopped || states.count(.pending) == 0 {
            // Only now: what moved has been copied from its old place. A stop that comes when every file is in place
            // does not keep the run from its end, so it must not keep it from this.
            let former = formerDirectories.filter { index.record($0)?.installed == true }
            gone.formUnion(remove((obsolete + former).filter { !gone.contains($0) }, pruning))
            // The others are not ours to remove, ever.
            gone.formUnion(formerDirectories)
        }
        let directories = furnish(named, missingDirectories)
        keepReasons(states, manifest)
        if !stop.isStopped || !inventory.wanted.isEmpty {
            count(states)
            do throws(EngineError) {
                try writeIndex(manifest, rows, index, inventory, directories, gone: gone)
            } catch {
                // Where the disk is full that has been said: the next pull looks at what the log names.
                guard report.status == .ioError else { throw error }
            }
        }
        return states
    }

    private mutating func fetch(
        _ manifest: Manifest,
        _ index: StatIndex,
        _ inventory: inout Inventory,
        _ states: inout RowStates,
        _ tasks: TaskRecord,
        _ backup: BackupDirectory?
    ) throws(EngineError) {
        let manifest = manifest.sharingBlobs(among: inventory.wanted)
        let staging: Staging
        do throws(FileError) {
            staging = try Staging(destination, lanes: environment.workers + 2)
        } catch {
            throw PullEngine.cannotUse(error)
        }
        let progress = progress
        progress.begin(
            files: inventory.wanted.count,
            bytes: inventory.wanted.reduce(UInt64(0)) { $0 &+ manifest.files.size($1) }
        )
        let origins = Mutex<[Int: RowOrigin]>([:])
        let origin = RowOrigins(origins: origins)
        let wholes = WholeDirectories()
        staging.takeApart(for: manifest, wanted: inventory.wanted)
        let disk = FullDisk()
        let committer: Committer
        do throws(ThreadError) {
            committer = try Committer(
                manifest: manifest,
                destination: destination,
                staging: staging,
                isDurable: environment.isDurable,
                verifications: environment.verifications,
                wholes: wholes,
                backup: backup,
                disk: disk
            ) { [journal] rows in
                for row in rows { journal.installed(row, of: manifest, from: origin[row]) }
                tasks.installed(rows) { origin[$0] == .reused }
                progress.add(files: rows.count)
            }
        } catch {
            throw EngineError(.ioError, "\(error)")
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

        let rest = inventory.wanted.without(copies.rows)
        let rounds = FetchRounds(
            manifest: manifest,
            baseURL: found.baseURL,
            referrer: found.referrer,
            environment: environment,
            staging: staging,
            committer: committer,
            wholes: wholes,
            connections: recipe.plannedConnections,
            begun: BegunBlobs(manifest: manifest, staging: staging, lane: environment.workers),
            onBytes: { progress.add(bytes: $0) },
            disk: disk,
            dictionary: found.dictionary(of: manifest)
        )
        let (begun, parts) = (
            rounds.begun,
            PartFiles(
                manifest: manifest,
                staging: staging,
                lane: environment.workers,
                isStopped: { [stop = environment.stop] in stop.isStopped }
            )
        )
        let leftovers = Leftovers(
            manifest: manifest,
            parts: parts,
            begun: begun,
            committer: committer,
            isStopped: { [stop = environment.stop] in stop.isStopped }
        )
        do {
            let adopted = try leftovers.adopt(rest)
            origin.set(adopted.complete, .reused)
            progress.add(bytes: adopted.bytes)
            var wanted = rest.without(adopted.complete)
            failures += try fetchFirst(&wanted, manifest, rounds, parts) { adopted.prefixes[$0] ?? 0 }
            let open = wanted
            // A verifier looks at files one by one.
            if environment.verifications.isEmpty {
                wholes.choose(inventory.wanted, open: open, of: manifest.files, in: destination)
            }
            let chunks = ChunkReuse(
                manifest: manifest,
                wanted: open,
                parts: parts,
                leftovers: adopted.unwanted,
                index: index,
                destination: destination,
                staging: staging,
                committer: committer,
                threads: environment.workers,
                isStopped: { [stop = environment.stop] in stop.isStopped }
            )
            let isResumed = adopted.bytes > 0 || !begun.isEmpty
            let plan = begun.shortened(
                try chunks.plan(connections: recipe.plannedConnections, isResumed: isResumed) {
                    adopted.prefixes[$0] ?? 0
                }
            )
            origin.set(chunks.rowsWithoutNetwork(plan), .reused)
            journal.planned(plan, total: report.files.total, unchanged: states.count(.unchanged))
            progress.fetch(wire: plan.fetchBytes)
            try destination.checkSpace(SpaceNeed(open, of: manifest, present: adopted.bytes))
            let small = SmallEntries(
                manifest: manifest,
                staging: staging,
                committer: committer,
                wholes: wholes,
                isStopped: { [stop = environment.stop] in stop.isStopped }
            )
            // Tens of thousands of links take a second of system calls: nobody waits for them.
            let lane = environment.workers + 1
            let fetched = chunks.run(plan, rounds, origin: origin) { small.stage(open, lane: lane) }
            failures += fetched.failures
            report.bytes.reused &+= fetched.bytes
        } catch {
            _ = committer.finish()
            throw error as? EngineError ?? EngineError(.internalError, "\(error)")
        }
        let outcome = committer.finish()
        inventory.records.take(outcome.records)
        for row in outcome.records.rows { states[row] = origin[row] == .reused ? .reused : .installed }
        for (row, error) in outcome.failures {
            failures.append(FetchRounds.Failure(row: row, disk: error))
        }
        for (row, reason) in outcome.refusals.sorted(by: { $0.key < $1.key }) {
            failures.append(FetchRounds.Failure(row: row, reason: reason, cause: .rejected))
        }
        if disk.isFull {
            // The transfers were broken off for that, whatever they say.
            report.reason = FullDisk.reason
            failures.removeAll { !$0.cause.isOfDisk }
            let known = Set(failures.map(\.row))
            failures += inventory.wanted.filter { states[$0] == .pending && !known.contains($0) }.map {
                FetchRounds.Failure(row: $0, reason: FullDisk.reason, cause: .diskFull)
            }
        }
        note(failures, &states, manifest)
    }

    private mutating func note(
        _ failures: [FetchRounds.Failure],
        _ states: inout RowStates,
        _ manifest: Manifest
    ) {
        for failure in failures where states[failure.row] == .pending {
            if environment.stop.isStopped, !failure.cause.isOfDisk { continue }
            fail(failure.row, failure.reason, failure.cause, &states, manifest)
            if failure.cause.isOfDisk { report.status = .ioError }
        }
        guard report.status == .done, !failures.isEmpty, !environment.stop.isStopped else { return }
        let nothingCame = states.count(.installed) == 0
        if failures.allSatisfy({ $0.cause == .refusedRedirect }) {
            report.status = .refused
        } else if nothingCame, failures.allSatisfy(\.isUnreachable) {
            report.status = .unavailable
        }
    }

    private func fail(
        _ row: Int,
        _ reason: String,
        _ cause: FailureCause,
        _ states: inout RowStates,
        _ manifest: Manifest
    ) {
        states.end(row, cause == .cancelled ? .cancelled : .failed, reason)
        if cause == .cancelled {
            environment.live.tasks?.cancelled(row)
            journal.cancelled(manifest.files.path(row), reason: reason)
        } else {
            environment.live.tasks?.failed(row)
            journal.failed(manifest.files.path(row), reason: reason, cause)
        }
    }

    /// Why files are not there, for whoever asks later. A failure costs only that.
    private func keepReasons(_ states: RowStates, _ manifest: Manifest) {
        guard !states.reasons.isEmpty else { return }
        let tasks = states.reasons.sorted { $0.key < $1.key }.prefix(SyncStore.mostTasks).map { row, reason in
            StoredTask(
                path: manifest.files.path(row),
                digest: manifest.files.digest(row),
                state: states[row] == .cancelled ? .cancelled : .failed,
                reason: reason
            )
        }
        try? environment.store.record(tasks, of: report.run, now: environment.now())
    }

    // MARK: The end

    private func writeIndex(
        _ manifest: Manifest,
        _ rows: [Int],
        _ index: StatIndex,
        _ inventory: Inventory,
        _ directories: NamedDirectories.Outcome,
        gone: Set<Int>
    ) throws(EngineError) {
        let isComplete = directories.failures.isEmpty && rows.allSatisfy { inventory.records.has($0) }
        let completion = StatIndex.Completion(
            manifest: manifest.digest,
            selection: selectionMark(recipe),
            totalBytes: report.bytes.total,
            files: UInt64(rows.count)
        )
        let merged = IndexMerge(
            manifest: manifest,
            records: inventory.records,
            old: index,
            gone: gone,
            directories: directories.records
        )
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
}

/// First 8 bytes of the SHA-256 of the sorted group names, and of patterns where there are some; 0 for all files.
func selectionMark(_ recipe: RunRecipe) -> UInt64 {
    var texts = recipe.groups.contains("all") ? [] : Set(recipe.groups).sorted()
    if recipe.hasPatterns {
        // No name has a blank.
        texts +=
            Set(recipe.include).sorted().map { " + \($0)" } + Set(recipe.exclude).sorted().map { " - \($0)" }
    }
    // No memory: no short cut.
    guard !texts.isEmpty, let digest = try? sha256(texts.joined(separator: "\n")) else { return 0 }
    return (0..<8).reduce(1) { $0 << 8 | UInt64(digest[byte: $1]) } | 1
}

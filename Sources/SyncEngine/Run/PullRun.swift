import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncPlugins
import SyncStore
import SyncSystem

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
    /// The run to take over; `nil` to start a new one.
    let recorded: StoredRun?
    /// Whether another process has worked on it before.
    var isTakenUp = false
    /// Whether a syncfs has failed: then nothing is removed.
    private var hasSyncFailed = false
    /// Whether files are in place that may not be durable: then the log stays.
    private var hasUnsyncedFiles = false

    var journal: RunJournal
    var report = PullReport()
    /// Whether this process's work is reported; nothing but the end of the run is left to record then.
    var isSummarized = false

    init(
        recipe: RunRecipe, environment: EngineEnvironment, found: FoundManifest, destination: Destination,
        started: Int64, progress: ProgressCount, recorded: StoredRun?
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

    /// Runs it until it ends or is stopped; the caller holds the session and the destination.
    mutating func run() throws(EngineError) -> PullReport {
        let index = try PullEngine.index(of: destination)
        try Self.requireOwner(index, of: destination.path, project: found.project)
        let completion = unchangedSinceCompletion(index)
        let promised = recorded == nil ? try stored(environment.store.promisedHooks(of: session, to: recipe)) : []
        let names: [String]
        var manifest: Manifest?
        var named: NamedHooks?
        if completion != nil, (recipe.hooks + promised).isEmpty, environment.namedHooks.isEmpty {
            names = index.owner.split(separator: "\n").dropFirst().map(String.init)
            facts.revision = index.revision?.number
        } else {
            // Hooks get the name of every file.
            let decoded = try found.decode()
            if recorded == nil {
                let found = NamedHooks(decoded, recipe, environment.namedHooks)
                recipe.hooks += found.specifications
                named = found
            }
            try recipe.requireGroups(of: decoded)
            if recorded == nil { try recipe.requirePaths(of: decoded, environment.stop) }
            names = decoded.groups.map(\.name)
            recipe.hooks += promised
            facts.revision = decoded.revision
            facts.userData = facts.userData ?? decoded.userData
            manifest = decoded
        }
        let groups = recipe.completing(names)
        try enter(groups)
        named?.tell(environment.events, session: session, run: report.run, time: environment.now())
        do throws(EngineError) {
            if let manifest {
                let states: RowStates
                if let completion {
                    states = try unchanged(completion, manifest, index)
                } else {
                    states = try bring(manifest, index)
                }
                return try conclude(manifest, states)
            }
            report.obsolete = index.obsoleteFiles
            return try finish(completion, groups)
        } catch { throw failed(error) }
    }

    static func requireOwner(_ index: StatIndex, of path: String, project: String) throws(EngineError) {
        let owner = index.owner.split(separator: "\n", omittingEmptySubsequences: false).first.map(String.init)
        guard let owner, !owner.isEmpty, owner != project else { return }
        throw EngineError(
            .cannotCreate,
            "\(escaped(path)) belongs to project \(escaped(owner)), not \(escaped(project));"
                + " choose another directory with --into, or, if the set was renamed, remove \(escaped(path))/.syncagent: files "
                + "stay, and what is right is not fetched again")
    }

    // MARK: Nothing to do

    /// If the index was completed for this manifest and every file is unchanged, nothing has to be decoded, opened or
    /// written.
    private func unchangedSinceCompletion(_ index: StatIndex) -> StatIndex.Completion? {
        guard let completion = index.completion, completion.manifest == found.digest,
            completion.selection == recipe.selectionMark, !recipe.prune || hasNothingToPrune(index, completion),
            index.isCurrent(in: destination, threads: environment.workers)
        else { return nil }
        return completion
    }

    /// Whether the manifest names every file that is installed, those of a killed run included.
    private func hasNothingToPrune(_ index: StatIndex, _ completion: StatIndex.Completion) -> Bool {
        UInt64(index.count - index.namedDirectories) == completion.files && IndexLog.read(destination).isEmpty
    }

    private mutating func unchanged(_ completion: StatIndex.Completion, _ manifest: Manifest, _ index: StatIndex)
        throws(EngineError) -> RowStates
    {
        report.files.total = Int(clamping: completion.files)
        report.bytes.total = completion.totalBytes
        report.obsolete = index.obsoleteFiles
        journal.planned(Plan(), total: report.files.total, unchanged: report.files.total)
        let rows = try recipe.selectedRows(of: manifest, environment.stop)
        return RunFiles(manifest, rows, .unchanged).states
    }

    // MARK: Bringing

    /// In this order: check, make room, bring, remove, create the directories, write the index.
    private mutating func bring(_ manifest: Manifest, _ index: StatIndex) throws(EngineError) -> RowStates {
        let rows = try recipe.selectedRows(of: manifest, environment.stop)
        var files = RunFiles(manifest, rows, .pending)
        report.files.total = rows.count
        report.bytes.total = files.bytes

        environment.live.look(at: files)
        var survey = try look(at: files, index)
        for row in rows where survey.inventory.records.has(row) { files.states[row] = .unchanged }
        try takeUp(survey, &files)
        IndexLog.remove(destination)
        try makeRoom(&survey, files)
        let tasks = environment.live.begin(files.states)
        leaveObstructed(&survey, &files)
        do throws(EngineError) { if !survey.inventory.wanted.isEmpty { try fetch(&survey, &files, tasks) } } catch {
            // The next process of a stopped run finds in the log what is in place, and counts it.
            if environment.stop.reason.map({ $0 == .late }) ?? true { count(files.states) }
            throw error
        }
        if recipe.prune, !hasSyncFailed, !environment.stop.isStopped || files.states.count(.pending) == 0 {
            // When every file is in place, a stop no longer prevents the run's end, nor this.
            prune(&survey)
        }
        report.replaced = survey.inventory.foreign.count {
            files.states[$0] == .installed || files.states[$0] == .reused
        }
        if !recipe.prune { report.obsolete = survey.left(of: survey.obsolete).count }
        let directories = makeDirectories(survey)
        keepReasons(files)
        if !hasUnsyncedFiles, !environment.stop.isStopped || !survey.inventory.wanted.isEmpty {
            count(files.states)
            do throws(EngineError) { try writeIndex(survey, directories, files) } catch {
                // The disk's failure has been reported: the next pull checks what the log names.
                guard report.status == .ioError, report.files.failed > 0 else { throw error }
            }
        }
        return files.states
    }

    /// Determines what to do, and refuses what must not be done, before anything is changed.
    private func look(at files: RunFiles, _ index: StatIndex) throws(EngineError) -> Survey {
        let manifest = files.manifest
        try checkRevision(manifest, index)
        let log = IndexLog.read(destination)
        let index = try fold(log, into: index)
        let survey = try Survey(
            recipe, manifest, rows: files.rows, in: destination, index, logged: Set(log.map(\.path)),
            backup: try BackupDirectory.open(for: recipe, beside: destination), mends: true, environment, progress)
        if recipe.prune, let refusal = survey.pruning.refusal(recipe, removing: survey.obsolete.count) {
            survey.restore()
            throw refusal.error
        }
        return survey
    }

    /// Prepares directories, and removes what is where the manifest wants something else.
    private mutating func makeRoom(_ survey: inout Survey, _ files: RunFiles) throws(EngineError) {
        survey.directories.announce(survey.missingDirectories)
        if !survey.inventory.wanted.isEmpty || !survey.obsolete.isEmpty { survey.directories.prepare() }
        if recipe.prune { survey.directories.prepare(former: survey.formerDirectories) }
        remove(survey.blocking + survey.pruning.blockingDirectories(survey.formerDirectories), &survey)
        try removeStraying(&survey, files.rows)
        guard !survey.gone.isEmpty, !survey.inventory.obstructed.isEmpty else { return }
        // What was in the way may have been ours.
        let taken = survey.inventory.obstructed.filter { $0.error.trouble == .inTheWay }
        let again = InventoryScan(
            manifest: files.manifest, rows: taken.map(\.row), destination: destination, index: survey.index,
            logged: survey.logged, environment: environment, progress: progress
        ).run()
        survey.inventory.obstructed.removeAll { $0.error.trouble == .inTheWay }
        survey.inventory.obstructed += again.obstructed
        survey.inventory.wanted = (survey.inventory.wanted + again.wanted).sorted()
    }

    /// Gives up files whose places cannot be used.
    private func leaveObstructed(_ survey: inout Survey, _ files: inout RunFiles) {
        for obstruction in survey.inventory.obstructed {
            fail(obstruction.row, obstruction.error.reason, obstruction.error.cause, &files)
        }
        let links = UpwardLinks(files.manifest, destination, survey.index)
        for row in survey.inventory.wanted where links.isAstray(row) {
            fail(row, UpwardLinks.astray, .inTheWay, &files)
        }
        survey.inventory.wanted.removeAll { files.states[$0] == .failed }
    }

    private mutating func fetch(_ survey: inout Survey, _ files: inout RunFiles, _ tasks: TaskTracker)
        throws(EngineError)
    {
        let wanted = survey.inventory.wanted
        let manifest = files.manifest.sharingBlobs(among: wanted)
        progress.begin(
            .fetching, files: wanted.count, bytes: wanted.reduce(UInt64(0)) { $0 &+ manifest.files.size($1) })
        let origins = RowOrigins()
        let context = try RunContext(
            manifest, wanted: wanted, destination, survey.index, environment, backup: survey.pruning.backup
        ) { [journal, progress] rows in
            for row in rows { journal.installed(row, of: manifest, from: origins[row]) }
            tasks.installed(rows) { origins[$0] == .reused }
            progress.add(files: rows.count)
        }
        let step = BringStep(
            context, wanted: wanted, from: found, origins: origins, connections: recipe.plannedConnections, progress)
        let (journal, total) = (journal, report.files.total)
        let unchanged = files.states.count(.unchanged)
        var outcome = BringStep.Outcome()
        let result = Result { () throws(EngineError) in
            try step.run(first: recorded?.firstPaths ?? [], into: &outcome) {
                journal.planned($0, total: total, unchanged: unchanged)
            }
        }
        // What came counts even if the rest cannot be fetched.
        report.bytes.reused = outcome.reusedBytes
        survey.inventory.records.take(outcome.records)
        for row in outcome.records.rows { files.states[row] = origins[row] == .reused ? .reused : .installed }
        hasSyncFailed = context.disk.syncFailure != nil
        hasUnsyncedFiles = outcome.leftUnsynced
        try result.get()
        report.reason = outcome.diskFailure?.reasonForFile
        note(outcome.failures, &files)
    }

    private mutating func note(_ failures: [RowFailure], _ files: inout RunFiles) {
        for failure in failures where files.states[failure.row] == .pending {
            if environment.stop.isStopped, !failure.cause.isOfDisk { continue }
            fail(failure.row, failure.reason, failure.cause, &files)
            if failure.cause.isOfDisk { report.status = .ioError }
        }
        guard report.status == .done, !failures.isEmpty, !environment.stop.isStopped else { return }
        if failures.allSatisfy(\.cause.isRefusal) {
            report.status = .refused
        } else if files.states.count(.installed) == 0, failures.allSatisfy(\.isUnreachable) {
            report.status = .unavailable
        }
    }

    private func fail(_ row: Int, _ reason: String, _ cause: FailureCause, _ files: inout RunFiles) {
        files.states.end(row, cause == .cancelled ? .cancelled : .failed, reason)
        environment.live.tasks?.end(row, cause == .cancelled ? .cancelled : .failed)
        journal.failed(files.manifest.files.path(row), reason: reason, cause)
    }

    /// Removes what an earlier pull installed and the manifest no longer names. After everything is in place, since
    /// moved files are copied from their old places.
    private mutating func prune(_ survey: inout Survey) {
        let former = survey.formerDirectories.filter { survey.index.record($0)?.installed == true }
        let failed = remove(survey.left(of: survey.obsolete + former), &survey, isLast: true)
        // The others will never be ours to remove.
        survey.gone.formUnion(survey.formerDirectories.without(failed))
    }

    // MARK: The end

    /// Stores why files are missing, for later queries. Failing to do so does no other harm.
    private func keepReasons(_ files: RunFiles) {
        let (states, table) = (files.states, files.manifest.files)
        guard !states.reasons.isEmpty else { return }
        let tasks = states.reasons.sorted { $0.key < $1.key }.prefix(SyncStore.mostTasks).map { row, reason in
            StoredTask(
                path: table.path(row), digest: table.digest(row),
                state: states[row] == .cancelled ? .cancelled : .failed, reason: reason)
        }
        try? environment.store.record(tasks, of: report.run)
    }

    private func writeIndex(_ survey: Survey, _ directories: NamedDirectories.Outcome, _ files: RunFiles)
        throws(EngineError)
    {
        // The log goes: from then on only the events say what this run has put in place.
        try stored(environment.events.flush(synced: environment.isDurable && report.changed > 0))
        let (manifest, records) = (files.manifest, survey.inventory.records)
        let isComplete = directories.failures.isEmpty && files.rows.allSatisfy { records.has($0) }
        let completion = recipe.selectionMark.map {
            StatIndex.Completion(
                manifest: manifest.digest, selection: $0, totalBytes: files.bytes, files: UInt64(files.rows.count))
        }
        let merged = IndexMerge(
            manifest: manifest, records: records, old: survey.index, gone: survey.gone, directories: directories.records
        )
        do throws(FileError) {
            try merged.write(
                to: destination, owner: ([manifest.project] + manifest.groups.map(\.name)).joined(separator: "\n"),
                completion: isComplete ? completion : nil, durable: environment.isDurable)
            IndexLog.remove(destination)
        } catch {
            // Files are in place and verified; the next run hashes them again. Most likely the disk is full.
            throw EngineError(.ioError, "\(error)", cause: error.cause)
        }
    }
}

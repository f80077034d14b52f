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
    /// The directory that the run changes: the destination, or one of its trees.
    private(set) var destination: Destination
    /// The switch of a destination that changes as a whole; `nil` if files change one by one.
    var trees: TreeSwitch?
    /// Why a new tree is not shown; `nil` if it is, or if there is none.
    private enum Hidden { case incomplete, stopped }
    private var hidden: Hidden?
    /// Files of the shown tree that the manifest no longer names, and that the new tree was not given because somebody
    /// has touched or edited them.
    private var dropped: [(position: Int, finding: Removal.Finding)] = []
    /// **Milliseconds** since 1970.
    let started: Int64
    let progress: ProgressCount
    let session: String
    /// The run to take over; `nil` to start a new one.
    let recorded: StoredRun?
    /// Whether another process has worked on the run before.
    var isContinued = false
    /// Whether a syncfs has failed: then nothing is removed.
    private var hasSyncFailed = false
    /// Whether files are in place that may not be durable: then the log stays.
    private var hasUnsyncedFiles = false
    /// Whether staging has files that could not be removed: then the next run does not skip the set.
    private var hasLeftovers = false
    /// The index before the pieces that this run joins; `nil` if it joins none.
    var beforeJoin: StatIndex?
    /// **Milliseconds** for which this process has waited for the time at which the tree may be shown.
    private var waited: Int64 = 0
    /// Files fetched to learn the sizes or digests that the source does not state.
    private var fetched: Set<SHA256Digest> = []

    var journal: RunJournal
    var report = PullReport()
    /// Whether this process's work is reported; nothing but the end of the run is left to record then.
    var isSummarized = false

    init(
        recipe: RunRecipe, environment: EngineEnvironment, found: FoundManifest, destination: Destination,
        started: Int64, progress: ProgressCount, recorded: StoredRun?, trees: TreeSwitch? = nil
    ) {
        self.recipe = recipe
        self.trees = trees
        // A new tree has only what its manifest names.
        if trees != nil { self.recipe.prune = true }
        facts = recorded?.facts ?? found.facts
        facts.source = facts.source ?? found.origin
        facts.userData = facts.userData ?? recipe.userData?.text
        (self.environment, self.found, self.destination) = (environment, found, destination)
        (self.started, self.progress, self.recorded) = (started, progress, recorded)
        session = recipe.session ?? found.project
        journal = RunJournal(environment: environment, session: session, run: "")
        report.session = session
    }

    /// Works on the run until it ends or is stopped; the caller holds the session and the destination.
    mutating func run() throws(EngineError) -> PullReport {
        try requireKnownDigests()
        let index = try knownIndex()
        try Self.requireOwner(index, of: destination, project: found.project)
        if trees == nil { try BackupDirectory.check(for: recipe, beside: destination) }
        let completion = unchangedSinceCompletion(index)
        if completion == nil, var building = trees {
            destination = try building.build(found.digest)
            trees = building
        }
        let isUnannounced = trees?.isUnannounced ?? false
        let promised = recorded == nil ? try stored(environment.store.promisedHooks(of: session, to: recipe)) : []
        let names: [String]
        var manifest: Manifest?
        var named: NamedHooks?
        if completion != nil, !isUnannounced, (recipe.hooks + promised).isEmpty,
            environment.namedHooks.isEmpty || recipe.piece != nil
        {
            names = index.owner.split(separator: "\n").dropFirst().map(String.init)
            facts.revision = index.revision?.number
        } else {
            // Hooks need the name of every file.
            let decoded = try decode(adding: promised)
            (manifest, named) = (decoded.manifest, decoded.named)
            names = decoded.manifest.groups.map(\.name)
        }
        let groups = recipe.completing(names)
        try enter(groups)
        if let named { journal.undefined(named) }
        do throws(EngineError) {
            if let completion { try trees?.recordShown(completion, revision: facts.revision ?? 0, run: report.run) }
            // The whole's index has every file: the shards' state is no longer needed.
            if completion != nil, recipe.join != nil { destination.forgetShards() }
            if let manifest {
                if let completion {
                    var files = try unchanged(completion, manifest, index)
                    if isUnannounced, let trees {
                        try claim(files.unseen(since: try trees.formerIndex()), &files, isReused: !isContinued)
                        list(files)
                    }
                    return try conclude(files)
                }
                let files = try update(manifest, index)
                try show(files)
                return try conclude(files)
            }
            report.obsolete = index.obsoleteFiles
            return try finish(completion, groups)
        } catch { throw failed(error) }
    }

    /// Decodes the manifest, checks the selection, and takes hooks and facts from it.
    ///
    /// - Parameter promised: Hooks that earlier runs owe and nobody has called.
    /// - Returns: The manifest, and the hooks that it names; `nil` for a recorded run, and for a piece.
    private mutating func decode(adding promised: [RunHook]) throws(EngineError)
        -> (manifest: Manifest, named: NamedHooks?)
    {
        let manifest = try found.decode().sharingFiles(destination.sharesFiles)
        var named: NamedHooks?
        if recorded == nil, recipe.piece == nil {
            let found = NamedHooks(manifest, recipe, environment.namedHooks)
            recipe.hooks += found.specifications
            facts.namedHooks = found.specifications.isEmpty ? nil : found.specifications
            named = found
        }
        try recipe.requireGroups(of: manifest)
        if recorded == nil { try recipe.requirePaths(of: manifest, environment.stop) }
        // Without those that the manifest names as well.
        if !promised.isEmpty { recipe.hooks += try stored(environment.store.promisedHooks(of: session, to: recipe)) }
        facts.revision = manifest.revision
        facts.userData = facts.userData ?? manifest.userData
        facts.source = facts.source ?? manifest.source
        return (manifest, named)
    }

    /// Requires that no other project owns a destination.
    ///
    /// - Parameter index: The destination's index.
    /// - Throws: ``EngineError`` with status 73.
    static func requireOwner(_ index: StatIndex, of destination: Destination, project: String) throws(EngineError) {
        try requireOwner(index.owner, of: destination, project: project)
        let whole = destination.whole
        if let whole, try isOwned(whole, by: project) { return }
        guard index.owner.isEmpty else { return }
        // A set that was never joined is known only by its pieces, all of which belong to one project.
        for name in (whole ?? destination).shards.sorted() {
            let piece: Destination
            do throws(FileError) {
                piece = try Destination.open(path: destination.path, create: false, shard: name)
            } catch {
                // Removed meanwhile, or not a piece of ours.
                if error.isMissing || error.isRefusal { continue }
                throw EngineError(cannotUse: error)
            }
            if try isOwned(piece, by: project) { return }
        }
    }

    /// Whether the index of a place names the project as its owner; `false` if the index names nobody or is damaged.
    ///
    /// - Throws: ``EngineError`` with status 73 if another project owns the place or the index is too long, 74 if the
    ///   index cannot be read.
    private static func isOwned(_ place: Destination, by project: String) throws(EngineError) -> Bool {
        guard let said = try PullEngine.known(StatIndex.owner(in: place)) else { return false }
        if said.split(separator: "\n").first.map(String.init) == project { return true }
        let known = try PullEngine.known(StatIndex.load(from: place, [], to: []))
        try requireOwner(known.owner, of: place, project: project)
        return false
    }

    /// - Parameter owner: The owner in an index: a project, then its groups, one a line.
    private static func requireOwner(_ owner: String, of place: Destination, project: String) throws(EngineError) {
        let owner = owner.split(separator: "\n", omittingEmptySubsequences: false).first.map(String.init)
        guard let owner, !owner.isEmpty, owner != project else { return }
        throw EngineError(
            .cannotCreate,
            "\(escaped(place.path)) belongs to project \(escaped(owner)), not \(escaped(project));"
                + " choose another directory with --into, or, if the set was renamed, \(place.howToForget)")
    }

    // MARK: Nothing to do

    /// The completion for this manifest, if nothing changed since: then nothing has to be decoded, opened or written.
    private func unchangedSinceCompletion(_ index: StatIndex) -> StatIndex.Completion? {
        index.completion(of: found.digest, recipe, in: destination, threads: environment.workers)
    }

    private mutating func unchanged(_ completion: StatIndex.Completion, _ manifest: Manifest, _ index: StatIndex)
        throws(EngineError) -> RunFiles
    {
        report.files.total = Int(clamping: completion.files)
        report.bytes.total = completion.totalBytes
        report.obsolete = index.obsoleteFiles
        journal.planned(Plan(), total: report.files.total, unchanged: report.files.total)
        return RunFiles(manifest, try recipe.selectedRows(of: manifest, environment.stop), .unchanged)
    }

    // MARK: Fetching and placing

    /// In this order: check, make room, fetch and place, remove, create the directories, write the index.
    private mutating func update(_ listed: Manifest, _ index: StatIndex) throws(EngineError) -> RunFiles {
        let rows = try recipe.selectedRows(of: listed, environment.stop)
        let known = recipe.piece == nil ? index : try known(index, of: listed, rows)
        let (manifest, unknown) = try learn(listed, rows, known)
        if trees != nil {
            // An older manifest is refused as that, whatever it would drop.
            let last = try stored(environment.store.installedRevision(of: session))
            _ = try refuseOlder(manifest, recipe, index: known.revision, session: last)
        }
        let unnamed = try trees?.unnamed(by: manifest, recipe) ?? []
        let edited = unnamed.filter { $0.finding == .theirs }.map(\.position)
        let begun = try trees?.begin(manifest, rows: rows, edited: edited, progress)
        let index = begun?.index ?? known
        if let trees {
            dropped = unnamed.filter { trees.known.withPath($0.position, index.position(of:)) == nil }
        }
        var files = RunFiles(manifest, rows, .waiting)
        report.files.total = rows.count
        report.bytes.total = files.bytes

        environment.live.setTotal(of: files)
        var survey = try inspect(files, index)
        for row in rows where survey.inventory.records.has(row) { files[row] = .unchanged }
        try recover(survey, &files)
        if let beforeJoin { try claim(files.unseen(since: beforeJoin), &files, isReused: false) }
        if let begun { try claim(begun.ahead, &files, isReused: !isContinued) }
        IndexLog.remove(destination)
        try makeRoom(&survey, files)
        let tasks = environment.live.begin(files)
        failUnlearned(unknown, &survey, &files)
        failObstructed(&survey, &files)
        do throws(EngineError) {
            if !survey.inventory.wanted.isEmpty {
                try fetch(&survey, &files, tasks)
            } else if index.completion == nil, files.missing == 0 {
                clearStaging()
            }
        } catch {
            // The next process of a stopped run finds in the log what is in place, and counts it.
            if environment.stop.reason.map({ $0 == .late }) ?? true { count(files) }
            throw error
        }
        if recipe.prune, !hasSyncFailed, !environment.stop.isStopped || files.count(.waiting) == 0 {
            // Once every file is in place, a stop prevents neither the run's end nor the removal.
            prune(&survey)
        }
        // If the destination changes as a whole, replaced files are still in the former tree.
        if trees == nil { report.replaced = survey.inventory.foreign.count(where: files.isPlaced) }
        if !recipe.prune { report.obsolete = survey.left(of: survey.obsolete).count }
        let directories = makeDirectories(survey)
        keepReasons(files)
        // A tree that is being built is not in place yet.
        guard trees != nil || destination.isInPlace else {
            count(files)
            throw EngineError(
                .cannotCreate,
                "\(escaped(destination.path)) was moved away during the pull; the files that it has installed are where the directory is now"
            )
        }
        if !hasUnsyncedFiles, !environment.stop.isStopped || !survey.inventory.wanted.isEmpty {
            count(files)
            do throws(EngineError) { try writeIndex(survey, directories, files) } catch {
                // The disk's failure has been reported: the next pull checks what the log names.
                guard report.status == .ioError, report.files.failed > 0 else { throw error }
            }
        }
        return files
    }

    /// Learns sizes and digests of wanted files that a source does not state; from then on the run's manifest has them.
    ///
    /// - Returns: That manifest, and the files that could not be learned.
    private mutating func learn(_ manifest: Manifest, _ rows: [Int], _ index: StatIndex) throws(EngineError)
        -> (Manifest, [RowFailure])
    {
        var learning = Learning(environment: environment, found: found, destination: destination, progress: progress)
        learning.keepFirst(manifest.files, rows: rows)
        guard !manifest.files.checks.isEmpty else { return (manifest, []) }
        let waiting = RunFiles(manifest, rows, .waiting)
        environment.live.setTotal(of: waiting)
        _ = environment.live.begin(waiting)
        (learning.place, learning.index) = (trees?.shown, index)
        let outcome = try learning.run(manifest, rows: rows)
        fetched = outcome.fetched
        if outcome.manifest.digest != manifest.digest {
            try stored(environment.store.change(manifest: outcome.manifest.digest, of: report.run))
        }
        return (outcome.manifest, outcome.failures)
    }

    /// Fails files that could not be learned.
    private mutating func failUnlearned(_ unknown: [RowFailure], _ survey: inout Survey, _ files: inout RunFiles) {
        guard !unknown.isEmpty else { return }
        for failure in unknown where files[failure.row] == .waiting {
            fail(failure.row, failure.reason, failure.cause, &files)
            if failure.cause.isDiskFault { report.status = .ioError }
        }
        survey.inventory.wanted.removeAll { files[$0] == .failed }
        guard report.status == .done else { return }
        if unknown.allSatisfy(\.cause.isRefusal) {
            report.status = .refused
        } else if unknown.count == files.rows.count, unknown.allSatisfy(\.isUnreachable) {
            report.status = .unavailable
        }
    }

    /// Determines the changes and refuses forbidden ones, before anything is changed.
    private func inspect(_ files: RunFiles, _ index: StatIndex) throws(EngineError) -> Survey {
        let manifest = files.manifest
        let known = try stored(environment.store.installedRevision(of: session))
        let newer = try refuseOlder(manifest, recipe, index: index.revision, session: known)
        if let newer { journal.revision(manifest.revision, installed: newer) }
        let log = try PullEngine.known(IndexLog.load(destination))
        let index = try fold(log, into: index)
        let survey = try Survey(
            recipe, of: manifest, rows: files.rows, in: destination, index: index, logged: Set(log.map(\.path)),
            backup: try BackupDirectory.open(for: recipe, beside: destination), mends: true, environment: environment,
            progress: progress)
        if recipe.piece != nil, let mount = destination.mounts.first {
            survey.restore()
            throw EngineError(
                .usage,
                "\(escaped(mount.shown)) is a file system of its own, where pieces cannot be kept apart: pull without --shard"
            )
        }
        if recipe.prune, let refusal = survey.pruning.refusal(recipe, removing: survey.obsolete.count) {
            survey.restore()
            throw refusal.error
        }
        return survey
    }

    /// The index including what a killed run put in place.
    private func fold(_ log: [IndexLog.Entry], into index: StatIndex) throws(EngineError) -> StatIndex {
        let isStopped = environment.isStopped
        if let folded = try onDisk(environment.fold(log, into: index, in: destination, isStopped: isStopped)) {
            return folded
        }
        throw EngineError(.interrupted, "stopped while checking what an earlier run left")
    }

    /// Prepares directories, and removes installed entries where the manifest wants something else.
    private mutating func makeRoom(_ survey: inout Survey, _ files: RunFiles) throws(EngineError) {
        if recipe.piece == nil { survey.directories.announce(survey.missingDirectories) }
        if !survey.inventory.wanted.isEmpty || !survey.obsolete.isEmpty { survey.directories.prepare() }
        if recipe.prune { survey.directories.prepare(former: survey.formerDirectories) }
        remove(survey.blocking + survey.pruning.blockingDirectories(survey.formerDirectories), &survey)
        try removeEscaping(&survey, files.rows)
        guard !survey.gone.isEmpty, !survey.inventory.obstructed.isEmpty else { return }
        // An obstacle may have been one of the removed entries.
        let taken = survey.inventory.obstructed.filter { $0.error.trouble == .inTheWay }
        let again = Inventory(
            of: files.manifest, rows: taken.map(\.row), in: destination, index: survey.index, logged: survey.logged,
            traitPolicy: PlaceReader.TraitPolicy(in: destination, mends: true), environment: environment,
            progress: progress)
        survey.inventory.obstructed.removeAll { $0.error.trouble == .inTheWay }
        survey.inventory.obstructed += again.obstructed
        survey.inventory.wanted = (survey.inventory.wanted + again.wanted).sorted()
    }

    /// Fails files whose places cannot be used.
    private func failObstructed(_ survey: inout Survey, _ files: inout RunFiles) {
        for obstruction in survey.inventory.obstructed {
            fail(obstruction.row, obstruction.error.reason, obstruction.error.cause, &files)
        }
        let links = UpwardLinks(files.manifest, destination, survey.index)
        for row in survey.inventory.wanted where links.isEscaping(row) {
            fail(row, UpwardLinks.escapingReason, .inTheWay, &files)
        }
        survey.inventory.wanted.removeAll { files[$0] == .failed }
    }

    /// Removes what an earlier run could not remove from staging, if nothing is missing that could use it: such a run
    /// has left an index without a completion. After a second failure the set counts as complete all the same; gc says
    /// what is in the way. Parts of large files stay: a run of other files may have been stopped in the middle of them.
    private func clearStaging() {
        guard trees == nil, recipe.piece == nil,
            let lanes = try? directoryEntries("\(destination.statePath)/staging"), !lanes.isEmpty,
            let staging = try? Staging(destination, lanes: 1)
        else { return }
        for (file, _) in staging.leftovers(removing: false) where !file.isPart || file.isPartialBlob {
            staging.remove(file)
        }
    }

    private mutating func fetch(_ survey: inout Survey, _ files: inout RunFiles, _ tasks: TaskTracker)
        throws(EngineError)
    {
        let wanted = survey.inventory.wanted
        let manifest = files.manifest.sharingBlobs(among: wanted)
        progress.begin(
            .fetching, files: wanted.count, bytes: wanted.reduce(UInt64(0)) { $0 &+ manifest.files.size($1) })
        var context = try RunContext(
            manifest, wanted: wanted, destination, survey.index, environment, backup: survey.pruning.backup
        ) { [journal, progress] rows, reused in
            for row in rows { journal.installed(row, of: manifest, isReused: reused.contains(row)) }
            tasks.installed(rows, isReused: reused.contains)
            progress.add(files: rows.count)
        }
        context.fetched = fetched
        let (journal, progress, total) = (journal, progress, report.files.total)
        var rounds = FetchRounds(context, from: found, connections: recipe.plannedConnections) {
            progress.add(bytes: $0)
        }
        let unchanged = files.count(.unchanged)
        let result = Result { () throws(EngineError) in
            try rounds.fetch(wanted, first: recorded?.firstPaths ?? []) { plan in
                journal.planned(plan, total: total, unchanged: unchanged)
                progress.fetch(wire: plan.fetchBytes)
            }
        }
        let placed = rounds.finish(wanted)
        // Received files count even if the rest cannot be fetched.
        report.bytes.reused = report.bytes.reused.saturatingAdd(rounds.reusedBytes)
        survey.inventory.records.take(placed.records)
        let reused = context.reused.withLock { $0 }
        for row in placed.records.rows { files[row] = reused.contains(row) ? .reused : .installed }
        hasSyncFailed = context.disk.syncFailure != nil
        hasUnsyncedFiles = placed.leftUnsynced
        hasLeftovers = context.staging.hasLeftovers
        try result.get()
        report.reason = context.disk.failure?.reasonForFile
        note(rounds.failures, &files)
    }

    private mutating func note(_ failures: [RowFailure], _ files: inout RunFiles) {
        for failure in failures where files[failure.row] == .waiting {
            if environment.stop.isStopped, !failure.cause.isOfDisk { continue }
            let isOther = failure.isOtherContent && files.manifest.files.isLearned(failure.row)
            var reason = failure.reason
            if isOther {
                // What the transport advises is for a copy that is incomplete.
                if !failure.isWrongBytes, let advice = reason.firstRange(of: "; ") {
                    reason.removeSubrange(advice.lowerBound...)
                }
                reason += ": the bytes differ from those first received, and the source does not say that they changed"
            }
            fail(failure.row, reason, failure.cause, &files)
            if failure.cause.isDiskFault || failure.error?.trouble == .unkept { report.status = .ioError }
        }
        forgetSizes(failures, files)
        guard report.status == .done, !failures.isEmpty, !environment.stop.isStopped else { return }
        let isChanged = failures.contains { $0.isOtherContent && files.manifest.files.isLearned($0.row) }
        if isChanged || failures.allSatisfy(\.cause.isRefusal) {
            report.status = .refused
        } else if files.count(.installed) == 0, failures.allSatisfy(\.isUnreachable) {
            report.status = .unavailable
        }
    }

    /// Lets the next pull ask again for sizes that a list does not say, where bytes were wrong: it may have been the
    /// size. What was learnt together with the bytes holds.
    private func forgetSizes(_ failures: [RowFailure], _ files: RunFiles) {
        let table = files.manifest.files
        let wrong = failures.filter { $0.cause == .wrongBytes && !table.isLearned($0.row) }.map { table.digest($0.row) }
        guard !wrong.isEmpty, let derivation = found.derivation, let kind = found.origin?.kind ?? facts.source?.kind,
            ListingKind(rawValue: kind) != nil
        else { return }
        found.source.cache.forget(derivation.key)
        Learning.forget(Set(wrong), in: destination)
    }

    private func fail(_ row: Int, _ reason: String, _ cause: FailureCause, _ files: inout RunFiles) {
        files.end(row, cause == .cancelled ? .cancelled : .failed, reason)
        environment.live.tasks?.end(row, cause == .cancelled ? .cancelled : .failed)
        journal.failed(files.manifest.files.path(row), reason: reason, cause)
    }

    /// Removes what an earlier pull installed and the manifest no longer names. Called when everything is in place,
    /// since moved files are copied from their old places.
    private mutating func prune(_ survey: inout Survey) {
        let former = survey.formerDirectories.filter { survey.index.record($0)?.installed == true }
        // A tree is synced, and cleared of unknown files, before readers see it.
        let failed = remove(survey.left(of: survey.obsolete + former), &survey, isLast: trees == nil)
        // Directories that no pull has made will never be ours to remove.
        survey.gone.formUnion(survey.formerDirectories.without(failed))
    }

    /// Removes files and directories that an earlier pull installed, and reports it.
    ///
    /// - Parameter isLast: Whether no batch of files is synced afterwards. Then the removal is synced: a file that a
    ///   power cut brought back, and that the index had forgotten, would stay forever.
    /// - Returns: The positions of those that could not be removed.
    @discardableResult private mutating func remove(
        _ positions: [Int], _ survey: inout Survey, isLast: Bool = false
    ) -> Set<Int> {
        guard !positions.isEmpty else { return [] }
        let index = survey.index
        let removal = Removal(destination: destination, index: index, backup: survey.pruning.backup)
        var result = Removal.Result()
        do throws(FileError) {
            if removal.backup != nil, environment.isDurable {
                removal.keepBackups(of: positions)
                try environment.synchronize(destination)
            }
            result = removal.remove(positions)
            if isLast, environment.isDurable, !result.gone.isEmpty { try environment.synchronize(destination) }
        } catch {
            // Removed files may come back: they stay in the index, and the next run checks them.
            (report.status, report.reason) = (.ioError, error.reasonForFile)
            report.notRemoved += positions.count
            for position in positions { journal.notRemoved(index.text(position), reason: "\(error)") }
            return Set(positions)
        }
        report.files.removed += result.removed
        report.folders.removed += result.removedDirectories
        for position in result.gone where !index.isDirectory(position) { journal.removed(index.text(position)) }
        for (position, error) in result.failures {
            journal.notRemoved(index.text(position), reason: "\(error)")
            report.status = .ioError
        }
        report.notRemoved += result.failures.count
        survey.gone.formUnion(result.gone)
        return Set(result.failures.map(\.position))
    }

    /// Removes links of earlier revisions that would lead out of the new tree.
    ///
    /// - Throws: ``EngineError`` with status 77 when one of them cannot be removed, or is not ours to remove.
    private mutating func removeEscaping(_ survey: inout Survey, _ rows: [Int]) throws(EngineError) {
        let index = survey.index
        let links = UpwardLinks(survey.pruning.manifest, destination, index)
        let escaping = links.escaping(survey.left(of: survey.unnamed), rows: rows)
        remove(escaping.filter { index.record($0)?.installed == true }, &survey)
        if let left = survey.left(of: escaping).first { throw links.refusal(left) }
    }

    /// Creates the directories and reports those that failed. A piece leaves that to the join: others may use them now.
    private mutating func makeDirectories(_ survey: Survey) -> Placed {
        guard recipe.piece == nil else { return Placed() }
        let named = survey.directories
        let (placed, made) = named.finish(survey.missingDirectories)
        report.folders.made = made
        report.folders.failed = placed.failures.count
        for (row, error) in placed.failures {
            journal.failed(named.manifest.directories.path(row), reason: error.reason, error.cause)
            if error.cause.isDiskFault { report.status = .ioError }
        }
        return placed
    }

    // MARK: Switching

    /// Shows the tree that was built, if it is whole.
    private mutating func show(_ files: RunFiles) throws(EngineError) {
        guard let trees, files.count(.waiting) == 0 else { return }
        guard files.missing == 0, report.folders.failed == 0, report.status == .done else {
            hidden = .incomplete
            return
        }
        let manifest = files.manifest
        let content = content(files)
        if environment.stop.isStopped { return hidden = .stopped }
        try trees.finish(content, manifest: manifest, rows: files.rows)
        try trees.check(content, session: session)
        try trees.requireUntouched(files, progress)
        let hasWaited = waitForSwitch()
        if environment.stop.isStopped { return hidden = .stopped }
        // A check, too, may have left files in the tree that do not belong there.
        if hasWaited || !trees.wishes.check.isEmpty {
            try trees.finish(content, manifest: manifest, rows: files.rows)
        }
        reportDropped(by: trees)
        try exchange(trees, manifest)
    }

    /// Reports that files which somebody has touched are not in the new tree, and where edited ones are.
    private mutating func reportDropped(by trees: TreeSwitch) {
        let edited = dropped.filter { $0.finding == .theirs }
        let place = escaped(trees.home.ledger.current.map(trees.home.treePath) ?? "")
        for file in dropped where file.finding == .theirs || file.finding == .ours {
            let path = trees.known.text(file.position)
            let (count, name) = (Figures.grouped(edited.count), escaped(path))
            let (what, are) =
                edited.count == 1
                ? ("\(name), which was edited here", "it is")
                : ("\(count) files that were edited here, such as \(name)", "they are")
            let note = "the new revision lacks \(what); \(are) in \(place) until that is reused"
            journal.removed(path, note: file.position == edited.first?.position ? note : nil)
            report.files.removed += 1
        }
    }

    /// The ledger's entry of the new tree's content.
    private func content(_ files: RunFiles) -> TreeLedger.Content {
        TreeLedger.Content(
            manifest: files.manifest.digest, revision: files.manifest.revision, run: report.run,
            files: UInt64(clamping: files.rows.count), bytes: files.bytes)
    }

    private mutating func exchange(_ trees: TreeSwitch, _ manifest: Manifest, isRollback: Bool = false)
        throws(EngineError)
    {
        let (shown, gap) = try trees.show(isRollback: isRollback)
        destination = shown
        journal.switched(
            manifest.digest, revision: manifest.revision, tree: trees.number, gap: gap, isRollback: isRollback)
    }

    /// Waits until the time has come at which the tree may be shown, or until a stop is requested.
    ///
    /// - Returns: Whether there was anything to wait for.
    private mutating func waitForSwitch() -> Bool {
        let began = environment.now()
        guard let until = trees?.wishes.notBefore?.milliseconds, began < until else { return false }
        progress.enter(.waiting)
        while environment.now() < until, !environment.stop.isStopped { pauseThread(milliseconds: 200) }
        waited = max(0, environment.now() - began)
        report.waited = (report.waited ?? 0).saturatingAdd(waited)
        progress.enter(.fetching)
        return true
    }

    /// Shows a former tree again, after a check that it is as it was.
    mutating func goBack(to tree: TreeLedger.Tree) throws(EngineError) -> PullReport {
        guard var trees else { throw EngineError(.internalError, "there is no tree to go back to") }
        trees.choose(tree)
        self.trees = trees
        let manifest = try found.decode().sharingFiles(destination.sharesFiles)
        facts.userData = facts.userData ?? manifest.userData
        try enter(recipe.completing(manifest.groups.map(\.name)))
        do throws(EngineError) {
            let rows = try trees.rows(recipe.selectedRows(of: manifest, environment.stop), of: tree, manifest)
            var files = RunFiles(manifest, rows, .unchanged)
            report.files.total = rows.count
            report.bytes.total = files.bytes
            let isDone = trees.home.ledger.current == tree.number
            journal.planned(Plan(), total: rows.count, unchanged: rows.count)
            let isKnown = isDone ? true : try trees.requireIntact(tree, files, progress)
            let former = isDone ? try trees.formerIndex() : trees.known
            try claim(files.unseen(since: former), &files, isReused: true)
            list(files)
            let unlisted: Destination? =
                try isKnown ? nil : switching(trees.home.destination(tree.number, umask: trees.umask))
            emitRemoved(former, beside: try trees.index(of: tree), files, in: unlisted)
            if !isDone {
                try trees.finish(content(files), manifest: nil, sweeps: isKnown)
                try exchange(trees, manifest, isRollback: true)
            }
            return try conclude(files)
        } catch { throw failed(error) }
    }

    /// Reports the files that readers lose with the switch to another tree.
    ///
    /// - Parameters:
    ///   - former: The index of the tree that they had.
    ///   - index: The index of the other tree, with the files of runs with other selections.
    ///   - unlisted: The other tree, if its index was lost and cannot say what is in it.
    private mutating func emitRemoved(
        _ former: StatIndex, beside index: StatIndex, _ files: RunFiles, in unlisted: Destination?
    ) {
        var walk = IndexWalk(index: index)
        let directories = unlisted.map { Directories($0) }
        let gone = (0..<former.count).filter { position in
            guard !former.isDirectory(position) else { return false }
            return former.withPath(position) { path in
                if let own = walk.find(path), !index.isDirectory(own) { return false }
                if let found = directories?.status(of: path), found.kind != .directory { return false }
                return files.manifest.files.row(of: path).map(files.isSelected) != true
            }
        }
        report.files.removed = gone.count
        if !isContinued { for position in gone { journal.removed(former.text(position)) } }
    }

    /// Lists the files in the status of a run that fetches nothing.
    private func list(_ files: RunFiles) {
        environment.live.setTotal(of: files)
        _ = environment.live.begin(files)
    }

    // MARK: The end

    /// Stores why files are missing, for later queries. Failing to do so does no other harm.
    private func keepReasons(_ files: RunFiles) {
        guard !files.reasons.isEmpty else { return }
        let table = files.manifest.files
        let tasks = files.reasons.sorted { $0.key < $1.key }.prefix(SyncStore.mostTasks).map { row, reason in
            table.task(row, files[row] == .cancelled ? .cancelled : .failed, reason)
        }
        try? environment.store.record(tasks, of: report.run)
    }

    private func writeIndex(_ survey: Survey, _ directories: Placed, _ files: RunFiles)
        throws(EngineError)
    {
        // The log is removed below: from then on only the events say what this run has installed.
        try stored(environment.events.flush(synced: environment.isDurable && report.changed > 0))
        let manifest = files.manifest
        let isComplete = directories.failures.isEmpty && files.rows.allSatisfy(survey.inventory.records.has)
        let completion = recipe.selectionMark.map {
            StatIndex.Completion(
                manifest: manifest.digest, selection: $0, totalBytes: files.bytes, files: UInt64(files.rows.count))
        }
        // Leftovers in staging withhold the completion only where no other run relies on it.
        let isUntidy = hasLeftovers && trees == nil && recipe.piece == nil && recipe.join == nil
        do throws(FileError) {
            try survey.writeIndex(
                naming: directories.records, isTree: trees != nil,
                owner: ([manifest.project] + manifest.groups.map(\.name)).joined(separator: "\n"),
                completion: isComplete && !isUntidy ? completion : nil, durable: environment.isDurable)
            IndexLog.remove(destination)
            if recipe.join != nil, isComplete { destination.forgetShards() }
        } catch {
            // Files are in place and verified; the next run hashes them again. Most likely the disk is full.
            throw EngineError(.ioError, "\(error)", cause: error.cause)
        }
    }
}

// The record of a run: stored before anything is fetched, and ended before anything is reported.
extension PullRun {
    /// Starts the run or takes it over; from here on everything is recorded.
    mutating func enter(_ groups: [String]) throws(EngineError) {
        report.manifest = found.counts
        let former = try followed()
        let run: StoredRun
        if let recorded {
            run = try stored(environment.store.take(run: recorded.identifier, now: environment.now()))
            isContinued = recorded.started != nil
        } else {
            let start = found.start(recipe, facts, groups: groups, at: destination.path)
            let started = try environment.begin(start, in: destination, isHeld: true)
            (run, isContinued) = (started.run, started.isContinued)
        }
        if isContinued { try? environment.store.forgetTasks(of: run.identifier) }  // They are tried again.
        (report.run, report.source, report.waited) = (run.identifier, facts.source, run.counts.waited)
        journal = RunJournal(environment: environment, session: session, run: run.identifier)
        journal.open(epoch: run.epoch)
        journal.started(found, destination: destination.path, userData: facts.userData, recipe, former: former)
    }

    /// The session's previous request, if it followed another channel.
    private func followed() throws(EngineError) -> RunRecipe? {
        guard recipe.revision == nil else { return nil }
        let runs = try stored(environment.store.runs(session: session, limit: 3))
        let last = runs.first { $0.identifier != recorded?.identifier && ($0.result == .ok || $0.result == .partial) }?
            .recipe
        guard let last, last.revision == nil, last.channel != recipe.channel else { return nil }
        return last
    }

    /// Ends a run before its groups are complete: the error is recorded, and its hooks are not owed. If only its end
    /// could not be recorded, that is left to the next process.
    mutating func failed(_ error: EngineError) -> EngineError {
        var error = error.after(environment.stop.reason)
        error.isOnRecord = true
        guard !isSummarized else { return error }
        let isHere = report.files.installed + report.files.reused + report.files.unchanged > 0
        report.result = environment.stop.reason == .late && isHere ? .partial : .failed
        report.status = error.status
        do throws(EngineError) {
            if let reason = environment.stop.reason, reason != .late {
                try rest(reason, error: error)
            } else {
                try finish(error: error)
            }
        } catch {
            // The first error is the one that counts.
        }
        return error
    }

    /// Ends a run for which nothing changed: the manifest is not even decoded.
    mutating func finish(_ completion: StatIndex.Completion?, _ groups: [String]) throws(EngineError) -> PullReport {
        report.files.total = Int(clamping: completion?.files ?? 0)
        report.files.unchanged = report.files.total
        report.bytes.total = completion?.totalBytes ?? 0
        journal.planned(Plan(), total: report.files.total, unchanged: report.files.unchanged)
        count()
        let ends = groups.map { CompletedGroup(name: $0, result: .ok, changed: 0) }
        _ = try stored(journal.complete(ends, report))
        // Former trees that were too young to be removed when the last revision came.
        trees?.tidy()
        try finish()
        return report
    }

    mutating func conclude(_ files: RunFiles) throws(EngineError) -> PullReport {
        count(files)
        report.reason = report.reason ?? files.commonReason
        report.directories = files.directories
        let pending = files.count(.waiting)
        let missing = report.files.failed + pending
        if missing > 0 || report.folders.failed > 0 {
            report.result = missing > 0 && report.files.total == missing ? .failed : .partial
            if report.status == .done { report.status = .incomplete }
        }
        if hidden == .incomplete {
            // Readers see nothing of it.
            report.result = .failed
            if report.status == .done { report.status = .incomplete }
        }
        if environment.stop.reason == .late, hidden == .stopped {
            throw .late("the new tree is complete, but not shown; the next pull shows it", .unavailable)
        }
        if environment.stop.reason == .late, pending > 0 {
            let here = report.files.total - missing
            let what = "\(here) of \(report.files.total) files are in place; the next pull continues from there"
            throw .late(what, report.changed == 0 ? .unavailable : .incomplete)
        }
        if let reason = environment.stop.reason, pending > 0 || hidden == .stopped {
            try rest(reason)
            return report
        }
        count()
        let haveHooksSucceeded = try completeGroups(files)
        if let trees, hidden == nil {
            // If it cannot be recorded, the next run announces it again.
            try? trees.home.record { [result = report.result] ledger in
                guard let current = ledger.current else { return }
                ledger[current]?.isAnnounced = true
                if haveHooksSucceeded, result == .ok { ledger[current]?.isProven = true }
            }
            trees.tidy()
        }
        if !haveHooksSucceeded, report.status == .done { report.status = .hookFailed }
        if let reason = environment.stop.reason, try isCutShort(by: reason, haveHooksSucceeded) {
            // A hook was stopped: the process that continues the run calls it again.
            try rest(reason)
        } else {
            try finish()
        }
        return report
    }

    /// Reports which groups are complete, then runs their hooks. Only after every file event.
    ///
    /// - Returns: Whether every hook did its work.
    /// - Throws: ``EngineError`` when the store cannot record it; then the next pull calls the hooks.
    private func completeGroups(_ files: RunFiles) throws(EngineError) -> Bool {
        let manifest = files.manifest
        let counted = try recording { () throws(StoreError) in try withUnreported(files) }
        let changed = report.changed + files.count(.unchanged) - counted.count(.unchanged)
        var ends = [CompletedGroup(name: RunRecipe.groupOfAll, result: report.result, changed: changed)]
        let selected = Set(recipe.completing(manifest.groups.map(\.name)))
        for group in manifest.groups where selected.contains(group.name) {
            // The rows are not kept: there can be thousands of groups, with as many rows in each.
            guard let rows = manifest.rows(of: group, isStopped: environment.isStopped) else {
                // The groups stay incomplete, and the run is taken over later.
                throw EngineError(.interrupted, "stopped while looking for the files of the groups")
            }
            ends.append(counted.end(of: group.name, rows))
        }
        if hidden == .incomplete { ends = ends.map { CompletedGroup(name: $0.name, result: .failed, changed: 0) } }
        return try recording { () throws(StoreError) -> Bool in
            let owed = try journal.complete(ends, report)
            let hooks = OwedHooks(environment: environment, destination: destination)
            var allSucceeded = true
            for hook in owed {
                // A hook that a stop leaves uncalled stays owed.
                if environment.stop.isStopped { return false }
                guard let end = ends.first(where: { $0.name == hook.group }) else { continue }
                let group = manifest.groups.first { $0.name == hook.group }
                let selection = group.flatMap { manifest.rows(of: $0, isStopped: environment.isStopped) }
                if group != nil, selection == nil { return false }
                var input = HookInput(
                    report: report, group: end, destination: destination.path, userData: facts.userData,
                    digest: manifest.digest, revision: manifest.revision, batch: hook.batch, manifest: manifest,
                    files: hook.batch == nil ? counted : files)
                input.rows = selection.map { some in files.rows.filter(some.contains) } ?? files.rows
                if hook.batch != nil {
                    let earlier = try earlierRows(hook, files)
                    input.rows.removeAll { !files.isPlaced($0) && !earlier.contains($0) }
                }
                allSucceeded = try hooks.run(hook, input) && allSucceeded
            }
            return allSucceeded
        }
    }

    /// Files that earlier runs, or earlier processes of this one, installed and a batch hook has not accepted.
    private func earlierRows(_ hook: StoredHook, _ files: RunFiles) throws(StoreError) -> Set<Int> {
        let store = environment.store
        guard let work = try store.unreported(hook, includingOwn: isContinued) else { return [] }
        let here = files.manifest.files.indices.filter { files[$0] == .unchanged }
        let known = try store.unreported(here, of: files.manifest, in: hook.session, work)
        let rows =
            known ?? StatIndex.read(from: destination).changed(here, of: files.manifest.files, since: work.since)
        return Set(rows)
    }

    /// Counts the results of the files so far.
    mutating func count(_ files: RunFiles) {
        report.files.installed = files.count(.installed)
        report.files.reused = files.count(.reused)
        report.files.unchanged = files.count(.unchanged)
        report.files.failed = files.missing
    }

    /// Whether a stop cut a hook short, and so the run.
    private func isCutShort(by reason: StopReason, _ haveHooksSucceeded: Bool) throws(EngineError) -> Bool {
        if reason == .cancelled, !haveHooksSucceeded { return true }
        return try stored(environment.store.owedHooks(session: session).contains { $0.run == report.run })
    }

    /// Counts what was sent and received so far; hooks get these counts, too.
    mutating func count() {
        let totals = environment.transport.totals
        report.requests = totals.requests
        report.bytes.received = totals.bytesReceived
        report.elapsedMilliseconds = environment.now() - started - waited
    }

    /// Records the end of the run.
    private mutating func finish(error: EngineError? = nil) throws(EngineError) {
        summarize(stopped: nil)
        try journal.finish(report, work: report, error: error)
    }

    /// Records that the run is stopped before its end.
    private mutating func rest(_ reason: StopReason, error: EngineError? = nil) throws(EngineError) {
        summarize(stopped: reason)
        journal.stopped(report, error: error?.message, reason)
        try journal.rest(reason, report)
    }

    /// Reports what this process did for the run.
    private mutating func summarize(stopped reason: StopReason?) {
        isSummarized = true
        count()
        let tasks = environment.live.tasks
        tasks?.endAll(reason?.input ?? .failed)
        let (origins, rest) = environment.ledger.entries
        // Its thread would record the summary before the end of the run.
        environment.live.close()
        journal.summary(
            report, waited: waited, tasks: tasks?.steps, stopped: reason, origins: origins, otherBytes: rest)
    }
}

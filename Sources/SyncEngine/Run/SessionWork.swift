import SyncFiles
import SyncManifest
package import SyncModel
import SyncPlugins
package import SyncStore
import SyncSystem

extension PullEngine {
    /// Finds the manifest and checks what can be checked before the run is recorded: manifest, selection, hooks.
    ///
    /// - Parameter isReadOnly: Whether nothing is stored: neither the manifest, nor the signers that the recipe trusts.
    /// - Returns: The run to record, its manifest, and warnings for people that do not stop the run.
    package func prepare(_ recipe: RunRecipe, isReadOnly: Bool = false) throws(EngineError)
        -> (start: RunStart, found: FoundManifest, warnings: [String])
    {
        let plain = recipe.manifest.prefix { $0 != "?" && $0 != "#" }
        if plain.contains("://"), withoutSecrets(recipe.manifest) != plain {
            let shown = redacted(url: recipe.manifest)
            throw EngineError(
                .usage, "\(shown): a user name in the URL cannot be kept; put it into the credentials file")
        }
        let source = try manifestSource(
            caching: !isReadOnly, of: recipe, keepsFormer: recipe.beginsTrees)
        let found = try releases(source, recipe).find(recipe.manifest)
        let manifest = try found.decode()
        try recipe.requireGroups(of: manifest)
        try recipe.requirePaths(of: manifest, environment.stop)
        if recipe.hasPatterns { _ = try recipe.selectedRows(of: manifest, environment.stop) }
        var recipe = recipe
        recipe.note(found)
        recipe.session = try sessionName(recipe, project: found.project)
        try checkRevision(manifest, recipe)
        let named = NamedHooks(manifest, recipe, environment.namedHooks)
        recipe.hooks += named.specifications
        let groups = recipe.completing(manifest.groups.map(\.name))
        var facts = found.facts
        (facts.revision, facts.source) = (manifest.revision, facts.source ?? manifest.source)
        facts.userData = recipe.userData?.text ?? manifest.userData
        facts.namedHooks = named.specifications.isEmpty ? nil : named.specifications
        let taking = Set(groups)
        if let hook = recipe.hooks.first(where: { !taking.contains($0.group) }) {
            let group = escaped(hook.group)
            throw EngineError(.usage, "a hook names the group '\(group)', which is not selected")
        }
        if found.release == nil, recipe.isOfDefaultChannel { source.keep(found) }
        let destination = try Self.destinationPath(recipe, project: found.project)
        return (found.start(recipe, facts, groups: groups, at: destination), found, named.notes)
    }

    /// The open run with the same request, if there is one.
    package func openRun(like start: RunStart) throws(EngineError) -> StoredRun? {
        try stored(environment.store.openRun(like: start))
    }

    /// Makes the trees of a destination that is to change as a whole. This may read all of it, so never call it on an
    /// actor.
    package func makeTrees(for start: RunStart, of found: FoundManifest) throws(EngineError) {
        _ = try trees(at: start.session.destination, start.recipe, bringing: found)
    }

    /// Records a run for another process. When this returns, the run and its manifest are on disk.
    ///
    /// - Parameter isBehind: Whether this process holds the session and calls hooks: the run waits for them.
    /// - Returns: The run, or the open one that asks for the same.
    /// - Throws: ``EngineError``; 75 when another process works on the session.
    package func enqueue(_ start: RunStart, of found: FoundManifest, isBehind: Bool = false) throws(EngineError)
        -> (run: StoredRun, isContinued: Bool, superseded: [String])
    {
        let path = start.session.destination
        let umask = start.recipe.umask ?? CurrentProcess.umask
        let destination =
            if let home = try trees(at: path, start.recipe, bringing: found) {
                try switching(home.anchor(umask: umask))
            } else {
                try usable(Destination.open(path: path, create: true, umask: umask))
            }
        let lease = try isBehind ? nil : environment.lease(start.session.identifier)
        let started = try environment.begin(start, in: destination, isHeld: false, isBehind: isBehind)
        _ = consume lease
        return started
    }

    /// Removes unchanged files that a session has installed, and its staging.
    ///
    /// - Parameters:
    ///   - path: The destination, absolute.
    ///   - project: The session's project, whose files may be removed; `nil` for any.
    ///   - shard: The piece that the session fetches, such as `3/16`; `nil` for the whole.
    ///   - files: Whether installed files are removed, too, not only files that were fetched and not placed.
    ///   - keepsStaging: Whether fetched files stay, because another session's run continues with them.
    /// - Returns: The number of removed installed files.
    /// - Throws: ``EngineError``: 74 if some files could not be removed, which a second call can remove; 73 if
    ///   installed files are to be removed and the destination is missing, not ours or another project's; 64 for
    ///   installed files of a piece.
    package func clear(
        _ path: String, of project: String? = nil, shard: String? = nil, files: Bool, keepsStaging: Bool = false
    ) throws(EngineError) -> Int {
        if let piece = shard.flatMap({ Shard($0) }) {
            // After a join nothing says which files were the piece's.
            guard !files else {
                throw EngineError(
                    .usage,
                    "the files of shard \(piece.text) belong to the whole set: remove them with its session, or leave --files "
                        + "out")
            }
            try clearStaging(of: piece, at: path)
            return 0
        }
        guard let found = try Self.openIfPresent(path), found.state >= 0 else {
            // Trees begun beside the destination, or in it, count as staged.
            if !keepsStaging, let home = try usable(TreeHome.find(path)), try clearUnshown(home) { return 0 }
            guard files, try mayHaveFiles(path) else { return 0 }
            throw EngineError(
                .cannotCreate, "\(escaped(path)) has none of its files; mount the right one, or leave --files out")
        }
        let lock = try Self.lock(found)
        // After a switch that was cut short the ledger does not say which tree readers see.
        let home = try usable(TreeHome.find(path))
        if let home { try switching(home.reconcile(now: environment.now())) }
        // `reconcile` may have moved the destination's state.
        let destination = try usable(home?.shown()) ?? found
        if files, let project {
            let owner = try Self.index(of: destination).owner.prefix { $0 != "\n" }
            guard owner.isEmpty || owner == project else {
                throw EngineError(
                    .cannotCreate,
                    "\(escaped(path)) has the files of project \(escaped(String(owner))), not of \(escaped(project)); leave "
                        + "--files out")
            }
        }
        if !keepsStaging {
            destination.findMounts(on: try Self.index(of: destination))
            let staging = try usable(Staging(destination, lanes: 1))
            try onDisk(staging.clear())
        }
        if let home {
            // Trees that were begun are removed with staging, former revisions with the files.
            let begun = keepsStaging ? [] : home.ledger.trees.filter(\.isBuilding)
            try usable(home.remove((files ? begun + home.ledger.former : begun).map(\.number)))
        }
        guard files else { return 0 }
        let log = try Self.known(IndexLog.load(destination))
        let known = try Self.index(of: destination)
        let folded = try usable(environment.fold(log, into: known, in: destination, isStopped: { false }))
        let index = folded ?? .empty
        let ours = (0..<index.count).filter { index.record($0)?.installed == true }
        let result = Removal(destination: destination, index: index).remove(ours)
        // Links to removed files now lead nowhere.
        if let home { try switching(home.reconcile(now: environment.now())) }
        if let error = result.failures.first?.error {
            let rest = result.failures.count - 1
            let text = rest > 0 ? "\(error), and \(rest) more" : "\(error)"
            throw EngineError(.ioError, text, cause: error.cause)
        }
        StatIndex.remove(from: destination)
        IndexLog.remove(destination)
        _ = consume lock
        return result.removed
    }

    /// Removes files that a piece has fetched and not placed.
    private func clearStaging(of piece: Shard, at path: String) throws(EngineError) {
        let found = try usable(ifPresent(Destination.open(path: path, create: false, shard: piece.name)))
        // If there is none, the piece was joined, or there is no destination.
        guard let place = found, place.whole != nil else { return }
        let lock = try Self.lock(place)
        let staging = try usable(Staging(place, lanes: 1))
        try onDisk(staging.clear())
        _ = consume lock
    }

    /// Whether runs may have installed files at a destination. A destination that changes as a whole has none before a
    /// run has ended well.
    private func mayHaveFiles(_ path: String) throws(EngineError) -> Bool {
        var runs: [StoredRun] = []
        for session in try stored(environment.store.sessions()) where session.destination == path {
            runs += try stored(environment.store.runs(session: session.identifier))
        }
        return runs.isEmpty
            || runs.contains { $0.recipe.atomic == nil || $0.result == .ok || $0.result == .partial }
    }

    /// Whether the manifest of a run has a file at, or below, at least one of some paths.
    ///
    /// - Throws: ``EngineError``, also when that manifest can no longer be had.
    package func names(_ paths: [String], _ run: StoredRun) throws(EngineError) -> Bool {
        let found = try manifestSource(caching: true, of: run.recipe).recorded(
            run.manifest, location: run.location, WantedRelease(run.recipe), isPublic: run.facts.isPublic)
        let files = try found.decode().files
        return paths.contains { !files.rows(below: Array($0.utf8)).isEmpty }
    }

    /// Works on a run that is waiting in the store; the caller holds its session's lease.
    ///
    /// - Throws: ``EngineError``; the run is finished by then, unless it could not even be taken up.
    package func work(on run: StoredRun) throws(EngineError) -> PullReport {
        let started = environment.now()
        let progress = ProgressCount(environment)
        defer { progress.end() }
        let session = try stored(environment.store.session(run.session))
        guard let session else { throw EngineError(.internalError, "run \(run.identifier) has no session") }
        var recipe = run.recipe
        recipe.destination = session.destination
        recipe.hooks = try hooks(of: run)
        let found = try releases(manifestSource(caching: true, of: recipe), recipe).recorded(
            run.manifest, project: session.project, location: run.location, isPublic: run.facts.isPublic,
            isSigned: run.facts.isSigned)
        return try work(on: found, recipe, recorded: run, started: started, progress)
    }

    /// The hooks of a run, in their order.
    func hooks(of run: StoredRun) throws(EngineError) -> [RunHook] {
        try stored(environment.store.hooks(run: run.identifier, limit: .max).reversed().map(\.hook))
    }

    /// Runs the hooks owed by earlier runs of a session, and ends runs whose groups are all complete. The caller holds
    /// the session; the processes of those runs are gone.
    ///
    /// - Parameter run: Only this run; `nil` for all of the session.
    /// - Returns: Whether there was anything to do.
    @discardableResult package func finishEarlierRuns(of session: String, run: String? = nil) throws(EngineError)
        -> Bool
    {
        let found = try recording { () throws(StoreError) -> StoredSession? in
            let runs = try Self.owedRuns(of: session, in: environment.store)
            guard runs.contains(where: { run == nil || $0.identifier == run }) else { return nil }
            return try environment.store.session(session)
        }
        guard let found else { return false }
        // Without its state, a directory may be an empty mount point.
        guard let destination = try Self.openIfPresent(found.destination), destination.state >= 0,
            !Self.lacksFiles(destination)
        else {
            throw EngineError(
                .cannotCreate,
                "\(escaped(found.destination)) is gone or lacks its files; its hooks are kept until it has them")
        }
        let lock = try Self.lock(destination)
        let home = try usable(TreeHome.find(found.destination))
        _ = try finishEarlierRuns(of: session, run: run, in: destination, of: home, resuming: false)
        _ = consume lock
        return true
    }

    /// The runs with work for ``finishEarlierRuns(of:run:)``: those that owe hooks first, oldest first.
    package static func owedRuns(of session: String, in store: SyncStore) throws(StoreError) -> [StoredRun] {
        var runs: [StoredRun] = []
        for hook in try store.owedHooks(session: session) where !runs.contains(where: { $0.identifier == hook.run }) {
            runs.append(try store.run(hook.run))
        }
        let complete = try completeRuns(of: session, in: store)
        runs += complete.filter { run in !runs.contains { $0.identifier == run.identifier } }
        return runs.filter { $0.state != .paused }
    }

    /// Open runs whose groups are all complete.
    private static func completeRuns(of session: String, in store: SyncStore) throws(StoreError) -> [StoredRun] {
        var complete: [StoredRun] = []
        for run in try store.runs(session: session, onlyOpen: true)
        where try store.groups(of: run.identifier).allSatisfy({ $0.state == .completed }) { complete.append(run) }
        return complete
    }

    /// As ``reconcile(_:run:in:of:resuming:)``, before a run of one's own.
    ///
    /// - Throws: ``EngineError`` with status 130 if a stop leaves hooks owed, or a run to be ended: then no run begins,
    ///   which would take that one's place.
    func settleFirst(
        _ session: String, in destination: Destination, of home: TreeHome? = nil, resuming: Bool = true
    ) throws(EngineError) -> Bool {
        let isUnseen = home.map { $0.ledger.current == nil } ?? false
        // They would find no files: the pull after this one calls them.
        if isUnseen || Self.lacksFiles(destination) { return true }
        let haveSucceeded = try finishEarlierRuns(of: session, in: destination, of: home, resuming: resuming)
        if environment.stop.isStopped, try !stored(Self.owedRuns(of: session, in: environment.store)).isEmpty {
            throw EngineError(.interrupted, "stopped in the hooks of an earlier run; the next pull calls them")
        }
        return haveSucceeded
    }

    /// - Parameters:
    ///   - run: Only this run.
    ///   - home: The trees of the destination; `nil` for one whose files change one by one.
    ///   - resuming: Whether paused runs count, too, because the session is to be resumed.
    /// - Returns: Whether every hook that was due did its work.
    func finishEarlierRuns(
        of session: String, run only: String? = nil, in destination: Destination, of home: TreeHome? = nil,
        resuming: Bool
    ) throws(EngineError) -> Bool {
        try recording { () throws(StoreError) -> Bool in
            let store = environment.store
            guard try store.session(session) != nil else { return true }
            var complete = try Self.completeRuns(of: session, in: store)
            complete.removeAll { only != nil && $0.identifier != only }
            let owed = try store.owedHooks(session: session).filter { only == nil || $0.run == only }
            guard !complete.isEmpty || !owed.isEmpty else { return true }
            if resuming {
                for run in complete { try store.apply(.resumed, to: run.identifier, now: environment.now()) }
            } else {
                complete.removeAll { $0.state == .paused }
            }
            _ = try store.recover(session: session, now: environment.now())
            let hooks = OwedHooks(environment: environment, destination: destination)
            var allSucceeded = true
            for hook in try store.owedHooks(session: session) where only == nil || hook.run == only {
                let run = try store.run(hook.run)
                if run.state == .paused { continue }
                // A hook that a stop leaves uncalled stays owed, and its run open.
                if environment.stop.isStopped { return false }
                let input = lateInput(hook, run, in: destination)
                if hook.batch != nil, environment.stop.isStopped { return false }
                environment.events.open(session: session, run: run.identifier, in: store)
                allSucceeded = try hooks.run(hook, input) && allSucceeded
                try environment.events.close()
                if environment.stop.isStopped, try store.hook(hook.identifier).state == .pending { return false }
            }
            for run in complete { try finish(run) }
            guard let home else { return allSucceeded }
            for run in Set(owed.map(\.run) + complete.map(\.identifier)) { try prove(run, in: home) }
            return allSucceeded
        }
    }

    /// Marks the tree of a run as proven, if the run is ok and all its hooks have succeeded or were skipped by now.
    private func prove(_ run: String, in home: TreeHome) throws(StoreError) {
        let store = environment.store
        guard let tree = home.ledger.trees.first(where: { $0.content?.run == run }), !tree.isProven,
            try store.run(run).result == .ok,
            try store.hooks(run: run, limit: .max).allSatisfy({ $0.state == .done || $0.state == .skipped })
        else { return }
        // Without the mark the tree may be removed sooner.
        try? home.record { $0[tree.number]?.isProven = true }
    }

    /// The recorded results of a run whose groups are complete and whose hooks have ended.
    func recordedReport(of run: StoredRun) throws(StoreError) -> PullReport {
        let store = environment.store
        let all = try store.groups(of: run.identifier).first { $0.name == RunRecipe.groupOfAll }
        let hasFailedHook = try store.hooks(run: run.identifier, limit: .max).contains { $0.state == .failed }
        var report = PullReport(run, all?.result ?? .partial)
        report.status = report.result != .ok ? .incomplete : hasFailedHook ? .hookFailed : .done
        return report
    }

    /// Ends a run whose groups are complete and whose hooks have ended: only that end was not recorded.
    private func finish(_ run: StoredRun) throws(StoreError) {
        let store = environment.store
        var present = try store.run(run.identifier)
        // Paused or cancelled meanwhile: whoever did that has ended it, or resumes it.
        guard present.state == .waiting || present.state == .running else { return }
        if present.state == .waiting { present = try store.take(run: run.identifier, now: environment.now()) }
        let report = try recordedReport(of: run)
        let journal = RunJournal(environment: environment, session: run.session, run: run.identifier)
        let isSummarized = try journal.isSummarized()
        journal.open(epoch: present.epoch)
        // How long the lost process worked is not known.
        if !isSummarized { journal.summary(report, otherBytes: report.bytes.received) }
        var last = report
        last.elapsedMilliseconds = environment.now().subtractingReportingOverflow(run.created).partialValue
        do throws(EngineError) { try journal.finish(last, work: isSummarized ? nil : report) } catch {
            return  // The next process ends it.
        }
    }
}

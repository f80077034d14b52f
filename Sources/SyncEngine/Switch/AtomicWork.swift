package import SyncFiles
import SyncManifest
package import SyncModel
package import SyncStore
import SyncSystem

// Work on destinations that change as a whole.
extension PullEngine {
    /// The trees of a destination; `nil` for one whose files change one by one. The destination's own record decides
    /// and, if it has none, the recipe.
    ///
    /// - Parameter found: The manifest to pull there.
    func trees(at path: String, _ recipe: RunRecipe, bringing found: FoundManifest) throws(EngineError) -> TreeHome? {
        guard let wishes = recipe.atomic else { return try usable(TreeHome.find(path)) }
        var refusal: EngineError?
        do throws(FileError) {
            return try TreeHome.make(
                path, layout: wishes.layout, umask: recipe.umask ?? CurrentProcess.umask, now: environment.now()
            ) { former, layout throws(FileError) in
                do throws(EngineError) { try requireFit(former, layout, recipe, found) } catch {
                    refusal = error
                    throw FileError(step: "switch", path: path, remark: error.message)
                }
            }
        } catch { throw refusal ?? EngineError(switching: error) }
    }

    /// Requires that the present content of a destination can become its first tree, before anything is made of it: a
    /// refused pull changes nothing. Nothing is made here either, and the run checks again.
    ///
    /// - Throws: ``EngineError``, as a run would that finds the same in a tree.
    func requireFit(
        _ former: Destination, _ layout: AtomicSwitch.Layout, _ recipe: RunRecipe, _ found: FoundManifest
    ) throws(EngineError) {
        try requireWhole(former.path, recipe)
        // Files of the other process are not in the index yet.
        if former.isTaken { throw Self.isAtWork(in: former) }
        let old = try Self.index(of: former)
        try PullRun.requireOwner(old, of: former, project: found.project)
        guard let known = try Self.known(environment.foldPreview(old, in: former)) else {
            throw EngineError(.interrupted, "stopped while checking what an earlier run left")
        }
        let manifest = try found.decode()
        if old.completion?.manifest != found.digest {
            let session = try stored(environment.store.installedRevision(of: recipe.session ?? found.project))
            _ = try refuseOlder(manifest, recipe, index: old.revision, session: session)
            _ = try Pruning.unnamed(by: manifest, recipe, in: former, known)
        }
        let rows = try recipe.selectedRows(of: manifest, environment.stop)
        let foreignEntries: ForeignEntries
        do throws(FileError) {
            foreignEntries = try ForeignEntries(
                in: former, beside: known, manifest, rows: rows, sparesTop: layout == .links,
                threads: environment.workers, isStopped: environment.isStopped)
        } catch { throw EngineError(.ioError, "\(escaped(former.path)): \(error)", cause: error.cause) }
        if environment.stop.isStopped {
            throw EngineError(.interrupted, "stopped while looking through \(escaped(former.path))")
        }
        try foreignEntries.refuse(in: former.path, keepsForeign: recipe.atomic?.keepForeign ?? false)
        let taken = Set(foreignEntries.tops.map { String(decoding: $0, as: UTF8.self) })
        if !taken.isEmpty, let name = manifest.tops(of: rows).first(where: taken.contains) {
            throw TreeSwitch.isInTheWay(name, of: former.path)
        }
    }

    /// The refusal of a pull because its destination changes as a whole, or is to; `nil` for none. Nothing is made.
    ///
    /// - Parameters:
    ///   - rows: The selected rows.
    ///   - home: The trees of the destination; `nil` where there are none yet.
    ///   - destination: The present destination; `nil` for none.
    ///   - old: Its index, without the files that a killed pull has put in place.
    ///   - known: The same index, with those files.
    func wholeRefusal(
        _ found: FoundManifest, _ manifest: Manifest, rows: [Int], _ recipe: RunRecipe, in home: TreeHome?,
        _ destination: Destination?, old: StatIndex, known: StatIndex
    ) throws(EngineError) -> EngineError? {
        do throws(EngineError) {
            if let home {
                try requireWhole(home.path, recipe)
                // The pull first completes what was cut short.
                guard !home.ledger.isGathering, home.ledger.step == nil else { return nil }
                try TreeSwitch(home, recipe, shown: destination, known: known, environment)
                    .preflight(found.digest, manifest, rows: rows, recipe)
            } else if let wishes = recipe.atomic, let destination {
                let layout = wishes.layout ?? TreeHome.prospectiveLayout(destination.path)
                try requireFit(destination, layout, recipe, found)
            }
            return nil
        } catch {
            if error.status == .interrupted { throw error }
            // If there is nothing to do, no tree is begun.
            if home != nil, error.status != .usage, let destination,
                old.completion(of: found.digest, recipe, in: destination, threads: environment.workers) != nil
            {
                return nil
            }
            return error
        }
    }

    /// Refuses a recipe, or a place, that a destination that changes as a whole does not support.
    ///
    /// - Throws: ``EngineError`` with status 64.
    private func requireWhole(_ path: String, _ recipe: RunRecipe) throws(EngineError) {
        guard recipe.shard == nil, recipe.join == nil else {
            throw EngineError(
                .usage,
                "\(escaped(path)) changes as a whole, and cannot be filled in pieces: leave --shard and --join out")
        }
        guard recipe.backupDir == nil else {
            throw EngineError(
                .usage,
                "\(escaped(path)) changes as a whole and keeps its former revisions; leave --backup-dir out")
        }
        // Carried over, the state would have a second name in each tree, and would be refused from then on.
        let state = realPath(environment.stateDirectory) ?? environment.stateDirectory
        if let root = realPath(path), "\(state)/".hasPrefix("\(root)/") {
            throw EngineError(
                .usage,
                "\(escaped(path)) has syncagent's own state in it, \(escaped(state)), and cannot change as a whole: leave "
                    + "--atomic out, choose another directory with --into, or set XDG_STATE_HOME to one outside")
        }
    }

    /// As ``work(on:_:recorded:started:_:)``, for trees.
    func work(
        in home: TreeHome, on found: FoundManifest, _ recipe: RunRecipe, recorded: StoredRun?, started: Int64,
        _ progress: ProgressCount
    ) throws(EngineError) -> PullReport {
        try requireWhole(home.path, recipe)
        let lock = try take(home, recipe)
        // A rollback must be able to read the manifest when nobody publishes it any more.
        if found.release == nil, recipe.isOfDefaultChannel {
            try manifestSource(caching: true).keep(found)
        }
        let session = recipe.session ?? found.project
        let (destination, trees) = try shownTree(of: home, recipe)
        if let recorded, recorded.recipe.rollback {
            let report = try goBack(recorded, on: found, in: destination, trees, started: started, progress)
            _ = consume lock
            return report
        }
        var haveOwedSucceeded = true
        if recorded == nil {
            let hasRollbackSucceeded = try finishRollback(of: session, in: destination, trees)
            haveOwedSucceeded = try settleFirst(session, in: destination, of: home) && hasRollbackSucceeded
        }
        var run = PullRun(
            recipe: recipe, environment: environment, found: found, destination: destination, started: started,
            progress: progress, recorded: recorded, trees: trees)
        let report = try run.run().counting(owedHooks: haveOwedSucceeded)
        _ = consume lock
        return report
    }

    /// Locks trees, and completes what was cut short.
    private func take(_ home: TreeHome, _ recipe: RunRecipe) throws(EngineError) -> FileLock {
        guard let lock = try switching(home.lock()) else {
            throw Self.isAtWork(in: try switching(home.anchor(umask: recipe.umask ?? CurrentProcess.umask)))
        }
        try switching(home.reconcile(now: environment.now()))
        return lock
    }

    /// The tree that readers see, and the switch with what is known of it.
    private func shownTree(of home: TreeHome, _ recipe: RunRecipe) throws(EngineError) -> (Destination, TreeSwitch) {
        let umask = recipe.umask ?? CurrentProcess.umask
        let shown = try switching(home.shown(umask: umask))
        var known = StatIndex.empty
        if let shown {
            known = try Self.index(of: shown)
            let log = try Self.known(IndexLog.load(shown))
            if !log.isEmpty {
                // The log of a run that changed files one by one, and was killed.
                let folded = try switching { () throws(FileError) in
                    try environment.fold(log, into: known, in: shown, isStopped: environment.isStopped)
                }
                guard let folded else {
                    throw EngineError(.interrupted, "stopped while checking what an earlier run left")
                }
                known = folded
                IndexLog.remove(shown)
            }
        }
        if home.ledger.sharing == .link, let building = home.ledger.building {
            // Files with a second name in the tree of an earlier run have another status since.
            let tree = try switching(home.destination(building.number, umask: umask))
            known = known.sharing(with: StatIndex.read(from: tree))
        }
        let trees = TreeSwitch(home, recipe, shown: shown, known: known, environment)
        // A set that was pulled file by file can be shown again if its manifest is still in the cache.
        if let completion = known.completion, home.ledger.shownTree?.manifest == nil {
            let cache = try manifestSource(caching: true).cache
            if try Self.known(cache.hasBody(completion.manifest)) {
                try trees.recordShown(completion, revision: known.revision?.number ?? 0)
            }
        }
        if let shown { return (shown, trees) }
        return (try switching(home.anchor(umask: umask)), trees)
    }

    // MARK: Going back

    /// Shows a former revision again, and holds the present one back until a newer one comes. Files that both share are
    /// not read. A rollback that was cut short after its switch is finished first; if the same revision is asked for,
    /// that is all: a repeated command means the same rollback.
    ///
    /// - Parameter wish: A revision, or the beginning of its manifest's SHA-256; `nil` for the previous revision.
    /// - Throws: ``EngineError``; with status 66 when it is not kept, 74 when it is no longer what it was.
    package func rollback(_ session: String, to wish: String?, keepForeign: Bool = false) throws(EngineError)
        -> PullReport
    {
        let started = environment.now()
        let progress = ProgressCount(environment)
        defer { progress.end() }
        let lease = try environment.lease(session)
        let (known, home) = try trees(of: session)
        let recent = try stored(environment.store.runs(session: session, limit: 50))
        let fitting = recent.filter { $0.recipe.atomic != nil || $0.result == .ok }
        // A rollback to fewer files has no hooks of other groups.
        guard let last = fitting.first(where: { !$0.recipe.rollback }) ?? fitting.first else {
            throw EngineError(.noInput, "session \(escaped(session)) has no run whose revision could be shown again")
        }
        var recipe = try rollbackRecipe(like: last, of: known, keepForeign: keepForeign)
        let lock = try take(home, recipe)
        let (destination, trees) = try shownTree(of: home, recipe)
        let open = try openRollback(of: session, home.ledger)
        let hasRollbackSucceeded = try finishRollback(of: session, in: destination, trees)
        let haveOwedSucceeded =
            try settleFirst(session, in: destination, of: home, resuming: open != nil) && hasRollbackSucceeded
        if let open, wish.map({ home.ledger.meaning(of: $0) == .shown }) ?? true {
            let run = try stored(environment.store.run(open.identifier))
            if environment.stop.isStopped, run.state.isOpen {
                throw EngineError(.interrupted, "stopped in the hooks of the rollback")
            }
            let done = try stored(recordedReport(of: run)).counting(owedHooks: haveOwedSucceeded)
            _ = consume lock
            _ = consume lease
            return done
        }
        guard let target = home.ledger.target(wish), let digest = target.manifest else {
            throw Self.noTarget(wish, of: home, session)
        }
        let made = try selection(of: target, among: recent, in: trees)
        (recipe.groups, recipe.include, recipe.exclude) = (made.groups, made.include, made.exclude)
        let found: FoundManifest
        do throws(EngineError) {
            found = try manifestSource(caching: true).recorded(
                digest, location: last.location, WantedRelease(recipe), isPublic: last.facts.isPublic)
        } catch {
            // What is published is the manifest of another revision.
            guard error.status == .unavailable, error.cause == .badManifest else { throw error }
            let name = target.revision > 0 ? "revision \(target.revision)" : "\(digest.hex.prefix(12))"
            throw EngineError(
                .noInput,
                "\(escaped(home.path)): the manifest of \(name) is no longer kept here, and cannot be had "
                    + "any more; see 'syncagent revisions \(escaped(session))' for another one")
        }
        // Trees may have been left there by a destination that is gone.
        let owner = trees.known.owner.prefix { $0 != "\n" }
        guard owner.isEmpty || owner == found.project else {
            throw EngineError(
                .cannotCreate,
                "\(escaped(home.path)) belongs to project \(escaped(String(owner))) by now, and that revision is one of "
                    + "\(escaped(found.project)); nothing was changed")
        }
        var run = PullRun(
            recipe: recipe, environment: environment, found: found, destination: destination, started: started,
            progress: progress, recorded: nil, trees: trees)
        let report = try run.goBack(to: target).counting(owedHooks: haveOwedSucceeded)
        _ = consume lock
        _ = consume lease
        return report
    }

    /// The recipe of a rollback: that of its session's last run, with its hooks, and at once.
    private func rollbackRecipe(like last: StoredRun, of session: StoredSession, keepForeign: Bool) throws(EngineError)
        -> RunRecipe
    {
        var recipe = last.recipe
        recipe.session = session.identifier
        recipe.destination = session.destination
        recipe.hooks = try hooks(of: last)
        if recipe.hooks.isEmpty { recipe.hooks = last.recipe.hooks }
        recipe.rollback = true
        recipe.paused = false
        recipe.notBefore = nil
        var wishes = recipe.atomic ?? AtomicSwitch()
        wishes.keepForeign = wishes.keepForeign || keepForeign
        recipe.atomic = wishes
        return recipe
    }

    /// The error that there is no such tree to go back to.
    private static func noTarget(_ wish: String?, of home: TreeHome, _ session: String) -> EngineError {
        let list = "see 'syncagent revisions \(escaped(session))'"
        let least = TreeLedger.fewestDigits
        let what =
            switch wish.map(home.ledger.meaning) {
            case nil: "no former revision is kept; \(list)"
            case .shown?: "revision \(escaped(wish ?? "")) is the current one; \(list)"
            case .several?:
                "\(escaped(wish ?? "")) fits the manifests of several revisions; give more digits; \(list)"
            case .former?, .nothing?:
                if let wish, wish.utf8.count < least, !wish.isEmpty, !wish.allSatisfy(\.isNumber) {
                    "\(escaped(wish)) names no revision; give at least \(least) digits of a manifest's SHA-256; \(list)"
                } else {
                    "revision \(escaped(wish ?? "")) is not kept; \(list)"
                }
            }
        return EngineError(.noInput, "\(escaped(home.path)): \(what)")
    }

    /// The selection of a tree: that of the run that made it or, if that run is no longer on record, of another run
    /// with the same selection. Without one, everything counts as selected, and the tree's index says what it has.
    private func selection(of tree: TreeLedger.Tree, among runs: [StoredRun], in trees: TreeSwitch) throws(EngineError)
        -> RunRecipe
    {
        if let name = tree.content?.run {
            if let run = runs.first(where: { $0.identifier == name }) { return run.recipe }
            do throws(StoreError) { return try environment.store.run(name).recipe } catch {
                guard error.code == .unknown else { throw EngineError(error) }
            }
        }
        let place = try switching(trees.home.destination(tree.number, umask: trees.umask))
        let mark = try Self.index(of: place).completion?.selection
        let like = mark.flatMap { mark in runs.first { $0.recipe.selectionMark == mark } }
        return like?.recipe ?? RunRecipe(manifest: "")
    }

    /// Continues a rollback that was cut short.
    private func goBack(
        _ recorded: StoredRun, on found: FoundManifest, in destination: Destination, _ trees: TreeSwitch,
        started: Int64,
        _ progress: ProgressCount
    ) throws(EngineError) -> PullReport {
        let ledger = trees.home.ledger
        let target = ledger.trees.first { $0.manifest == recorded.manifest && !$0.isBuilding }
        guard let target else {
            throw EngineError(.noInput, "\(escaped(trees.home.path)): the revision to go back to is no longer kept")
        }
        var run = PullRun(
            recipe: recorded.recipe, environment: environment, found: found, destination: destination,
            started: started, progress: progress, recorded: recorded, trees: trees)
        return try run.goBack(to: target)
    }

    /// Ends a rollback whose process was killed after readers saw the former revision: its hooks are due.
    ///
    /// - Returns: Whether every hook that was due did its work.
    private func finishRollback(of session: String, in destination: Destination, _ trees: TreeSwitch)
        throws(EngineError) -> Bool
    {
        let ledger = trees.home.ledger
        guard trees.isUnannounced, let shown = ledger.shownTree, let digest = shown.manifest,
            let open = try openRollback(of: session, ledger),
            let known = try stored(environment.store.session(session))
        else { return true }
        // Its process is gone: this one holds the session.
        _ = try stored(environment.store.recover(session: session, now: environment.now()))
        let found = try manifestSource(caching: true).recorded(
            digest, location: open.location, WantedRelease(open.recipe), isPublic: open.facts.isPublic)
        var recipe = open.recipe
        recipe.destination = known.destination
        recipe.hooks = try hooks(of: open)
        let progress = ProgressCount(environment)
        defer { progress.end() }
        var run = PullRun(
            recipe: recipe, environment: environment, found: found, destination: destination,
            started: environment.now(), progress: progress, recorded: open, trees: trees)
        return try run.goBack(to: shown).status != .hookFailed
    }

    /// The rollback that made the tree that readers see, and has not ended; `nil` for none.
    private func openRollback(of session: String, _ ledger: TreeLedger) throws(EngineError) -> StoredRun? {
        guard let shown = ledger.shownTree, let digest = shown.manifest else { return nil }
        return try stored(environment.store.runs(session: session, onlyOpen: true)).first {
            $0.recipe.rollback && $0.manifest == digest && $0.identifier == shown.content?.run
        }
    }

    /// Removes the trees of a destination of which readers have never seen any, and the directory that they are kept
    /// in.
    ///
    /// - Returns: Whether that was so: trees that readers have seen stay.
    func clearUnshown(_ home: TreeHome) throws(EngineError) -> Bool {
        guard let lock = try switching(home.lock()) else {
            throw Self.isAtWork(in: try switching(home.anchor(umask: CurrentProcess.umask)))
        }
        let ledger = home.ledger
        let isUnshown = ledger.current == nil && ledger.step == nil && ledger.former.isEmpty
        if isUnshown {
            try switching(home.remove(ledger.trees.map(\.number)))
            try switching(home.dissolve())
        }
        _ = consume lock
        return isUnshown
    }

    /// Lets revisions that were rolled back be pulled again.
    ///
    /// - Returns: The number of revisions that were held.
    package func release(_ session: String) throws(EngineError) -> Int {
        let lease = try environment.lease(session)
        let (_, home) = try trees(of: session)
        let lock = try take(home, RunRecipe(manifest: ""))
        let held = home.ledger.held.count
        if held > 0 { try switching(home.record { $0.release() }) }
        _ = consume lock
        _ = consume lease
        return held
    }

    private func trees(of session: String) throws(EngineError) -> (session: StoredSession, home: TreeHome) {
        guard let known = try stored(environment.store.session(session)) else {
            throw EngineError(StoreError.noSession(session))
        }
        guard let home = try usable(TreeHome.find(known.destination)) else {
            throw EngineError(
                .usage,
                "\(escaped(known.destination)) does not change as a whole, so it keeps no former revisions; see --atomic of "
                    + "'syncagent pull'")
        }
        return (known, home)
    }
}

extension TreeSwitch {
    /// Checks a former tree: files that it shares with the shown tree are known to be right; the rest is read.
    ///
    /// - Throws: ``EngineError`` with status 74 when a file differs from the manifest.
    /// - Returns: Whether the tree's index was there, and not made anew by a rollback that failed. The index is written
    ///   in any case; a new one does not say which other files pulls have installed.
    func requireIntact(_ tree: TreeLedger.Tree, _ files: RunFiles, _ progress: ProgressCount) throws(EngineError)
        -> Bool
    {
        let place = try switching(home.destination(tree.number, umask: umask))
        let there = try PullEngine.index(of: place)
        // An index without files has an owner all the same. With nothing selected there may be files of former
        // selections.
        let isHere = there.count > 0 || !there.owner.isEmpty
        let isKnown = isHere && !tree.isUnlisted
        // Strangers are refused before the whole tree is read.
        if !isKnown { _ = try foreignEntries(nil) }
        let index = isHere ? there : known.replacingRecords { _ in } ?? there
        let shared = index.sharing(with: known)
        let (missing, records) = try read(files, in: place, beside: shared, progress)
        let others = try changedOthers(besides: files, in: place, index, shared)
        let count = missing.count + others.count
        guard let first = missing.first.map(files.manifest.files.path) ?? others.first.map(index.text) else {
            let now = shared.updated(records, files.manifest.files)
            let manifest = files.manifest
            let own = StatIndex.Revision(number: manifest.revision, manifest: manifest.digest.firstWord)
            // Recorded before there is an index again: if this rollback fails, the next one must know that the index
            // was lost.
            if !isKnown { try switching(home.record { $0[tree.number]?.isUnlisted = true }) }
            try switching(now.write(to: place, as: isKnown ? nil : own, durable: environment.isDurable))
            return isKnown
        }
        throw EngineError(
            .ioError,
            "\(escaped(home.treePath(tree.number))): \(Figures.count(count, "file")) of the former revision, such as "
                + "\(escaped(first)), \(count == 1 ? "was" : "were") changed or removed; readers see what they saw before. "
                + "--to REVISION shows another one",
            cause: .wrongBytes)
    }

    /// The rows that a former tree has, of those that it may have: if its selection is not known, its index decides.
    func rows(_ selected: [Int], of tree: TreeLedger.Tree, _ manifest: Manifest) throws(EngineError) -> [Int] {
        guard let content = tree.content, content.files != UInt64(clamping: selected.count) else { return selected }
        let index = try index(of: tree)
        var walk = IndexWalk(index: index)
        let here = selected.filter { row in
            let record = manifest.files.withPath(row) { walk.find($0) }.flatMap(index.record)
            return record.map { $0.digest == manifest.files.contentDigest(row) } ?? false
        }
        // Missing rows are reported when the tree is read.
        return UInt64(clamping: here.count) < content.files ? selected : here
    }

    /// The index of a tree.
    func index(of tree: TreeLedger.Tree) throws(EngineError) -> StatIndex {
        try PullEngine.index(of: try switching(home.destination(tree.number, umask: umask)))
    }

    /// Files that a tree has besides those of a run, from runs with other selections, and that are no longer what they
    /// were. Files that the shared index does not vouch for are read.
    ///
    /// - Returns: Their positions in the tree's index.
    private func changedOthers(
        besides files: RunFiles, in place: Destination, _ index: StatIndex, _ shared: StatIndex
    ) throws(EngineError) -> [Int] {
        guard var reader = try? PlaceReader(place, isStopped: environment.isStopped) else {
            throw EngineError(.ioError, "\(escaped(place.path)): no memory to check a tree; nothing was changed")
        }
        var changed: [Int] = []
        for position in 0..<index.count where !index.isDirectory(position) {
            if environment.stop.isStopped { throw EngineError(.interrupted, "stopped while a tree was checked") }
            let row = index.withPath(position, files.manifest.files.row(of:))
            guard row.map(files.isSelected) != true, let record = index.record(position) else { continue }
            // Nobody knows where a doubted link led.
            if record.kind == .link, record.digest == .zero { continue }
            let later = shared.count == index.count ? shared.trusted(position) : nil
            let isCertain = later.map { $0.kind == record.kind && $0.digest == record.digest } ?? false
            let entry = IndexLog.Entry(
                path: index.path(position), digest: record.digest, kind: record.kind,
                status: isCertain ? later?.status : nil)
            do throws(FileError) {
                if try reader.read(entry) == nil { changed.append(position) }
            } catch { throw EngineError(.ioError, "\(error); nothing was changed", cause: error.cause) }
        }
        if environment.stop.isStopped { throw EngineError(.interrupted, "stopped while a tree was checked") }
        return changed
    }

    /// Requires that the check has left the files as they were verified. Other files that it has left are removed
    /// later.
    ///
    /// - Throws: ``EngineError`` with status 5 where it has changed one.
    func requireUntouched(_ files: RunFiles, _ progress: ProgressCount) throws(EngineError) {
        guard let program = wishes.check.first else { return }
        let place = try switching(home.destination(number, umask: umask))
        let (changed, _) = try read(files, in: place, beside: PullEngine.index(of: place), progress)
        guard let first = changed.first else { return }
        throw EngineError(
            .hookFailed,
            "\(escaped(home.path)): the check \(escaped(program)) has changed \(Figures.count(changed.count, "file")) of the new "
                + "tree, such as \(escaped(files.manifest.files.path(first))); readers see what they saw before",
            cause: .hookFailed)
    }

    /// Checks the files of a tree; those that its index does not vouch for are read.
    ///
    /// - Returns: The rows whose files differ from the manifest, and the records of the others.
    private func read(
        _ files: RunFiles, in place: Destination, beside index: StatIndex, _ progress: ProgressCount
    ) throws(EngineError) -> (changed: [Int], records: RecordColumn) {
        let found = Inventory(
            of: files.manifest, rows: files.rows, in: place, index: index, traitPolicy: .ignored,
            environment: environment, progress: progress)
        if environment.stop.isStopped { throw EngineError(.interrupted, "stopped while a tree was checked") }
        return (files.rows.filter { !found.records.has($0) }, found.records)
    }
}

extension Pruning {
    /// The files of a tree that the next one lacks, since its manifest does not name them.
    ///
    /// - Parameter known: The tree's index, all of whose files count as installed.
    /// - Returns: Their positions, and what is there.
    /// - Throws: ``EngineError`` with status 77 if they are too many.
    static func unnamed(
        by manifest: Manifest, _ recipe: RunRecipe, in tree: Destination, _ known: StatIndex
    ) throws(EngineError) -> [(position: Int, finding: Removal.Finding)] {
        let going = Pruning(manifest: manifest, destination: tree, index: known).unnamed()
        guard !going.isEmpty else { return [] }
        let pruning = Pruning(manifest: manifest, destination: tree, index: known.allInstalled)
        let findings = Removal(destination: tree, index: pruning.index).findings(at: going)
        let count = findings.count { $0 == .ours || $0 == .unreachable }
        if let refusal = pruning.refusal(recipe, removing: count) { throw refusal.error }
        return zip(going, findings).map { (position: $0, finding: $1) }
    }
}

extension StatIndex {
    /// The same records, all of them as installed by pulls.
    fileprivate var allInstalled: StatIndex {
        let all = mapRecords { _, record in
            var record = record
            record.installed = true
            return record
        }
        return all ?? self
    }

    /// The same records, with those of files just read, also of files without a record: `finish` keeps only what the
    /// index names.
    fileprivate func updated(_ records: RecordColumn, _ files: FileTable) -> StatIndex {
        let merged = replacingRecords(isComplete: true) { append in
            func pass(_ position: Int, _ now: IndexRecord? = nil) {
                guard var record = handedOn(position) else { return }
                if let now { (record.status, record.digest, record.kind) = (now.status, now.digest, now.kind) }
                withPath(position) { append(record, $0) }
            }
            var walk = IndexWalk(index: self)
            for row in records.rows {
                guard var now = records[row] else { continue }
                files.withPath(row) { path in
                    if let position = walk.find(path, passing: { pass($0) }) { return pass(position, now) }
                    now.installed = true
                    append(now, path)
                }
            }
            for position in walk.rest { pass(position) }
        }
        return merged ?? self
    }

    /// The same records, with the status from another tree's index where that has a later one of the very same file.
    fileprivate func sharing(with other: StatIndex) -> StatIndex {
        var walk = IndexWalk(index: other)
        // An index with doubted records is not complete before they have been read.
        let isCertain = (0..<count).allSatisfy { trusted($0) != nil }
        let merged = mapRecords(isComplete: isCertain) { position, record in
            let later = withPath(position) { walk.find($0) }.flatMap(other.trusted).map(record.later) ?? record
            // The other index vouches for a later status.
            return later.status == record.status && !trusts(record) ? record.doubted : later
        }
        return merged ?? self
    }
}

/// A revision that is kept.
package struct KeptRevision: Sendable {
    package enum State: String, Sendable { case current, kept, held, building }
    package var tree: TreeLedger.Tree
    package var state: State
    /// **Bytes** of files that no other tree has, and of those that one has, too.
    package var own: UInt64
    package var shared: UInt64
    /// The path of its tree; for the current one, that of the destination.
    package var path: String
}

extension PullEngine {
    /// The revisions that a session's destination keeps: the one that readers see, then the former ones, with the last
    /// one shown first, then the one being built.
    package func revisions(_ session: String) throws(EngineError) -> [KeptRevision] {
        let (_, home) = try trees(of: session)
        let ledger = home.ledger
        let trees = ledger.trees.filter { $0.manifest != nil || $0.isBuilding }
        var indexes: [UInt64: StatIndex] = [:]
        for tree in trees where !tree.isBuilding {
            // A tree that was recycled meanwhile has no index.
            if let place = try? home.destination(tree.number, umask: CurrentProcess.umask) {
                indexes[tree.number] = StatIndex.read(from: place)
            }
        }
        return trees.map { tree in
            let others = indexes.filter { $0.key != tree.number }.map(\.value)
            let (own, shared) =
                indexes[tree.number]?.bytes(sharedWith: others, isCloned: ledger.sharing == .clone) ?? (0, 0)
            let isHeld = tree.manifest.map(ledger.isHeld) ?? false
            let state: KeptRevision.State =
                tree.number == ledger.current ? .current : tree.isBuilding ? .building : isHeld ? .held : .kept
            let path = state == .current ? home.path : home.treePath(tree.number)
            return KeptRevision(tree: tree, state: state, own: own, shared: shared, path: path)
        }.sorted { ($0.tree.turn, $0.tree.number) > ($1.tree.turn, $1.tree.number) }
    }
}

extension StatIndex {
    /// **Bytes** of files that no other tree has at the same path, and of those that one has.
    fileprivate func bytes(sharedWith others: [StatIndex], isCloned: Bool) -> (own: UInt64, shared: UInt64) {
        var sums: (own: UInt64, shared: UInt64) = (0, 0)
        for position in 0..<count where !isDirectory(position) && !isLink(position) {
            guard let record = record(position) else { continue }
            let isShared = withPath(position) { path in
                others.contains { other in
                    guard let there = other.position(of: path).flatMap(other.record) else { return false }
                    return there.digest == record.digest && (isCloned || there.status.inode == record.status.inode)
                }
            }
            if isShared {
                sums.shared = sums.shared.saturatingAdd(record.status.size)
            } else {
                sums.own = sums.own.saturatingAdd(record.status.size)
            }
        }
        return sums
    }
}

extension StoredSession {
    /// Revisions that were rolled back in the session's destination and are held until a newer one comes: revision,
    /// manifest, and since when, in **milliseconds** since 1970.
    package var held: [(revision: UInt64, manifest: String, since: Int64)] {
        // An unreadable ledger holds nothing here; a pull reports why it cannot be read.
        let home = (try? TreeHome.find(destination)) ?? nil
        return home?.ledger.held.map { ($0.revision, $0.manifest.hex, $0.since) } ?? []
    }
}

extension StoredRun {
    /// Whether all files of the run are in a tree that is to be shown at a certain time, so that only that is left.
    package func onlyAwaitsSwitch(at destination: String) -> Bool {
        guard recipe.atomic?.notBefore != nil, let home = (try? TreeHome.find(destination)) ?? nil else { return false }
        let content = home.ledger.building?.content
        return content?.run == identifier && content?.manifest == manifest
    }
}

extension SyncStore {
    /// The manifests of revisions that are kept in the destinations of all sessions.
    ///
    /// - Throws: ``EngineError``, also if the trees of a destination cannot be read.
    package func manifestsInTrees() throws(EngineError) -> [SHA256Digest] {
        var found: [SHA256Digest] = []
        var asked: Set<String> = []
        for session in try stored(sessions()) where asked.insert(session.destination).inserted {
            let what = "session \(escaped(session.identifier)) cannot be asked which revisions it keeps: "
            let home = try usable(Self.trees(at: session.destination), what)
            found += home?.ledger.trees.compactMap(\.manifest) ?? []
        }
        return found
    }

    /// The trees of a destination; `nil` also for those of another user, whose own state has the manifests that they
    /// need.
    private static func trees(at path: String) throws(FileError) -> TreeHome? {
        do throws(FileError) { return try TreeHome.find(path) } catch {
            guard error.isRefusal else { throw error }
            return nil
        }
    }

    /// Whether a manifest is that of a kept revision; true if unknown.
    func isKeptInTrees(_ manifest: SHA256Digest) -> Bool {
        (try? manifestsInTrees())?.contains(manifest) ?? true
    }
}

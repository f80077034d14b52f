import SyncFiles
import SyncManifest
import SyncModel
import SyncPlugins
import SyncSystem

/// The part of a run that makes a destination change as a whole: which tree is updated, how it begins, and how readers
/// come to see it.
struct TreeSwitch {
    let home: TreeHome
    let wishes: AtomicSwitch
    let environment: EngineEnvironment
    let umask: Umask
    /// The tree that readers see when the run begins; `nil` for none yet.
    let shown: Destination?
    /// The index of that tree.
    let known: StatIndex
    /// The number of the tree that the run works on.
    private(set) var number: UInt64 = 0

    init(
        _ home: TreeHome, _ recipe: RunRecipe, shown: Destination?, known: StatIndex, _ environment: EngineEnvironment
    ) {
        (self.home, self.shown, self.known, self.environment) = (home, shown, known, environment)
        wishes = recipe.atomic ?? AtomicSwitch()
        umask = recipe.umask ?? CurrentProcess.umask
    }

    /// Whether readers see a tree whose groups are not on record as complete: the process that showed it was killed.
    var isUnannounced: Bool { home.ledger.shownTree.map { !$0.isAnnounced } ?? false }

    /// The index of the tree that readers saw before the present one; empty if that tree is not kept.
    func formerIndex() throws(EngineError) -> StatIndex {
        guard let former = home.ledger.former.first else { return .empty }
        return try PullEngine.index(of: try switching(home.destination(former.number, umask: umask)))
    }

    /// Throws the refusals of ``build(_:)``, ``unnamed(by:_:)`` and ``begin(_:rows:edited:_:)``, before anything is
    /// created.
    func preflight(_ digest: SHA256Digest, _ manifest: Manifest, rows: [Int], _ recipe: RunRecipe)
        throws(EngineError)
    {
        try refuseHeld(digest)
        _ = try unnamed(by: manifest, recipe)
        _ = try foreignEntries(manifest, rows: rows)
        try refuseNamesInTheWay(of: manifest, rows)
    }

    /// - Throws: ``EngineError`` with status 77 if the manifest was rolled back and is held.
    private func refuseHeld(_ manifest: SHA256Digest) throws(EngineError) {
        if let held = home.ledger.held.first(where: { $0.manifest == manifest }) {
            let name = held.revision > 0 ? "revision \(held.revision)" : "\(manifest.hex.prefix(12))"
            throw EngineError(
                .refused,
                "\(escaped(home.path)): \(name) has been held since it was rolled back at "
                    + "\(timestamp(milliseconds: held.since)), until a newer one comes; nothing was changed. "
                    + "'syncagent rollback NAME --release' lets it come back", cause: .held)
        }
    }

    /// Chooses the tree to update.
    ///
    /// - Throws: ``EngineError`` with status 77 if the manifest was rolled back and is held.
    mutating func build(_ manifest: SHA256Digest) throws(EngineError) -> Destination {
        try refuseHeld(manifest)
        // If the shown manifest is built again, as when its index was lost, the tree before it stays.
        let again = home.ledger.shownTree?.manifest == manifest
        let kept = again ? max(wishes.kept, wishes.kept &+ 1) : wishes.kept
        number = try switching(
            home.build(keeping: kept, leastAge: wishes.leastAge, now: environment.now(), umask: umask))
        return try switching(home.destination(number, umask: umask))
    }

    /// Chooses a former tree to show again.
    mutating func choose(_ tree: TreeLedger.Tree) { number = tree.number }

    /// The entries of the shown tree that no pull has put there.
    ///
    /// - Throws: ``EngineError`` with status 77 if they would be lost.
    func foreignEntries(_ manifest: Manifest?, rows: [Int] = []) throws(EngineError) -> ForeignEntries? {
        guard let shown else { return nil }
        let place = escaped(home.path)
        let found: ForeignEntries
        do throws(FileError) {
            found = try ForeignEntries(
                in: shown, beside: known, manifest, rows: rows, seal: home.ledger.shownTree?.seal,
                threads: environment.workers)
        } catch { throw EngineError(.ioError, "\(place): \(error)", cause: error.cause) }
        try found.refuse(in: home.path, keepsForeign: wishes.keepForeign)
        return found
    }

    /// The files that readers see and a new tree lacks, see ``Pruning/unnamed(by:_:in:_:)``.
    func unnamed(by manifest: Manifest, _ recipe: RunRecipe) throws(EngineError)
        -> [(position: Int, finding: Removal.Finding)]
    {
        guard let shown else { return [] }
        return try Pruning.unnamed(by: manifest, recipe, in: shown, known)
    }

    /// Makes the tree like the one that readers see.
    ///
    /// - Parameter edited: As ``TreeMirror/edited``.
    /// - Returns: As ``TreeMirror/run()``.
    func begin(_ manifest: Manifest, rows: [Int], edited: [Int], _ progress: ProgressCount) throws(EngineError)
        -> (index: StatIndex, ahead: [Int])
    {
        let foreignEntries = try foreignEntries(manifest, rows: rows)
        try refuseNamesInTheWay(of: manifest, rows)
        let tree = try switching(home.destination(number, umask: umask))
        guard let shown else { return (try PullEngine.index(of: tree), rows) }
        let outcome = try TreeMirror(
            source: shown, known: known, target: tree, targetPath: home.treePath(number), sharing: home.ledger.sharing,
            manifest: manifest, rows: rows, edited: edited, isExact: foreignEntries?.isExact ?? false,
            environment: environment, progress: progress
        ).run()
        // What the run puts into the directories gets what those hand down that readers see.
        try switching { () throws(FileError) in try copyAccess(known, in: tree, to: shown) }
        return outcome
    }

    /// Refuses names at the top that the destination would have to show, and that somebody else has there.
    private func refuseNamesInTheWay(of manifest: Manifest, _ rows: [Int]) throws(EngineError) {
        guard home.ledger.layout == .links else { return }
        guard let name = try switching(home.nameInTheWay(manifest.tops(of: rows))) else { return }
        throw Self.isInTheWay(name, of: home.path)
    }

    /// The error for a name at the top that the new tree needs and somebody else has.
    static func isInTheWay(_ name: String, of path: String) -> EngineError {
        EngineError(
            .refused,
            "\(escaped(path)): no pull has put \(escaped(name)) there, and the new tree needs that name; nothing was "
                + "changed. Move it away", cause: .inTheWay)
    }

    /// Records which manifest readers see if that is not known: they have seen it since before the destination changed
    /// as a whole.
    ///
    /// - Parameter run: The run that found it out; `nil` for none.
    func recordShown(_ completion: StatIndex.Completion, revision: UInt64, run: String? = nil) throws(EngineError) {
        guard let shown = home.ledger.shownTree, shown.manifest == nil else { return }
        let content = TreeLedger.Content(
            manifest: completion.manifest, revision: revision, run: run, files: completion.files,
            bytes: completion.totalBytes)
        try switching(home.record { $0[shown.number]?.content = content })
    }

    /// Finishes the tree: it has no strangers but those that are carried over, and all of it is on the disk.
    ///
    /// - Parameters:
    ///   - manifest: The manifest of a new tree; `nil` for a former one, which keeps what others had where the shown
    ///     tree has files of the set.
    ///   - rows: The rows of the new tree's run.
    ///   - sweeps: Whether everything else that the tree's index does not name is removed; otherwise only older states
    ///     of carried-over files, by their names.
    func finish(_ content: TreeLedger.Content, manifest: Manifest?, rows: [Int] = [], sweeps: Bool = true)
        throws(EngineError)
    {
        let foreignEntries = try foreignEntries(manifest, rows: rows)
        let tree = try switching(home.destination(number, umask: umask))
        let index = try PullEngine.index(of: tree)
        // The index was written just now. Without it everything in the tree would be removed as unknown.
        guard index.count > 0 || content.files == 0 else {
            throw EngineError(
                .ioError, "\(escaped(home.treePath(number))): its index is no longer there; nothing was changed")
        }
        try switching { () throws(FileError) in
            if let shown { try copyAccess(index, in: tree, to: shown) }
            // The state of the directories before their names are read: later changes are seen.
            let seal = tree.seal(of: index.directories, before: index.stamp)
            // Files that a killed run has left without a record, or that were carried over before.
            let left = try ForeignEntries(in: tree, beside: index, threads: environment.workers)
            let carried: Set<[UInt8]>? = sweeps ? nil : Set(foreignEntries?.paths ?? [])
            try left.remove(from: tree, keeping: index) { path in
                let isReplaced = path.withUnsafeBufferPointer { known.position(of: $0) } != nil
                if manifest == nil, isReplaced { return false }
                return carried?.contains(path) ?? true
            }
            if let shown { try foreignEntries?.carry(from: shown, to: tree, beside: index) }
            if environment.isDurable { try environment.synchronize(tree) }
            try home.record(isUrgent: false) {
                $0[number]?.content = content
                $0[number]?.seal = left.isExact ? seal : nil
            }
        }
    }

    /// Gives directories the ACLs and, unless a manifest keeps it, the mode that readers see: somebody may have closed
    /// one, and it stays closed, as it would where files change one by one.
    private func copyAccess(_ index: StatIndex, in tree: Destination, to shown: Destination) throws(FileError) {
        let (from, to) = (Directories(shown), Directories(tree))
        let withACLs = canHaveACLs(shown.root)
        for directory in index.directories {
            let position = directory.withUnsafeBufferPointer { index.position(of: $0) }
            let keepsMode = position.flatMap(index.record)?.keepsMode == true
            guard withACLs || !keepsMode else { continue }
            try to.copyAccess(of: directory, from: from, withACLs: withACLs, keepsMode: keepsMode)
        }
    }

    /// Has a program check the tree before readers see it.
    ///
    /// - Throws: ``EngineError`` with status 5 unless the program succeeds.
    func check(_ content: TreeLedger.Content, session: String) throws(EngineError) {
        guard let program = wishes.check.first else { return }
        let place = home.treePath(number)
        let outcome = environment.hooks?.run(
            HookInvocation(
                arguments: wishes.check, directory: place,
                environment: [
                    "SYNCAGENT_SESSION": session, "SYNCAGENT_RUN_ID": content.run ?? "", "SYNCAGENT_CHECK": "1",
                    "SYNCAGENT_DESTINATION": home.path, "SYNCAGENT_TREE": place,
                    "SYNCAGENT_REVISION": String(content.revision),
                ], input: [], timeout: Self.checkTimeout, isStopped: environment.isStopped))
        guard let outcome else { throw EngineError(.hookFailed, "no program can be run here", cause: .hookNotStarted) }
        if outcome.succeeded { return }
        if environment.stop.isStopped {
            throw EngineError(.interrupted, "stopped while \(escaped(program)) looked at it")
        }
        let words = outcome.output.split(whereSeparator: \.isNewline).last.map {
            ": \(escaped(String($0.prefix(200))))"
        }
        let isMissing = if case .notStarted = outcome.end { true } else { false }
        throw EngineError(
            .hookFailed,
            "\(escaped(home.path)): the check \(escaped(program)) ended with \(OwedHooks.word(outcome.end))\(words ?? ""); "
                + "readers see what they saw before", cause: isMissing ? .hookNotStarted : .hookFailed)
    }

    /// The most **seconds** that a check may take.
    private static let checkTimeout = 3_600

    /// Shows the tree.
    ///
    /// - Returns: The tree that readers see now, and how long the exchange took, in **nanoseconds**.
    func show(isRollback: Bool = false) throws(EngineError) -> (tree: Destination, gap: Int64) {
        let gap = try switching(home.show(number, isRollback: isRollback, now: environment.now()))
        return (try switching(home.destination(number, umask: umask)), gap)
    }

    /// Removes former trees that are no longer kept.
    func tidy() {
        let surplus = home.ledger.surplus(keeping: wishes.kept, leastAge: wishes.leastAge, now: environment.now())
        // A tree that stays is removed the next time.
        try? home.remove(surplus, umask: umask)
    }
}

/// Runs a step on the trees of a destination, with errors converted.
func switching<R: ~Copyable>(_ value: @autoclosure () throws(FileError) -> R) throws(EngineError) -> R {
    try switching(value)
}

func switching<R: ~Copyable>(_ body: () throws(FileError) -> R) throws(EngineError) -> R {
    do throws(FileError) { return try body() } catch { throw EngineError(switching: error) }
}

extension EngineError {
    /// The error when trees cannot be used, their disk fails, or another process has them.
    init(switching error: FileError) {
        if error.code == .resourceTemporarilyUnavailable {
            self.init(.busy, "\(error)")
        } else if error.code == .ioError {
            self.init(.ioError, "\(error)", cause: error.cause)
        } else {
            self.init(cannotUse: error)
        }
    }
}

extension Manifest {
    /// The names at the top that some files need, in order.
    func tops(of rows: [Int]) -> [String] {
        var names: [String] = []
        for row in rows {
            files.withPath(row) { path in
                let top = path.prefix { $0 != 0x2F }
                if names.last.map({ top.elementsEqual($0.utf8) }) != true {
                    names.append(String(decoding: top, as: UTF8.self))
                }
            }
        }
        return names
    }
}

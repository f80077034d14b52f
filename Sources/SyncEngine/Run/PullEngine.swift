import SyncFiles
import SyncManifest
package import SyncModel
import SyncPlugins
import SyncStore
import SyncSystem

/// Makes a destination equal to a manifest. Only this type knows the order of the steps:
///
/// 1. Find the manifest (``ManifestSource``), signed where its project is pinned (``ReleaseSource``).
/// 2. Lock the destination, read its index (``Destination``, ``StatIndex``).
/// 3. If nothing changed since the index was completed for this manifest, only hooks remain.
/// 4. Check what is here (``Inventory``), what may be pruned (``Pruning``), what can be copied.
/// 5. Plan, check the disk, fetch, unpack, verify, commit (``FetchRounds``).
/// 6. Write the index, record that the groups are complete, run the hooks (``OwedHooks``).
///
/// From step 3 on the run is in the store (``RunJournal``), whether a command or the agent works on it.
///
/// Every method blocks the calling thread.
package struct PullEngine: Sendable {
    let environment: EngineEnvironment

    package init(_ environment: EngineEnvironment) { self.environment = environment }

    /// The same engine for another run: with the same transport, but counts of its own.
    package func again(stop: StopRequest) -> PullEngine {
        var environment = environment
        environment.transport = environment.ledger.transport
        environment.stop = stop
        return PullEngine(environment)
    }

    /// Runs a pull to its end. Hooks still owed by an earlier pull of the session run first.
    ///
    /// - Returns: The report, also of a pull that could not place every file.
    /// - Throws: ``EngineError`` when nothing could be tried: no manifest, no destination, busy, refused.
    package func pull(_ recipe: RunRecipe) throws(EngineError) -> PullReport {
        let started = environment.now()
        do throws(EngineError) { return try pull(recipe, started: started) } catch {
            record(error, of: recipe, began: started)
            throw error
        }
    }

    private func pull(_ recipe: RunRecipe, started: Int64) throws(EngineError) -> PullReport {
        let progress = ProgressCount(environment)
        defer { progress.end() }
        let source = try manifestSource(caching: true, of: recipe, keepsFormer: recipe.beginsTrees)
        let found = try releases(source, recipe).find(recipe.manifest)
        // Batch hooks that are owed after a crash get the whole list of files, from the kept manifest.
        let wantsFiles = (recipe.hooks + environment.namedHooks.values).contains { $0.batch != nil }
        if wantsFiles, found.release == nil, recipe.isOfDefaultChannel { source.keep(found) }
        var recipe = recipe
        recipe.note(found)
        let lease = try lease(&recipe, project: found.project)
        let report = try work(on: found, recipe, started: started, progress)
        _ = consume lease
        return report
    }

    /// Pulls a manifest that was found. The caller holds the session.
    func work(
        on found: FoundManifest, _ recipe: RunRecipe, recorded: StoredRun? = nil, started: Int64,
        _ progress: ProgressCount
    ) throws(EngineError) -> PullReport {
        progress.enter(.looking)
        environment.releaseMemory()  // What fetching and reading the manifest took.
        let path = try Self.destinationPath(recipe, project: found.project)
        if !recipe.groups.isEmpty || !recipe.hooks.isEmpty || recipe.hasPatterns, try Self.openIfPresent(path) == nil {
            // Checked first, so that a name missing in the manifest leaves no directory behind.
            let manifest = try found.decode()
            try recipe.requireGroups(of: manifest)
            if recorded == nil { try recipe.requirePaths(of: manifest, environment.stop) }
            if recipe.hasPatterns { _ = try recipe.selectedRows(of: manifest, environment.stop) }
        }
        if let home = try trees(at: path, recipe, bringing: found) {
            return try work(in: home, on: found, recipe, recorded: recorded, started: started, progress)
        }
        let destination = try usable(
            Destination.open(
                path: path, create: true, umask: recipe.umask ?? CurrentProcess.umask, shard: recipe.piece?.name))
        let lock = try Self.lock(destination)
        let session = recipe.session ?? found.project
        let haveOwedSucceeded = try recorded != nil ? true : settleFirst(session, in: destination)
        var run = PullRun(
            recipe: recipe, environment: environment, found: found, destination: destination, started: started,
            progress: progress, recorded: recorded)
        let report = try run.run().counting(owedHooks: haveOwedSucceeded)
        _ = consume lock
        return report
    }

    /// Locks a destination for this process.
    static func lock(_ destination: Destination) throws(EngineError) -> FileLock {
        if let lock = try usable(destination.lock()) { return lock }
        throw isAtWork(in: destination)
    }

    /// The error for a destination that another process has locked.
    static func isAtWork(in destination: Destination) -> EngineError {
        let holder = destination.lockHolder().map { " (process \($0))" } ?? ""
        return EngineError(
            .busy, "\(escaped(destination.path)): another syncagent is at work there\(holder); wait for it")
    }

    /// - Parameter keepsFormer: Whether the previous manifest stays in the cache, needed or not.
    func manifestSource(caching: Bool, of recipe: RunRecipe? = nil, keepsFormer: Bool = false) throws(EngineError)
        -> ManifestSource
    {
        let (directory, limit) = (environment.stateDirectory, environment.manifestLimits.ownTextBytes)
        let cache =
            if caching {
                try ManifestCache(stateDirectory: directory, limit: limit) { [store = environment.store] in
                    // If the store cannot tell, the manifest is kept; 'syncagent gc' removes it.
                    keepsFormer || (try? store.isNeeded($0)) ?? true || store.isKeptInTrees($0)
                }
            } else {
                ManifestCache(reading: directory, limit: limit)
            }
        var source = ManifestSource(
            transport: environment.transport, localTransport: environment.localTransport, cache: cache,
            stop: environment.stop, limits: environment.manifestLimits)
        (source.base, source.hub, source.sources) = (recipe?.base, environment.hub, environment.sources)
        source.isForPieces = caching && (recipe?.piece != nil || recipe?.join != nil)
        source.registries = environment.registries
        return source
    }

    /// The source of manifests, with the signature checks that the recipe and the pins ask for.
    func releases(_ source: ManifestSource, _ recipe: RunRecipe) -> ReleaseSource {
        var source = source
        source.shard = recipe.piece
        return ReleaseSource(
            source: source, pins: PinStore(stateDirectory: environment.stateDirectory), environment: environment,
            wanted: WantedRelease(recipe))
    }

    /// Finds the manifest without storing anything.
    func find(_ recipe: RunRecipe) throws(EngineError) -> FoundManifest {
        try releases(manifestSource(caching: false, of: recipe), recipe).find(recipe.manifest)
    }

    /// - Throws: ``EngineError`` with status 73 for a relative path in a working directory that was removed, and for a
    ///   directory of this program.
    static func destinationPath(_ recipe: RunRecipe, project: String) throws(EngineError) -> String {
        let path = recipe.destination ?? project
        guard let path = absolute(path) else {
            throw EngineError(.cannotCreate, "cannot find \(escaped(path)): \(noWorkingDirectory)")
        }
        try requireForeign(path)
        return path
    }

    /// Requires that a destination is outside this program's own directories.
    ///
    /// - Parameter path: Absolute.
    /// - Throws: ``EngineError`` with status 73.
    package static func requireForeign(_ path: String) throws(EngineError) { try usable(refuseOwnDirectory(path)) }

    /// The index of a destination; ``StatIndex/empty`` where there is none.
    ///
    /// - Throws: ``EngineError`` when the index is there and cannot be read, or the log is too long to be read.
    static func index(of destination: Destination) throws(EngineError) -> StatIndex {
        try known(IndexLog.requireReadable(destination))
        return try known(StatIndex.load(from: destination))
    }

    /// Loads what is recorded of a destination. If that fails, nothing may be changed: installed files would be
    /// forgotten.
    ///
    /// - Throws: ``EngineError`` with status 73 for a file that is too long, 74 otherwise.
    static func known<R>(_ load: @autoclosure () throws(FileError) -> R) throws(EngineError) -> R {
        do throws(FileError) { return try load() } catch {
            let status: ExitStatus = error.code == .fileTooLarge ? .cannotCreate : .ioError
            throw EngineError(status, "\(error); nothing was changed", cause: error.cause)
        }
    }

    static func openIfPresent(_ path: String, usesState: Bool = true) throws(EngineError) -> Destination? {
        try usable(ifPresent(Destination.open(path: path, create: false, usesState: usesState)))
    }

    /// Whether a destination, whose state is open, has no run's files: somebody has moved it away or emptied it, and no
    /// pull has ended there since.
    static func lacksFiles(_ destination: Destination) -> Bool {
        let hasIndex = exists("index", in: destination.state)
        // A first pull was killed.
        if !hasIndex, exists(IndexLog.name, in: destination.state) { return true }
        let spared = [Destination.stateName, "lost+found"]
        guard let names = try? directoryEntries(destination.root), names.allSatisfy(spared.contains) else {
            return false
        }
        // A set may have no files.
        return !hasIndex || StatIndex.read(from: destination).count > 0
    }
}

extension RunRecipe {
    /// Connections assumed by the plan. Four if adaptive: spans are then long enough that 512 MiB take few requests,
    /// even with split tails. The transport has limits of its own.
    var plannedConnections: Int { settings.connections ?? 4 }

    /// Whether the manifest is the one at the given location, not one of another channel or revision.
    var isOfDefaultChannel: Bool { WantedRelease(self).path == nil }

    /// Whether the present content of the destination is to become the first of its trees.
    var beginsTrees: Bool {
        guard atomic != nil, let destination else { return false }
        // A directory that cannot be read is reported later.
        return ((try? TreeHome.find(destination)) ?? nil) == nil
    }

    /// Allows an older revision if the signers of a found manifest do.
    mutating func note(_ found: FoundManifest) {
        // The current signers say which revisions count: a stolen key may have signed higher ones.
        if found.release?.mayBeOlder == true { allowOlder = true }
    }
}

extension FoundManifest {
    /// The facts that are known before the manifest is read.
    var facts: ManifestFacts { ManifestFacts(isPublic: referrer?.isPublic, isSigned: release != nil, source: origin) }
}

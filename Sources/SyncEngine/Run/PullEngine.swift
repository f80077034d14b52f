import SyncFiles
import SyncManifest
import SyncModel
import SyncPlanner
import SyncPlugins
import SyncStore
import SyncSystem

/// Brings a destination to what a manifest names. The one place that knows the order of the steps:
///
/// 1. Find the manifest (``ManifestSource``).
/// 2. Take the destination, read its index (``Destination``, ``StatIndex``).
/// 3. Nothing changed since the index was completed for this manifest? Then only hooks remain.
/// 4. Look at what is here (``InventoryScan``), what may be pruned (``Pruning``), what can be copied.
/// 5. Plan, check the disk, fetch, unpack, verify, commit (``FetchRounds``).
/// 6. Write the index, record that the groups are complete, run the hooks (``GroupCompletion``, ``OwedHooks``).
///
/// From step 3 on the run is in the store (``RunRecord``), whoever works on it: a command, or the agent.
///
/// Every method blocks the calling thread.
package struct PullEngine: Sendable {
    let environment: EngineEnvironment

    package init(_ environment: EngineEnvironment) { self.environment = environment }

    /// Runs a pull to its end. Hooks that an earlier pull of the session still owes come first.
    ///
    /// - Returns: The report, also of a pull that could not place every file.
    /// - Throws: ``EngineError`` when nothing could be tried: no manifest, no destination, busy, refused.
    package func pull(_ options: PullOptions) throws(EngineError) -> PullReport {
        let started = environment.now()
        environment.releaseMemory()  // What reading arguments and settings took.
        let source = try manifestSource(options, caching: true)
        let found = try source.find(options.manifest)
        // After a crash these hooks get every file of it.
        let wantsFiles = (options.hooks + options.namedHooks.values).contains { $0.batch != nil }
        if wantsFiles { source.keep(options.manifest, found.digest) }
        var options = options
        let lease = try lease(&options, project: found.project)
        let report = try work(on: found, options, started: started)
        _ = consume lease
        return report
    }

    /// The caller has the session.
    func work(
        on found: FoundManifest,
        _ options: PullOptions,
        recorded: StoredRun? = nil,
        started: Int64
    ) throws(EngineError) -> PullReport {
        environment.releaseMemory()  // What fetching and reading the manifest took.
        let destination = try Self.open(Self.destinationPath(options, project: found.project), create: true)
        let lock = try Self.lock(destination)
        if recorded == nil {
            let (session, state) = (options.session ?? found.project, options.stateDirectory)
            try settle(session, in: destination, stateDirectory: state, resuming: true)
        }
        var run = PullRun(
            options: options,
            environment: environment,
            found: found,
            destination: destination,
            started: started
        )
        run.recorded = recorded
        let report = try run.run()
        _ = consume lock
        return report
    }

    /// Takes a destination for this process.
    static func lock(_ destination: Destination) throws(EngineError) -> Descriptor {
        let lock: Descriptor?
        do throws(FileError) { lock = try destination.lock() } catch { throw cannotUse(error) }
        if let lock { return lock }
        let holder = destination.lockHolder().map { " (process \($0))" } ?? ""
        throw EngineError(
            .busy,
            "\(escaped(destination.path)): another syncagent is at work there\(holder); wait for it"
        )
    }

    /// What a pull would do, without doing or creating anything.
    package func plan(_ options: PullOptions) throws(EngineError) -> PlanReport {
        let found = try manifestSource(options, caching: false).find(options.manifest)
        let path = Self.destinationPath(options, project: found.project)
        let manifest = try found.decode()
        let rows = try PullRun.selectedRows(manifest, options.groups, environment.stop)
        var inventory = Inventory()
        var pruned = 0
        var refusal: String?
        let destination = try Self.openIfPresent(path)
        let index = destination.map { StatIndex.read(from: $0) } ?? .empty
        try checkRevision(manifest, options)
        if let destination {
            try environment.refuseMeetingNames(of: manifest, in: destination)
            inventory = InventoryScan(
                manifest: manifest,
                rows: rows,
                destination: destination,
                index: index,
                logged: [],
                threads: environment.workers,
                foldsCase: environment.directoryFoldsCase,
                isStopped: { [stop = environment.stop] in stop.isStopped }
            ).run()
            try environment.refuseMeetingNames(of: manifest, in: destination, folding: inventory.folding)
            pruned = Pruning(manifest: manifest, destination: destination, index: index).candidates().count
            if options.prune { refusal = PullRun.refusal(options, pruned, index, destination.path) }
        } else {
            inventory.wanted = rows
            inventory.records = RecordColumn(manifest.files)
        }
        let reuse = ReusePreview(
            manifest,
            wanted: inventory.wanted,
            index: index,
            destination: destination,
            threads: environment.workers,
            isStopped: { [stop = environment.stop] in stop.isStopped }
        )
        do throws(PlanError) {
            let plan = try reuse.plan(connections: options.plannedConnections)
            return PlanReport(
                manifest: manifest,
                rows: rows,
                inventory: inventory,
                plan: plan,
                reusedBytes: reuse.bytes,
                destination: path,
                prunable: pruned,
                pruneRefusal: refusal,
                isDictionaryHere: found.isDictionaryHere(of: manifest),
                manifestRequests: environment.transport.totals.requests,
                referrer: found.referrer
            )
        } catch {
            throw EngineError(.dataInvalid, "the manifest's numbers do not fit: \(error)")
        }
    }

    func manifestSource(_ options: PullOptions, caching: Bool) throws(EngineError) -> ManifestSource {
        var cache: ManifestCache?
        if caching {
            cache = try ManifestCache(
                stateDirectory: options.stateDirectory,
                limit: environment.manifestLimits.ownTextBytes
            ) { [store = environment.store] in
                // What the store does not say is kept; 'syncagent gc' drops it.
                (try? store.isNeeded($0)) ?? true
            }
        }
        return ManifestSource(
            transport: environment.transport,
            localTransport: environment.localTransport,
            cache: cache,
            parts: cache?.parts ?? PartCache(stateDirectory: options.stateDirectory, isReadOnly: true),
            nextID: TransferNumbers.next,
            stop: environment.stop,
            limits: environment.manifestLimits
        )
    }

    static func destinationPath(_ options: PullOptions, project: String) -> String {
        absolute(options.destination ?? "./\(project)")
    }

    static func open(_ path: String, create: Bool) throws(EngineError) -> Destination {
        do throws(FileError) {
            return try Destination.open(path: path, create: create)
        } catch {
            throw cannotUse(error)
        }
    }

    static func openIfPresent(_ path: String, usesState: Bool = true) throws(EngineError) -> Destination? {
        do throws(FileError) {
            return try Destination.open(path: path, create: false, usesState: usesState)
        } catch {
            if error.isMissing { return nil }
            throw cannotUse(error)
        }
    }

    static func cannotUse(_ error: FileError) -> EngineError { EngineError(.cannotCreate, "\(error)") }
}

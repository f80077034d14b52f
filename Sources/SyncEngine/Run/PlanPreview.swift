import SyncFiles
import SyncManifest
package import SyncModel
import SyncPlanner
import SyncPlugins
import SyncStore
import SyncSystem

/// What a pull would do, determined without creating anything.
extension PullEngine {
    /// - Parameter tell: Told of directories to make, of every file and link in the order of their paths, those that are
    ///   right included, and of directories to remove.
    /// - Returns: The plan. What the pull would refuse although it can be planned is in ``PlanReport/refusal``.
    /// - Throws: ``EngineError``, as the pull would, where there is nothing to plan.
    package func plan(
        _ recipe: RunRecipe,
        telling tell: ((PlannedFile) -> Void)? = nil
    ) throws(EngineError) -> PlanReport {
        let found = try find(recipe)
        var recipe = recipe
        recipe.note(found)
        let path = try Self.destinationPath(recipe, project: found.project)
        let session = try sessionName(recipe, project: found.project)
        // In the order in which a pull would find them.
        var refusals: [EngineError] = []
        if let holder = environment.store.holder(of: session) {
            refusals.append(
                EngineError(
                    .busy,
                    "Session '\(escaped(session))' is busy (process \(holder)). Wait for it, or stop it."
                )
            )
        }
        let space: FileSystemSpace?
        do throws(FileError) {
            space = try Destination.prospect(path)
        } catch {
            space = nil
            refusals.append(EngineError(cannotUse: error))
        }
        let destination = try Self.openIfPresent(path)
        if let destination, destination.isTaken { refusals.append(Self.isAtWork(in: destination)) }
        let old = destination.map { StatIndex.read(from: $0) } ?? .empty
        try PullRun.requireOwner(old, of: path, project: found.project)
        let manifest = try found.decode()
        try recipe.requireGroups(of: manifest)
        try recipe.requirePaths(of: manifest, environment.stop)
        let rows = try recipe.selectedRows(of: manifest, environment.stop)
        var named = recipe
        named.session = session
        try checkRevision(manifest, named)
        // With what a killed pull put in place. A stop ends the plan further down.
        let index = destination.flatMap { environment.foldPreview(old, in: $0) } ?? old

        var inventory = Inventory()
        var (pruned, goingDirectories) = ([Int](), [Int]())
        var pruneRefusal: String?
        if let destination {
            try environment.refuseMeetingNames(of: manifest, in: destination)
            inventory = look(at: rows, of: manifest, in: destination, index)
            try environment.refuseMeetingNames(of: manifest, in: destination, folding: inventory.folding)
            let pruning = Pruning(manifest: manifest, destination: destination, index: index)
            pruned = pruning.candidates()
            goingDirectories = pruning.goingDirectories()
            if recipe.prune {
                let refusal = pruning.refusal(recipe, removing: pruned.count)
                pruneRefusal = refusal?.reason
                if let refusal { refusals.append(refusal.error) }
            }
            let straying = UpwardLinks(manifest, destination, index).straying(pruning.obsolete(), rows: rows)
            if let link = straying.first(where: { index.record($0)?.installed != true }) {
                refusals.append(PullRun.straying(link, index, path))
            }
        } else {
            inventory.wanted = rows
            inventory.records = RecordColumn(manifest.files)
        }
        let directoryRows = recipe.selectedDirectories(of: manifest, with: rows)
        let directories: (missing: [Int], taken: [FileError]) =
            destination.map {
                NamedDirectories(manifest: manifest, destination: $0, index: index, rows: directoryRows)
                    .preview()
            } ?? (directoryRows, [])
        let leftovers = destination?.leftoverBytes ?? 0
        if let space, !inventory.wanted.isEmpty {
            let need = SpaceNeed(inventory.wanted, of: manifest, present: leftovers)
            if let shortage = need.shortage(space, path) { refusals.append(shortage) }
        }
        let reuse = ReusePreview(
            manifest,
            wanted: inventory.wanted,
            index: index,
            destination: destination,
            threads: environment.workers,
            isStopped: environment.isStopped
        )
        if let tell {
            let files = PlannedFiles(
                manifest: manifest,
                inventory: inventory,
                index: index,
                destination: destination,
                reuse: reuse,
                prunes: recipe.prune
            )
            files.tell(
                rows,
                obsolete: pruned,
                newDirectories: directories.missing,
                oldDirectories: goingDirectories,
                isStopped: environment.isStopped,
                to: tell
            )
        }
        if environment.stop.isStopped { throw EngineError(.interrupted, "stopped while planning") }
        let plan: Plan
        do throws(PlanError) { plan = try reuse.plan(connections: recipe.plannedConnections) } catch {
            throw EngineError(.dataInvalid, "the manifest's numbers do not fit: \(error)")
        }
        func bytes(_ rows: some Sequence<Int>) -> UInt64 {
            rows.reduce(UInt64(0)) { $0 &+ manifest.files.size($1) }
        }
        let leftoverBytes = inventory.wanted.isEmpty ? 0 : leftovers
        let needsDictionary =
            plan.slots.contains(where: \.codec.needsDictionary) && !found.isDictionaryHere(of: manifest)
        let dictionaryBytes = needsDictionary ? manifest.dictionary?.blob.storedLength ?? 0 : 0
        // The parts of the manifest have been fetched by now.
        let manifestRequests = environment.transport.totals.requests
        return PlanReport(
            project: manifest.project,
            revision: manifest.revision,
            destination: path,
            files: rows.count,
            unchanged: inventory.records.count,
            wanted: inventory.wanted.count,
            missingDirectories: directories.missing.count,
            prunableDirectories: goingDirectories.count,
            obstructed: (inventory.obstructed.map(\.error) + directories.taken).map { "\($0)" },
            prunable: pruned.count,
            prunes: recipe.prune,
            pruneRefusal: pruneRefusal,
            refusal: refusals.first,
            totalBytes: bytes(rows),
            unchangedBytes: bytes(rows.lazy.filter(inventory.records.has)),
            reusedBytes: reuse.bytes,
            leftoverBytes: leftoverBytes,
            deltaBytes: plan.deltaBytes,
            dictionaryBytes: dictionaryBytes,
            packBytes: plan.packBytes,
            looseBytes: plan.looseBytes,
            gapBytes: plan.gapBytes,
            packRequests: plan.spans.count - plan.loose.count,
            looseRequests: plan.loose.count,
            requestsAvoided: plan.requestsAvoided,
            manifestRequests: manifestRequests,
            requestCount: PlanReport.requestCount(
                plan,
                before: manifestRequests &+ (dictionaryBytes > 0 ? 1 : 0),
                least: leftoverBytes > 0 ? manifestRequests : nil
            ),
            requests: plan.spans.map { PlanReport.Request($0, of: plan, manifest) },
            referrer: found.referrer
        )
    }

    private func look(
        at rows: [Int],
        of manifest: Manifest,
        in destination: Destination,
        _ index: StatIndex
    ) -> Inventory {
        let scan = InventoryScan(
            manifest: manifest,
            rows: rows,
            destination: destination,
            index: index,
            mends: false,
            environment: environment
        )
        var inventory = scan.run()
        let links = UpwardLinks(manifest, destination, index)
        for row in inventory.wanted where links.isAstray(row) {
            inventory.obstructed.append(
                Inventory.Obstruction(
                    row: row,
                    error: FileError(
                        step: "place",
                        path: manifest.files.path(row),
                        remark: UpwardLinks.astray,
                        trouble: .inTheWay
                    )
                )
            )
        }
        let taken = Set(inventory.obstructed.map(\.row))
        inventory.wanted.removeAll(where: taken.contains)
        return inventory
    }
}

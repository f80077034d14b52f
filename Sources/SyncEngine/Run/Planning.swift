import SyncFiles
import SyncManifest
package import SyncModel
import SyncPlugins
import SyncSources
import SyncStore
import SyncSystem

/// What a pull would do, determined without creating anything.
extension PullEngine {
    /// - Parameter tell: Told of directories to make, of every file and link in the order of their paths, those that are
    ///   right included, and of directories to remove.
    /// - Returns: The plan. What the pull would refuse although it can be planned is in ``PlanReport/refusal``.
    /// - Throws: ``EngineError``, as the pull would, where there is nothing to plan.
    package func plan(_ recipe: RunRecipe, telling tell: ((PlannedFile) -> Void)? = nil) throws(EngineError)
        -> PlanReport
    {
        let found = try find(recipe)
        var recipe = recipe
        recipe.note(found)
        let path = try Self.destinationPath(recipe, project: found.project)
        // A new tree has what its manifest names.
        let trees = try usable(TreeHome.find(path))
        let isWhole = recipe.atomic != nil || trees != nil
        if isWhole { recipe.prune = true }
        let session = try sessionName(recipe, project: found.project)
        // In the order in which a pull would find them.
        var refusals: [EngineError] = []
        if let holder = environment.store.holder(of: session) {
            refusals.append(
                EngineError(
                    .busy, "Session '\(escaped(session))' is busy (process \(holder)). Wait for it, or stop it."))
        }
        let space: FileSystemSpace?
        do throws(FileError) { space = try Destination.prospect(path) } catch {
            space = nil
            refusals.append(EngineError(cannotUse: error))
        }
        let destination = try Self.openIfPresent(path)
        if let destination, destination.isTaken { refusals.append(Self.isAtWork(in: destination)) }
        if let destination, trees == nil {
            do throws(EngineError) { try BackupDirectory.check(for: recipe, beside: destination) } catch {
                refusals.append(error)
            }
        }
        let old = try destination.map { (place) throws(EngineError) in try Self.index(of: place) } ?? .empty
        if let destination { try PullRun.requireOwner(old, of: destination, project: found.project) }
        let manifest = try known(found, recipe, asksSizes: true).sharingFiles(destination?.sharesFiles ?? false)
        try recipe.requireGroups(of: manifest)
        try recipe.requirePaths(of: manifest, environment.stop)
        let rows = try recipe.selectedRows(of: manifest, environment.stop)
        var named = recipe
        named.session = session
        try checkRevision(manifest, named)
        var pruneRefusal: String?
        // With what a killed pull put in place. A stop ends the plan further down.
        let folded =
            try Self.known { () throws(FileError) in
                try destination.flatMap { (place) throws(FileError) in try environment.foldPreview(old, in: place) }
            } ?? old
        let index =
            if let destination, recipe.piece == nil, folded.completion?.manifest != found.digest {
                try environment.takingLeft(folded, in: destination)
            } else { folded }

        let wholeRefusal = try wholeRefusal(
            found, manifest, recipe, in: trees, destination, old: old, known: index)
        if let wholeRefusal { refusals.append(wholeRefusal) }
        var survey: Survey?
        if let destination {
            var found = try Survey(recipe, manifest, rows: rows, in: destination, index, mends: false, environment)
            found.foresee()
            if recipe.prune, let refusal = found.pruning.refusal(recipe, removing: found.obsolete.count) {
                pruneRefusal = refusal.reason
                refusals.append(refusal.error)
            }
            let links = UpwardLinks(manifest, destination, index)
            let straying = links.straying(found.left(of: found.unnamed), rows: rows)
            if let link = straying.first(where: { index.record($0)?.installed != true }) {
                refusals.append(links.refusal(link))
            }
            survey = found
        }
        let wanted = survey?.inventory.wanted ?? rows
        let leftovers = destination?.leftoverBytes ?? 0
        if let destination {
            let shortage = try destination.shortage(of: wanted, in: manifest) { _ in leftovers }
            if let shortage { refusals.append(shortage) }
        } else if let space, let shortage = shortage(of: wanted, in: manifest, on: space, path) {
            refusals.append(shortage)
        }
        // What is in the way goes before anything is copied.
        let left = survey.map { index.without($0.blocking) } ?? index
        let sources = destination.map {
            left.sources(
                of: wanted.filter { manifest.files.kind($0) != .link && manifest.files.size($0) > 0 }, wanted: wanted,
                in: manifest, below: $0, isStopped: environment.isStopped)
        }
        let copied = wanted.filter { sources?[manifest.files.digest($0)] != nil }
        let rest = wanted.without(Set(copied))
        let local = LocalBytes(
            manifest.sharingBlobs(among: wanted), wanted: rest, index: left, destination: destination, environment,
            isStopped: environment.isStopped)
        let directories = (
            missing: survey?.missingDirectories ?? recipe.selectedDirectories(of: manifest, with: rows),
            going: survey.map { $0.pruning.existing($0.formerDirectories) } ?? []
        )
        if let tell {
            for row in directories.missing {
                tell(PlannedFile(path: manifest.directories.path(row), action: .new, isDirectory: true))
            }
            let names = (sources ?? [:]).mapValues(left.text)
            tellFiles(rows, of: manifest, survey, names, local, prunes: recipe.prune, tell)
            for position in directories.going {
                let action: PlannedFile.Action = recipe.prune ? .removed : .obsolete
                tell(PlannedFile(path: index.text(position), action: action, isDirectory: true))
            }
        }
        if environment.stop.isStopped { throw EngineError(.interrupted, "stopped while planning") }
        let plan = local.plan(connections: recipe.plannedConnections)
        func bytes(_ rows: some Sequence<Int>) -> UInt64 { rows.reduce(UInt64(0)) { $0 &+ manifest.files.size($1) } }
        let needsDictionary =
            plan.slots.contains(where: \.codec.needsDictionary) && !found.isDictionaryHere(of: manifest)
        let dictionaryBytes = needsDictionary ? manifest.dictionary?.blob.storedLength ?? 0 : 0
        let leftoverBytes = wanted.isEmpty ? 0 : leftovers
        // The parts of the manifest have been fetched by now.
        let manifestRequests = environment.transport.totals.requests
        let inventory = survey?.inventory ?? Inventory(records: RecordColumn(manifest.files), wanted: rows)
        var report = PlanReport(
            project: manifest.project, revision: manifest.revision, destination: path, files: rows.count,
            unchanged: inventory.records.count, wanted: wanted.count,
            replaced: isWhole ? 0 : inventory.foreign.intersection(wanted).count,
            missingDirectories: directories.missing.count,
            prunableDirectories: directories.going.count,
            obstructed: (inventory.obstructed.map(\.error) + (survey?.takenDirectories ?? [])).map { "\($0)" },
            prunable: survey?.obsolete.count ?? 0, prunes: recipe.prune, pruneRefusal: pruneRefusal,
            refusal: refusals.first, totalBytes: bytes(rows),
            unchangedBytes: bytes(rows.lazy.filter(inventory.records.has)),
            reusedBytes: rest.reduce(bytes(copied)) { $0 &+ local.bytes(of: $1) }, leftoverBytes: leftoverBytes,
            dictionaryBytes: dictionaryBytes, fetch: plan, manifestRequests: manifestRequests,
            requestCount: PlanReport.requestCount(
                plan, before: manifestRequests &+ (dictionaryBytes > 0 ? 1 : 0),
                least: leftoverBytes > 0 ? manifestRequests : nil),
            requests: plan.spans.map { PlanReport.Request($0, of: plan, manifest) }, referrer: found.referrer)
        report.source = manifest.source
        report.unknown = wanted.count { manifest.files.checks[$0] != nil }
        report.quota = quota(of: plan, manifest, found)
        return report
    }

    /// From how many files on the hub's limit is asked for, at the price of one request.
    private static let many = 200

    /// How many requests a hub takes, as the answer to a request for one of many files says.
    private func quota(of plan: Plan, _ manifest: Manifest, _ found: FoundManifest) -> RequestQuota? {
        guard plan.loose.count >= Self.many, manifest.source?.kind == HubAddress.scheme,
            urlScheme(of: found.location) == HubAddress.scheme
        else { return nil }
        let row = plan.spans.lazy.compactMap { span -> Int? in
            if case .loose(let row) = span.source { row } else { nil }
        }.first
        guard let row else { return nil }
        var request = TransferRequest(
            id: .next(), urls: resolve(manifest.files.urls(row), against: found.bases), limit: 1,
            priority: .max, referrer: found.referrer)
        request.isHeadOnly = true
        // Only told.
        return (try? found.source.bring(request, until: .now + .seconds(10)).get())?.report.quota
    }

    /// Tells of every file and link in the order of their paths, those included that go.
    ///
    /// - Parameters:
    ///   - survey: `nil` without a destination.
    ///   - sources: Paths of local files with a content.
    private func tellFiles(
        _ rows: [Int], of manifest: Manifest, _ survey: Survey?, _ sources: [SHA256Digest: String], _ local: LocalBytes,
        prunes: Bool, _ tell: (PlannedFile) -> Void
    ) {
        let files = manifest.files
        let index = survey?.index ?? .empty
        let inventory = survey?.inventory ?? Inventory(records: RecordColumn(files), wanted: rows)
        let reasons = Dictionary(
            inventory.obstructed.map { ($0.row, $0.error.reason) }, uniquingKeysWith: { first, _ in first })
        let makingRoom = Set(survey?.blocking ?? [])
        let directories = survey.map { Directories($0.pruning.destination) }
        var gone = (survey?.obsolete ?? [])[...]
        func tellGone(before row: Int?) {
            while let position = gone.first, !environment.stop.isStopped {
                let comesFirst = index.withPath(position) { path in
                    row.map { files.withPath($0) { PathOrder.compare(path, $0) < 0 } } ?? true
                }
                guard comesFirst else { return }
                gone.removeFirst()
                let goes = prunes || makingRoom.contains(position)
                tell(PlannedFile(path: index.text(position), action: goes ? .removed : .obsolete))
            }
        }
        for row in rows where !environment.stop.isStopped {
            tellGone(before: row)
            let isUnchanged = inventory.records.has(row)
            let isNew = !isUnchanged && !Self.isTaken(row, of: files, directories)
            let action: PlannedFile.Action =
                reasons[row] != nil ? .blocked : isUnchanged ? .unchanged : isNew ? .new : .changed
            var file = PlannedFile(path: files.path(row), action: action)
            file.reason = reasons[row]
            file.link = files.kind(row) == .link ? files.linkTarget(row) : nil
            file.size = files.kind(row) == .link ? nil : files.size(row)
            if files.kind(row) != .link, action == .new || action == .changed {
                let source = files.size(row) > 0 ? sources[files.digest(row)] : nil
                file.from = source
                file.here = source == nil ? local.bytes(of: row) : files.size(row)
            }
            tell(file)
        }
        tellGone(before: nil)
    }

    /// Whether anything has a row's name.
    private static func isTaken(_ row: Int, of files: FileTable, _ directories: Directories?) -> Bool {
        guard let directories else { return false }
        let found = files.withPath(row) { path in
            // What cannot be entered is not there.
            try? directories.withLeaf(of: path) { directory, leaf -> Bool in
                if case .success(nil) = status(directory, leaf) { false } else { true }
            }
        }
        return found == .some(.some(true))
    }
}

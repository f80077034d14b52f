import SyncFiles
import SyncManifest
package import SyncModel
import SyncPlugins
import SyncStore
import SyncSystem

/// What a pull would do, determined without creating anything.
extension PullEngine {
    /// - Parameter emit: Receives directories to make, then every file and link in the order of their paths, unchanged
    ///   ones included, then directories to remove.
    /// - Returns: The plan. If it can be made although the pull would be refused, ``PlanReport/refusal`` says why.
    /// - Throws: ``EngineError``, as the pull would, where there is nothing to plan.
    package func plan(_ recipe: RunRecipe, emitting emit: ((PlannedFile) -> Void)? = nil) throws(EngineError)
        -> PlanReport
    {
        let found = try find(recipe)
        var recipe = recipe
        recipe.note(found)
        let path = try Self.destinationPath(recipe, project: found.project)
        // A new tree has only what its manifest names.
        let trees = try usable(TreeHome.find(path))
        let isWhole = recipe.atomic != nil || trees != nil
        if isWhole { recipe.prune = true }
        let session = try sessionName(recipe, project: found.project)
        let space = Result { () throws(FileError) in try Destination.prospect(path) }
        let present = try Self.openIfPresent(path)
        let destination = try present == nil ? usable(trees?.lost()) : present
        // In the order in which a pull would find them.
        var refusals = obstacles(to: recipe, session: session, space, destination, hasTrees: trees != nil)
        if let trees {
            do throws(FileError) { try trees.preflight() } catch {
                refusals.append(EngineError(switching: error))
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
        let index = try expectedIndex(old, in: destination, found, recipe)
        let wholeRefusal = try wholeRefusal(
            found, manifest, rows: rows, recipe, in: trees, destination, old: old, known: index)
        if let wholeRefusal { refusals.append(wholeRefusal) }
        let survey = try destination.map { [recipe] (place) throws(EngineError) -> Survey in
            var survey = try Survey(
                recipe, of: manifest, rows: rows, in: place, index: index, mends: false, environment: environment)
            survey.anticipateRemovals()
            return survey
        }
        let outlook = Outlook(recipe, manifest, rows: rows, survey, environment)
        if let refusal = outlook.pruneRefusal { refusals.append(refusal.error) }
        if let refusal = outlook.linkRefusal { refusals.append(refusal) }
        if !isWhole, let refusal = outlook.permissionRefusal { refusals.append(refusal) }
        if let shortage = try outlook.shortage(on: space, path) { refusals.append(shortage) }
        if let emit { emitAll(outlook, emit) }
        if environment.stop.isStopped { throw EngineError(.interrupted, "stopped while planning") }
        var report = report(outlook, found, at: path, refusal: refusals.first)
        if !isWhole, let survey { report.replaced = survey.inventory.foreign.intersection(outlook.wanted).count }
        return report
    }

    /// The errors that a pull would meet before it reads the manifest.
    ///
    /// - Parameters:
    ///   - space: The space on the destination's file system, or why nothing can be created there.
    ///   - hasTrees: Whether the destination changes as a whole.
    private func obstacles(
        to recipe: RunRecipe, session: String, _ space: Result<FileSystemSpace, FileError>,
        _ destination: Destination?, hasTrees: Bool
    ) -> [EngineError] {
        var obstacles: [EngineError] = []
        if let holder = environment.store.holder(of: session) {
            obstacles.append(
                EngineError(
                    .busy, "Session '\(escaped(session))' is busy (process \(holder)). Wait for it, or stop it."))
        }
        if case .failure(let error) = space { obstacles.append(EngineError(cannotUse: error)) }
        guard let destination else { return obstacles }
        if destination.isTaken { obstacles.append(Self.isAtWork(in: destination)) }
        guard !hasTrees else { return obstacles }
        do throws(EngineError) { try BackupDirectory.check(for: recipe, beside: destination) } catch {
            obstacles.append(error)
        }
        return obstacles
    }

    /// The index that a pull would start from: with what killed pulls have installed, and with shards that were not
    /// joined.
    ///
    /// - Parameter old: The index on disk.
    private func expectedIndex(
        _ old: StatIndex, in destination: Destination?, _ found: FoundManifest, _ recipe: RunRecipe
    ) throws(EngineError) -> StatIndex {
        guard let destination else { return old }
        // A stop leaves no result, and ends the plan later.
        let folded =
            try Self.known(environment.foldPreview(old, in: destination)) ?? old
        guard recipe.piece == nil, folded.completion?.manifest != found.digest else { return folded }
        return try environment.takingLeft(folded, in: destination)
    }

    private func report(_ outlook: Outlook, _ found: FoundManifest, at path: String, refusal: EngineError?)
        -> PlanReport
    {
        let (recipe, manifest) = (outlook.recipe, outlook.manifest)
        let (rows, wanted, local) = (outlook.rows, outlook.wanted, outlook.local)
        let plan = local.plan(connections: recipe.plannedConnections)
        func bytes(_ rows: some Sequence<Int>) -> UInt64 { rows.reduce(UInt64(0)) { $0 &+ manifest.files.size($1) } }
        let needsDictionary =
            plan.slots.contains(where: \.codec.needsDictionary) && !found.isDictionaryHere(of: manifest)
        let dictionaryBytes = needsDictionary ? manifest.dictionary?.blob.storedLength ?? 0 : 0
        let leftoverBytes = wanted.isEmpty ? 0 : outlook.leftovers
        // The parts of the manifest have been fetched by now.
        let manifestRequests = environment.transport.totals.requests
        var report = PlanReport(
            project: manifest.project, revision: manifest.revision, destination: path, files: rows.count,
            unchanged: outlook.records.count, wanted: wanted.count,
            missingDirectories: outlook.missingDirectories.count,
            prunableDirectories: outlook.goingDirectories.count,
            obstructed: (outlook.obstructed.map(\.error) + (outlook.survey?.takenDirectories ?? [])).map { "\($0)" },
            prunable: outlook.survey?.obsolete.count ?? 0, prunes: recipe.prune,
            pruneRefusal: outlook.pruneRefusal?.reason, refusal: refusal, totalBytes: bytes(rows),
            unchangedBytes: bytes(rows.lazy.filter(outlook.records.has)),
            reusedBytes: outlook.rest.reduce(bytes(outlook.copied)) { $0 &+ local.bytes(of: $1) },
            leftoverBytes: leftoverBytes, dictionaryBytes: dictionaryBytes, fetch: plan,
            manifestRequests: manifestRequests,
            requestCount: PlanReport.requestCount(
                plan, before: manifestRequests &+ (dictionaryBytes > 0 ? 1 : 0),
                least: leftoverBytes > 0 ? manifestRequests : nil),
            requests: plan.spans.map { PlanReport.Request($0, of: plan, manifest) }, referrer: found.referrer)
        report.source = manifest.source
        report.unknown = wanted.count { manifest.files.checks[$0] != nil }
        report.quota = quota(of: plan, manifest, found)
        return report
    }

    /// From this many files on, the plan asks for the hub's quota, at the cost of one request.
    private static let many = 200

    /// The hub's request quota, as the answer to a HEAD request for one of many files states it.
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
        // A failure only leaves the quota out.
        return (try? found.source.fetch(request, until: .now + .seconds(10)).get())?.report.quota
    }

    /// Reports directories to make, every file and link, and directories to remove.
    private func emitAll(_ outlook: Outlook, _ emit: (PlannedFile) -> Void) {
        for row in outlook.missingDirectories {
            emit(PlannedFile(path: outlook.manifest.directories.path(row), action: .new, isDirectory: true))
        }
        emitFiles(outlook, emit)
        let action: PlannedFile.Action = outlook.recipe.prune ? .removed : .obsolete
        for position in outlook.goingDirectories {
            emit(PlannedFile(path: outlook.index.text(position), action: action, isDirectory: true))
        }
    }

    /// Reports every file and link in the order of their paths, those to be removed included.
    private func emitFiles(_ outlook: Outlook, _ emit: (PlannedFile) -> Void) {
        let (files, index, survey) = (outlook.manifest.files, outlook.index, outlook.survey)
        let reasons = Dictionary(
            outlook.obstructed.map { ($0.row, $0.error.reason) }, uniquingKeysWith: { first, _ in first })
        let makingRoom = Set(survey?.blocking ?? [])
        let directories = survey.map { Directories($0.pruning.destination) }
        var gone = (survey?.obsolete ?? [])[...]
        func emitRemoved(before row: Int?) {
            while let position = gone.first, !environment.stop.isStopped {
                let comesFirst = index.withPath(position) { path in
                    row.map { files.withPath($0) { PathOrder.compare(path, $0) < 0 } } ?? true
                }
                guard comesFirst else { return }
                gone.removeFirst()
                let goes = outlook.recipe.prune || makingRoom.contains(position)
                emit(PlannedFile(path: index.text(position), action: goes ? .removed : .obsolete))
            }
        }
        for row in outlook.rows where !environment.stop.isStopped {
            emitRemoved(before: row)
            let isUnchanged = outlook.records.has(row)
            let isNew = !isUnchanged && !Self.isTaken(row, of: files, directories)
            let action: PlannedFile.Action =
                reasons[row] != nil ? .blocked : isUnchanged ? .unchanged : isNew ? .new : .changed
            var file = PlannedFile(path: files.path(row), action: action)
            file.reason = reasons[row]
            file.link = files.kind(row) == .link ? files.linkTarget(row) : nil
            file.size = files.kind(row) == .link ? nil : files.size(row)
            if files.kind(row) != .link, action == .new || action == .changed {
                file.from = outlook.source(of: row)
                file.here = file.from == nil ? outlook.local.bytes(of: row) : files.size(row)
            }
            emit(file)
        }
        emitRemoved(before: nil)
    }

    /// Whether anything exists at a row's path.
    private static func isTaken(_ row: Int, of files: FileTable, _ directories: Directories?) -> Bool {
        guard let directories else { return false }
        let found = files.withPath(row) { path in
            // An entry in a directory that cannot be entered counts as absent.
            try? directories.withLeaf(of: path) { directory, leaf -> Bool in
                if case .success(nil) = status(directory, leaf) { false } else { true }
            }
        }
        return found == .some(.some(true))
    }
}

/// What a pull would find at its destination, and what it would have to fetch, make and remove.
private struct Outlook {
    let recipe: RunRecipe
    let manifest: Manifest
    /// The selected rows.
    let rows: [Int]
    /// `nil` without a destination.
    let survey: Survey?
    let index: StatIndex
    /// The records of files that are right, and what is in the way of others; see ``Inventory``.
    let records: RecordColumn
    let obstructed: [(row: Int, error: FileError)]
    /// Rows that are missing or differ.
    let wanted: [Int]
    /// Wanted rows whose content a file at the destination has, and the remaining ones.
    let copied, rest: [Int]
    /// The chunks and bases of the remaining rows that the destination has.
    let local: LocalBytes
    /// **Bytes** that an interrupted pull has left.
    let leftovers: UInt64
    /// Rows of directories to make.
    let missingDirectories: [Int]
    /// Positions in the index of directories that no row names any more.
    let goingDirectories: [Int]
    /// Why a pull would not prune; `nil` if it would, or need not.
    let pruneRefusal: (reason: String, error: EngineError)?
    /// The index without files that are in the way: they are removed before anything is copied.
    private let remaining: StatIndex
    /// Positions in ``remaining`` of files with wanted content.
    private let sources: [SHA256Digest: Int]

    init(
        _ recipe: RunRecipe, _ manifest: Manifest, rows: [Int], _ survey: Survey?, _ environment: EngineEnvironment
    ) {
        (self.recipe, self.manifest, self.rows, self.survey) = (recipe, manifest, rows, survey)
        index = survey?.index ?? .empty
        records = survey?.inventory.records ?? RecordColumn(manifest.files)
        obstructed = survey?.inventory.obstructed ?? []
        missingDirectories = survey?.missingDirectories ?? recipe.selectedDirectories(of: manifest, with: rows)
        goingDirectories = survey.map { $0.pruning.existing($0.formerDirectories) } ?? []
        pruneRefusal =
            recipe.prune ? survey.flatMap { $0.pruning.refusal(recipe, removing: $0.obsolete.count) } : nil
        let (destination, wanted) = (survey?.pruning.destination, survey?.inventory.wanted ?? rows)
        self.wanted = wanted
        leftovers = destination?.leftoverBytes ?? 0
        let remaining = survey.map { $0.index.without($0.blocking) } ?? .empty
        let sources = destination.map {
            remaining.sources(
                of: wanted.filter { manifest.files.kind($0) != .link && manifest.files.size($0) > 0 }, wanted: wanted,
                in: manifest, below: $0, isStopped: environment.isStopped)
        }
        let copied = wanted.filter { sources?[manifest.files.digest($0)] != nil }
        let rest = wanted.without(Set(copied))
        local = LocalBytes(
            manifest.sharingBlobs(among: wanted), wanted: rest, index: remaining, destination: destination,
            environment, isStopped: environment.isStopped)
        (self.remaining, self.sources, self.copied, self.rest) = (remaining, sources ?? [:], copied, rest)
    }

    /// The path of a file at the destination that has the content of a row.
    func source(of row: Int) -> String? {
        manifest.files.size(row) > 0 ? sources[manifest.files.digest(row)].map(remaining.text) : nil
    }

    /// The refusal for a link of an earlier revision that leads out of the tree and that no pull has installed.
    var linkRefusal: EngineError? {
        guard let survey else { return nil }
        let links = UpwardLinks(manifest, survey.pruning.destination, index)
        let escaping = links.escaping(survey.left(of: survey.unnamed), rows: rows)
        return escaping.first { index.record($0)?.installed != true }.map(links.refusal)
    }

    /// The error of a pull that may not put a file into its directory. What it opens, or makes, is not looked at.
    var permissionRefusal: EngineError? {
        guard let survey else { return nil }
        let (files, named) = (manifest.files, manifest.directories)
        let directories = Directories(survey.pruning.destination)
        var last: Int32 = -1
        for row in wanted {
            let code = files.withPath(row) { path -> Errno? in
                let above = path.parentPath
                let raw = (try? directories.descriptor(above, create: false)) ?? nil
                guard let raw, raw != last else { return nil }
                last = raw
                return isPermitted(.change, ".", in: raw) || named.row(of: above) != nil ? nil : Errno.last
            }
            guard let code else { continue }
            let error = FileError(step: "install", path: files.path(row), code: code)
            return EngineError(.ioError, "\(error)", cause: error.cause)
        }
        return nil
    }

    /// The refusal for lack of space on the disk.
    func shortage(on space: Result<FileSystemSpace, FileError>, _ path: String) throws(EngineError) -> EngineError? {
        if let survey {
            return try survey.pruning.destination.shortage(of: wanted, in: manifest) { _ in leftovers }
        }
        guard case .success(let free) = space else { return nil }
        return SyncEngine.shortage(of: wanted, in: manifest, on: free, path)
    }
}

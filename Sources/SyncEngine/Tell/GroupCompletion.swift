import SyncFiles
import SyncManifest
import SyncModel
import SyncStore

/// Reports which groups are complete, then runs their hooks. Starts only after every file event.
struct GroupCompletion {
    let manifest: Manifest
    let states: RowStates
    let journal: RunJournal
    let environment: EngineEnvironment
    let recipe: RunRecipe
    /// JSON to be handed on to hooks.
    let userData: String?
    let destination: Destination
    /// Whether another process has worked on the run before.
    let isTakenUp: Bool

    /// - Returns: Whether every hook did its work.
    /// - Throws: ``EngineError`` when the store cannot take it; then the hooks are called by the next pull.
    func run(_ report: PullReport) throws(EngineError) -> Bool {
        let all = RunRecipe.groupOfAll
        var ends = [CompletedGroup(name: all, result: report.result, changed: report.changed)]
        let selected = Set(Self.names(manifest.groups.map(\.name), recipe))
        for group in manifest.groups where selected.contains(group.name) {
            // Not kept: there can be thousands of groups, and as many rows in each.
            ends.append(end(of: group.name, try rows(of: group)))
        }
        return try recording { () throws(StoreError) -> Bool in
            var owed: [StoredHook] = []
            try journal.groupsCompleted(ends.map { ($0.name, $0.result) }) { lines throws(StoreError) in
                owed = try environment.store.complete(
                    ends,
                    of: report.run,
                    events: lines,
                    counts: report.counts,
                    now: environment.now()
                )
            }
            let hooks = OwedHooks(environment: environment, destination: destination)
            var allSucceeded = true
            for hook in owed where !environment.stop.isStopped {
                guard let end = ends.first(where: { $0.name == hook.group }) else { continue }
                let group = manifest.groups.first { $0.name == hook.group }
                let selection = group.flatMap { manifest.rows(of: $0) { environment.stop.isStopped } }
                if group != nil, selection == nil { break }
                let input = HookReport(
                    manifest: manifest,
                    report: report,
                    group: end.name,
                    result: end.result,
                    destination: destination.path,
                    changed: end.changed,
                    userData: userData,
                    states: states,
                    rows: selection
                )
                let earlier = try earlierRows(hook)
                allSucceeded = try hooks.run(hook, input.input(for: hook, earlier: earlier)) && allSucceeded
            }
            return allSucceeded
        }
    }

    /// The groups that complete in a run with these options, `all` first.
    static func names(_ groups: [String], _ recipe: RunRecipe) -> [String] {
        let selected = Set(recipe.groups)
        let all = RunRecipe.groupOfAll
        // A run with patterns completes no other group.
        if recipe.hasPatterns { return [all] }
        return [all] + groups.filter { $0 != all && (selected.isEmpty || selected.contains($0)) }
    }

    /// Its rows. A stop during this leaves the groups incomplete, and the run is taken over later.
    private func rows(of group: Manifest.Group) throws(EngineError) -> RowSelection {
        if let rows = manifest.rows(of: group, isStopped: { environment.stop.isStopped }) { return rows }
        throw EngineError(.interrupted, "stopped while looking for the files of the groups")
    }

    /// Files that earlier runs, or earlier work on this one, put in place and a batch hook has not accepted.
    private func earlierRows(_ hook: StoredHook) throws(StoreError) -> Set<Int> {
        guard hook.batch != nil,
            let work = try environment.store.untold(hook, includingOwn: isTakenUp)
        else { return [] }
        let files = UntoldFiles(manifest: manifest, store: environment.store, session: hook.session)
        let here = manifest.files.indices.filter { states[$0] == .unchanged }
        let known = try files.among(here, work)
        return Set(known ?? files.among(here, since: work.since, in: destination))
    }

    private func end(of name: String, _ rows: RowSelection) -> CompletedGroup {
        var (missing, changed) = (0, 0)
        rows.forEach { row in
            switch states[row] {
            case .failed, .cancelled, .pending: missing += 1
            case .installed, .reused: changed += 1
            case .unselected, .unchanged: break
            }
        }
        let result: RunResult = missing == 0 ? .ok : missing == rows.count ? .failed : .partial
        return CompletedGroup(name: name, result: result, changed: changed)
    }
}

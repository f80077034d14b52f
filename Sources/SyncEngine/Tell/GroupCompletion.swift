import SyncFiles
import SyncManifest
import SyncModel
import SyncStore

extension RunRecipe {
    /// The groups that complete in a run of this recipe, `all` first.
    ///
    /// - Parameter groups: The manifest's.
    func completing(_ groups: [String]) -> [String] {
        let (selected, all) = (Set(self.groups), RunRecipe.groupOfAll)
        // A run with patterns completes no other group.
        if hasPatterns { return [all] }
        return [all] + groups.filter { $0 != all && (selected.isEmpty || selected.contains($0)) }
    }
}

extension PullRun {
    /// Reports which groups are complete, then runs their hooks. Only after every file event.
    ///
    /// - Returns: Whether every hook did its work.
    /// - Throws: ``EngineError`` when the store cannot take it; then the hooks are called by the next pull.
    func completeGroups(_ manifest: Manifest, _ states: RowStates) throws(EngineError) -> Bool {
        var ends = [CompletedGroup(name: RunRecipe.groupOfAll, result: report.result, changed: report.changed)]
        let selected = Set(recipe.completing(manifest.groups.map(\.name)))
        for group in manifest.groups where selected.contains(group.name) {
            // Not kept: there can be thousands of groups, and as many rows in each.
            guard let rows = manifest.rows(of: group, isStopped: environment.isStopped) else {
                // The groups stay incomplete, and the run is taken over later.
                throw EngineError(.interrupted, "stopped while looking for the files of the groups")
            }
            ends.append(states.end(of: group.name, rows))
        }
        return try recording { () throws(StoreError) -> Bool in
            let owed = try journal.complete(ends, report)
            let hooks = OwedHooks(environment: environment, destination: destination)
            var allSucceeded = true
            for hook in owed where !environment.stop.isStopped {
                guard let end = ends.first(where: { $0.name == hook.group }) else { continue }
                let group = manifest.groups.first { $0.name == hook.group }
                let selection = group.flatMap { manifest.rows(of: $0, isStopped: environment.isStopped) }
                if group != nil, selection == nil { break }
                let input = HookReport(
                    manifest: manifest, report: report, group: end, destination: destination.path,
                    userData: facts.userData, states: states, rows: selection)
                let earlier = try earlierRows(hook, manifest, states)
                allSucceeded = try hooks.run(hook, input.input(for: hook, earlier: earlier)) && allSucceeded
            }
            return allSucceeded
        }
    }

    /// Files that earlier runs, or earlier work on this one, put in place and a batch hook has not accepted.
    private func earlierRows(_ hook: StoredHook, _ manifest: Manifest, _ states: RowStates) throws(StoreError) -> Set<
        Int
    > {
        guard hook.batch != nil, let work = try environment.store.untold(hook, includingOwn: isTakenUp) else {
            return []
        }
        let files = UntoldFiles(manifest: manifest, store: environment.store, session: hook.session)
        let here = manifest.files.indices.filter { states[$0] == .unchanged }
        let known = try files.among(here, work)
        return Set(known ?? files.among(here, since: work.since, in: destination))
    }
}

extension RowStates {
    /// What a group with these rows came to.
    fileprivate func end(of name: String, _ rows: RowSelection) -> CompletedGroup {
        var (missing, changed) = (0, 0)
        rows.forEach { row in
            switch self[row] {
            case .failed, .cancelled, .pending: missing += 1
            case .installed, .reused: changed += 1
            case .unselected, .unchanged: break
            }
        }
        let result: RunResult = missing == 0 ? .ok : missing == rows.count ? .failed : .partial
        return CompletedGroup(name: name, result: result, changed: changed)
    }
}

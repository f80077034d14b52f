import SyncFiles
import SyncManifest
import SyncModel
import SyncStore

/// Tells which groups are complete, then runs their hooks. Nothing here starts before every file event is out.
struct GroupCompletion {
    let manifest: Manifest
    let states: RowStates
    let journal: RunJournal
    let environment: EngineEnvironment
    let options: PullOptions
    let destination: Destination
    /// Whether another process has worked on the run before.
    let isTakenUp: Bool

    /// - Returns: Whether every hook did its work.
    /// - Throws: ``EngineError`` when the store cannot take it; then the hooks are called by the next pull.
    func run(_ report: PullReport) throws(EngineError) -> Bool {
        var results = [("all", report.result)]
        for group in manifest.groups where group.name != "all" && Self.isSelected(group.name, options) {
            results.append((group.name, result(of: manifest.rows(of: group))))
        }
        let groups = results.map { (name: $0.0, result: $0.1) }
        do throws(StoreError) {
            var owed: [StoredHook] = []
            let reports = groups.map { self.report(of: $0.name, $0.result, report) }
            let completed = reports.map {
                CompletedGroup(name: $0.group, result: $0.result.rawValue, changed: $0.changed)
            }
            try journal.groupsCompleted(groups) { lines throws(StoreError) in
                owed = try environment.store.complete(
                    completed,
                    of: report.run,
                    events: lines,
                    counts: report.counts,
                    now: environment.now()
                )
            }
            let hooks = OwedHooks(environment: environment, destination: destination)
            var allSucceeded = true
            for hook in owed where !environment.stop.isStopped {
                guard let input = reports.first(where: { $0.group == hook.group }) else { continue }
                let earlier = try earlierRows(hook)
                allSucceeded = try hooks.run(hook, input.input(for: hook, earlier: earlier)) && allSucceeded
            }
            return allSucceeded
        } catch {
            throw EngineError(error)
        }
    }

    /// The groups that complete in a run with these options, `all` first.
    static func names(_ groups: [String], _ options: PullOptions) -> [String] {
        ["all"] + groups.filter { $0 != "all" && isSelected($0, options) }
    }

    private static func isSelected(_ name: String, _ options: PullOptions) -> Bool {
        options.groups.isEmpty || options.groups.contains(name)
    }

    private func report(of group: String, _ result: PullReport.Result, _ report: PullReport) -> HookReport {
        HookReport(
            manifest: manifest,
            states: states,
            report: report,
            group: group,
            result: result,
            destination: destination.path
        )
    }

    /// Files that a hook in batches has not been told of: put in place by work that did not come to its group's end.
    private func earlierRows(_ hook: StoredHook) throws(StoreError) -> Set<Int> {
        guard hook.batch != nil, let since = try environment.store.untoldSince(hook, takenUp: isTakenUp)
        else {
            return []
        }
        return EarlierRows(manifest: manifest, states: states, destination: destination).since(since)
    }

    private func result(of rows: RowSelection) -> PullReport.Result {
        let missing = rows.rows.count { states[$0] == .failed || states[$0] == .pending }
        return missing == 0 ? .ok : missing == rows.count ? .failed : .partial
    }
}

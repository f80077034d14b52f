import SyncFiles
import SyncManifest
import SyncModel
import SyncStore

extension PullEngine {
    /// The input of a hook that is called after a crash, or once more.
    func lateInput(_ hook: StoredHook, _ run: StoredRun, in destination: Destination) -> HookInput {
        let report = LateReport(hook: hook, run: run)
        guard let size = hook.batch else { return HookInput(report.json) }
        do throws(EngineError) {
            let project = try stored(environment.store.session(run.session)?.project)
            let manifest = try manifest(of: run, project: project ?? "")
            let here = try presentRows(hook, run, manifest, in: destination)
            let files = UntoldFiles(manifest: manifest, store: environment.store, session: run.session)
            let changed = try recording { () throws(StoreError) in
                try environment.store.untold(hook, includingOwn: true).map { work throws(StoreError) in
                    try files.among(here, work)
                }
            }
            if changed == .some(nil), hook.ended == StoredHook.replayed {
                return HookInput(
                    obstacle: "the changes of run \(run.identifier) are no longer on record: "
                        + "a session keeps its latest 16 MiB of events")
            }
            // If the events of that time are gone, all files that are there, so that none is missed.
            let rows = (changed ?? nil) ?? here
            return report.input(manifest, rows, size: size)
        } catch { return HookInput(obstacle: "the files are no longer known: \(error.message)") }
    }

    /// The manifest of a run. If that is no longer kept, the one of the session's latest run, which names what is there
    /// now.
    private func manifest(of run: StoredRun, project: String) throws(EngineError) -> Manifest {
        let source = try manifestSource(caching: true)
        func recorded(_ run: StoredRun) throws(EngineError) -> Manifest {
            try source.recorded(
                run.manifest, project: project, location: run.location, WantedRelease(run.recipe),
                isPublic: run.facts.isPublic
            ).decode()
        }
        do throws(EngineError) { return try recorded(run) } catch {
            let latest = try stored(environment.store.runs(session: run.session, limit: 1).first)
            guard let latest, latest.identifier != run.identifier else { throw error }
            return try recorded(latest)
        }
    }

    /// The hook's files that are in place.
    private func presentRows(_ hook: StoredHook, _ run: StoredRun, _ manifest: Manifest, in destination: Destination)
        throws(EngineError) -> [Int]
    {
        let stop = environment.stop
        var rows = try run.recipe.selectedRows(of: manifest, stop)
        if hook.group != RunRecipe.groupOfAll {
            let ofGroup = Set(try manifest.selectedRows(of: [hook.group], stop))
            rows.removeAll { !ofGroup.contains($0) }
        }
        let scan = InventoryScan(
            manifest: manifest, rows: rows, destination: destination, index: StatIndex.read(from: destination),
            mends: false, environment: environment)
        return rows.filter(scan.run().records.has)
    }
}

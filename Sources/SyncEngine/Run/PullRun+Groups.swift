import SyncManifest
import SyncModel

// Which files and groups take part.
extension PullRun {
    /// The rows of some groups, or all; it ends early with 130 when somebody asks to stop.
    static func selectedRows(
        _ manifest: Manifest,
        _ groups: [String],
        _ stop: StopRequest
    ) throws(EngineError) -> [Int] {
        do throws(UnknownGroup) {
            let selection = try manifest.selection(groups: groups) { stop.isStopped }
            if let selection { return selection.rows }
        } catch {
            throw EngineError(.usage, "\(error)")
        }
        throw EngineError(.interrupted, "stopped while looking for the files of the groups")
    }

    /// Makes sure that there are the groups which hooks are for.
    static func requireHookGroups(_ recipe: RunRecipe, _ manifest: Manifest) throws(EngineError) {
        try requireGroups(recipe.hooks.map(\.group).filter { $0 != "all" }, in: manifest)
    }

    /// Makes sure that there are groups with these names.
    static func requireGroups(_ names: [String], in manifest: Manifest) throws(EngineError) {
        do throws(UnknownGroup) {
            _ = try manifest.groups(named: names)
        } catch {
            throw EngineError(.usage, "\(error)")
        }
    }
}

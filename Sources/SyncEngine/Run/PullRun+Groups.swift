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

    /// The rows that a run is asked for, ascending; it ends early with 130 when somebody asks to stop.
    ///
    /// - Throws: ``EngineError``: 64 when there is no such group, or patterns that nothing matches.
    static func selectedRows(
        _ manifest: Manifest,
        _ recipe: RunRecipe,
        _ stop: StopRequest
    ) throws(EngineError) -> [Int] {
        let rows = try selectedRows(manifest, recipe.groups, stop)
        guard recipe.hasPatterns else { return rows }
        let filter = PathFilter(include: recipe.include, exclude: recipe.exclude)
        let wanted = rows.filter { row in
            if row & 255 == 0, stop.isStopped { return false }
            return manifest.files.withPath(row, filter.wants)
        }
        if stop.isStopped {
            throw EngineError(.interrupted, "stopped while looking for the files that match")
        }
        guard !wanted.isEmpty || rows.isEmpty || !selectedDirectories(manifest, recipe, []).isEmpty else {
            let patterns = (recipe.include + recipe.exclude.map { "not \($0)" }).map { escaped($0) }
            throw EngineError(
                .usage,
                "no file of the manifest matches \(patterns.joined(separator: ", ")); 'syncagent ls' lists them"
            )
        }
        return wanted
    }

    /// Makes sure that there are the groups which hooks are for, and that they can be whole.
    static func requireHookGroups(_ recipe: RunRecipe, _ manifest: Manifest) throws(EngineError) {
        if recipe.hasPatterns, let group = recipe.hooks.map(\.group).first(where: { $0 != "all" }) {
            throw EngineError(
                .usage,
                "a hook waits for the group '\(escaped(group))', which is never complete with --include or --exclude"
            )
        }
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

import SyncContent
import SyncManifest
import SyncModel

/// Which files, directories and groups of a manifest are selected.
extension RunRecipe {
    /// The rows of the selected files, ascending.
    ///
    /// - Throws: ``EngineError``: 64 when there is no such group, or when patterns match nothing; 130 after a stop
    ///   request.
    func selectedRows(of manifest: Manifest, _ stop: StopRequest) throws(EngineError) -> [Int] {
        let rows = try ownRows(try manifest.selectedRows(of: groups, stop), of: manifest)
        guard hasPatterns else { return rows }
        let filter = PathFilter(include: include, exclude: exclude)
        let wanted = rows.filter { row in
            if row & 255 == 0, stop.isStopped { return false }
            return manifest.files.withPath(row, filter.wants)
        }
        if stop.isStopped { throw EngineError(.interrupted, "stopped while looking for the files that match") }
        guard !wanted.isEmpty || rows.isEmpty || piece != nil || !selectedDirectories(of: manifest, with: []).isEmpty
        else {
            func list(_ patterns: [String]) -> String { patterns.map { escaped($0) }.joined(separator: ", ") }
            let matching = include.isEmpty ? "is left" : "matches \(list(include))"
            let without = exclude.isEmpty ? "" : " without \(list(exclude))"
            throw EngineError(.usage, "no file of the manifest \(matching)\(without); 'syncagent ls' lists them")
        }
        return wanted
    }

    /// Refuses a path that names nothing: a user who asks for two files wants to know that there is only one. A
    /// schedule continues with what is left, as a later release may have dropped the path.
    ///
    /// - Throws: ``EngineError``: 64 for such a path, 130 after a stop request.
    func requirePaths(of manifest: Manifest, _ stop: StopRequest) throws(EngineError) {
        let paths = include.filter { !Glob.isPattern($0) }
        guard piece == nil, !paths.isEmpty, origin != .schedule else { return }
        let grouped = groups.isEmpty ? nil : try manifest.selectedRows(of: groups, stop)
        for path in paths {
            let rows = manifest.files.rows(below: Array((path.hasSuffix("/") ? path.dropLast() : path[...]).utf8))
            let filter = PathFilter(include: [path], exclude: [])
            guard grouped.map({ !$0.contains(where: rows.contains) }) ?? rows.isEmpty,
                manifest.directories(with: [], groups: groups, filter: filter).isEmpty
            else { continue }
            throw EngineError(
                .usage,
                "\(grouped == nil ? "the manifest names" : "the groups have") no file or directory \(escaped(path)); "
                    + "'syncagent ls' lists what there is")
        }
    }

    /// The rows of the directories that belong to these files. A piece has those above its files; empty ones belong to
    /// the whole.
    func selectedDirectories(of manifest: Manifest, with rows: [Int]) -> [Int] {
        var filter = hasPatterns ? PathFilter(include: include, exclude: exclude) : nil
        if piece != nil { filter = PathFilter(include: [], exclude: ["**"]) }
        return manifest.directories(with: rows, groups: groups, filter: filter)
    }

    /// Checks that the selected groups and those that hooks wait for exist, and that the latter can become complete:
    /// otherwise such a hook would silently never run.
    ///
    /// - Throws: ``EngineError`` with status 64.
    func requireGroups(of manifest: Manifest) throws(EngineError) {
        let awaited = hooks.map(\.group).filter { $0 != RunRecipe.groupOfAll }
        if hasPatterns, let group = awaited.first {
            throw EngineError(
                .usage,
                "a hook waits for the group '\(escaped(group))', which is never complete with --include or --exclude")
        }
        do throws(UnknownGroup) {
            _ = try manifest.groups(named: awaited)
            _ = try manifest.groups(named: groups)
        } catch { throw EngineError(.usage, "\(error)") }
    }

    /// The groups that complete in a run of this recipe, `all` first.
    ///
    /// - Parameter groups: The names of the manifest's groups.
    func completing(_ groups: [String]) -> [String] {
        let (selected, all) = (Set(self.groups), RunRecipe.groupOfAll)
        guard piece == nil else { return [all] }
        // A run with patterns completes no other group.
        if hasPatterns { return [all] }
        return [all] + groups.filter { $0 != all && (selected.isEmpty || selected.contains($0)) }
    }

    /// Marks a selection in an index that is complete for it: the first 8 bytes of the SHA-256 of the sorted names of
    /// groups, of the patterns and of the piece, with the lowest bit set; 0 for all files; `nil` if out of memory: then
    /// nothing is complete.
    var selectionMark: UInt64? {
        var texts = groups.contains(RunRecipe.groupOfAll) ? [] : Set(groups).sorted()
        if hasPatterns {
            // Names contain no blanks.
            texts += Set(include).sorted().map { " + \($0)" } + Set(exclude).sorted().map { " - \($0)" }
        }
        if let piece { texts.append(" # \(piece.text)") }
        guard !texts.isEmpty else { return 0 }
        guard let digest = try? sha256(texts.joined(separator: "\n")) else { return nil }
        return (0..<8).reduce(1) { $0 << 8 | UInt64(digest[byte: $1]) } | 1
    }
}

extension Manifest {
    /// The rows of some groups, ascending; of all files if none is named.
    ///
    /// - Throws: ``EngineError``: 64 when there is no such group, 130 after a stop request.
    func selectedRows(of groups: [String], _ stop: StopRequest) throws(EngineError) -> [Int] {
        do throws(UnknownGroup) {
            if let selection = try selection(groups: groups, isStopped: { stop.isStopped }) { return selection.rows }
        } catch { throw EngineError(.usage, "\(error)") }
        throw EngineError(.interrupted, "stopped while looking for the files of the groups")
    }
}

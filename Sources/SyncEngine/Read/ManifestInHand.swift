package import SyncManifest
package import SyncModel

/// A manifest for reading: `ls`, `diff`, `cat`. Nothing is stored.
package struct ManifestInHand: Sendable {
    package let manifest: Manifest
    /// Where it came from, for people.
    package let shown: String
    let found: FoundManifest
    let source: ManifestSource

    /// The rows of some groups, ascending; of all files if none is named.
    ///
    /// - Throws: ``EngineError``: 64 for a group that the manifest does not have.
    package func rows(of groups: [String]) throws(EngineError) -> [Int] {
        try manifest.selectedRows(of: groups, source.stop)
    }

    /// The directories that go with these rows.
    package func directories(of groups: [String], with rows: [Int]) -> [Int] {
        manifest.directories(with: rows, groups: groups, filter: nil)
    }

    /// The row at a path, which may lead through links of the manifest; `nil` if there is none.
    package func row(of path: String) -> Int? {
        var path = path
        for _ in 0..<40 {
            let row = Array(path.utf8).withUnsafeBufferPointer { manifest.files.row(of: $0) }
            guard let row, let target = manifest.files.linkTarget(row) else { return row }
            var components = path.split(separator: "/").dropLast()
            for component in target.split(separator: "/") where component != "." {
                if component != ".." {
                    components.append(component)
                } else if components.popLast() == nil {
                    return nil
                }
            }
            path = components.joined(separator: "/")
        }
        return nil
    }
}

extension PullEngine {
    /// Finds a manifest as ``plan(_:telling:)`` does, with the signatures that its project's pin asks for.
    ///
    /// - Parameter looksBack: Whether it may be a release that was the newest at some time.
    package func read(_ recipe: RunRecipe, looksBack: Bool = false) throws(EngineError) -> ManifestInHand {
        let source = try manifestSource(caching: false)
        var releases = releases(source, recipe, isReadOnly: true)
        releases.looksBack = looksBack
        let found = try releases.find(recipe.manifest)
        return ManifestInHand(
            manifest: try found.decode(),
            shown: found.shown,
            found: found,
            source: source
        )
    }
}

package import SyncManifest
package import SyncModel
import SyncTrust

/// A manifest for reading: `ls`, `diff`, `cat`. Nothing is stored.
package struct ManifestInHand: Sendable {
    package let manifest: Manifest
    /// Where it came from, for people.
    package let shown: String
    let found: FoundManifest
    let source: ManifestSource

    /// The channels that are listed beside the manifest, by name, and the revision that each points at. Nobody signs that
    /// list: a pull of a channel checks what it points at.
    package func channels() -> [(name: String, revision: UInt64)] {
        (source.channels(besides: found.location)?.channels ?? [:]).sorted { $0.key < $1.key }.map {
            ($0.key, $0.value)
        }
    }

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

    /// What a path names: a file, a directory with all below it, or everything by `.`.
    ///
    /// - Throws: ``EngineError``: 66 for a path that nothing has.
    package func rows(below path: String) throws(EngineError) -> (files: Range<Int>, directories: Range<Int>) {
        let name = Array(path.split(separator: "/").filter { $0 != "." }.joined(separator: "/").utf8)
        let (files, directories) = (manifest.files.rows(below: name), manifest.directories.rows(below: name))
        guard !(files.isEmpty && directories.isEmpty) || name.isEmpty else { throw unknown(path) }
        return (files, directories)
    }

    /// The error for a path that no file has: 66, with the one that was probably meant.
    package func unknown(_ path: String) -> EngineError {
        let hint = nearest(path).map { "; did you mean \(escaped($0))?" }
        return EngineError(.noInput, "the manifest has no file \(escaped(path))\(hint ?? "")")
    }

    /// Paths that are compared letter by letter, at most.
    private static let mostCompared = 2_000

    /// The path that was probably meant: one of the same name, or a similar one below the nearest directory there is.
    private func nearest(_ path: String) -> String? {
        let files = manifest.files
        func name(_ path: String) -> String { path.split(separator: "/").last?.lowercased() ?? path }
        let wanted = name(path)
        if let same = files.indices.first(where: { name(files.path($0)) == wanted }) { return files.path(same) }
        var directory = path.split(separator: "/").dropLast()
        while true {
            let rows = files.rows(below: Array(directory.joined(separator: "/").utf8))
            if !rows.isEmpty {
                return SyncModel.nearest(path, in: rows.prefix(Self.mostCompared).map { files.path($0) })
            }
            guard directory.popLast() != nil else { return nil }
        }
    }

    /// The row at a path, which may lead through links of the manifest; `nil` if there is none.
    package func row(of path: String) -> Int? {
        var path = path
        for _ in 0..<40 {
            let row = Array(path.utf8).withUnsafeBufferPointer { manifest.files.row(of: $0) }
            guard let row, let target = manifest.files.linkTarget(row) else { return row }
            var components = path.split(separator: "/").dropLast()
            for component in target.split(separator: "/") where component != "." {
                if component != ".." { components.append(component) } else if components.popLast() == nil { return nil }
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
        return ManifestInHand(manifest: try found.decode(), shown: found.shown, found: found, source: source)
    }
}

import SyncFiles
import SyncManifest
import SyncModel

extension EngineEnvironment {
    /// Refuses a manifest with entries that would collide in a destination that does not distinguish `README` from
    /// `Readme`: one would be lost, and each run would replace one by the other. Manifests contain no paths
    /// that are equal after Unicode normalisation alone.
    ///
    /// The destination is asked first, since searching for such entries takes longer.
    ///
    /// - Parameter folding: Directories below it that fold case, where the destination as a whole may not: ext4 has this
    ///   for each directory.
    /// - Throws: ``EngineError`` with status 73, which names some of them.
    func refuseMeetingNames(of manifest: Manifest, in destination: Destination, folding: [[UInt8]]? = nil)
        throws(EngineError)
    {
        let files = manifest.allPaths
        var collisions: [PathCollision]
        if let folding {
            guard !folding.isEmpty else { return }
            collisions = manifest.caseCollisions().filter { pair in
                [pair.first, pair.second].contains { row in
                    files.withPath(row) { path in folding.contains { isDirectory($0, above: path) } }
                }
            }
        } else {
            guard foldsCase(destination) else { return }
            collisions = manifest.caseCollisions()
        }
        guard !collisions.isEmpty else { return }
        let place = folding == nil ? escaped(destination.path) : "A directory in \(escaped(destination.path))"
        let shown = collisions.prefix(3).map {
            "\(escaped(files.path($0.first))) and \(escaped(files.path($0.second)))"
        }
        let more = collisions.count > shown.count ? ", and \(collisions.count - shown.count) more" : ""
        throw EngineError(
            .cannotCreate,
            "\(place) ignores case, and names in the manifest would collide "
                + "there: \(shown.joined(separator: "; "))\(more). Nothing was changed; choose a case-sensitive file system with "
                + "--into, or have the files renamed")
    }
}

extension Inventory {
    /// Adds directories that fold case, in ``PathOrder``, without those below a known one. More than 64 count as the
    /// whole destination.
    mutating func addFolding(_ found: [[UInt8]]) {
        for path in found where folding != [[]] {
            let isKnown = path.withUnsafeBufferPointer { path in
                folding.contains { isDirectory($0, above: path) || $0.elementsEqual(path) }
            }
            if !isKnown { folding = folding.count < 64 ? folding + [path] : [[]] }
        }
    }
}

/// - Parameter directory: Empty for the destination itself.
private func isDirectory(_ directory: [UInt8], above path: UnsafeBufferPointer<UInt8>) -> Bool {
    directory.isEmpty || path.count > directory.count && path[directory.count] == 0x2F && path.starts(with: directory)
}

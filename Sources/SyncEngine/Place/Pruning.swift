import SyncFiles
import SyncManifest
import SyncModel

/// Files that an earlier pull put there and the manifest no longer names (F112).
///
/// Only what the index says we installed, and only while it is still exactly what we installed. The index is
/// input too (V10): paths in it are reached like every other, by descriptor, never outside the destination.
struct Pruning: Sendable {
    let manifest: Manifest
    let destination: Destination
    let index: StatIndex
    /// Keeps what goes; `nil` where nobody wants that.
    var backup: BackupDirectory?

    /// Positions in the index that the manifest does not name, in ``PathOrder``; installed ones only.
    func candidates() -> [Int] {
        obsolete().filter { index.record($0)?.installed == true }
    }

    /// Positions in the index that the manifest does not name.
    func obsolete() -> [Int] {
        var found: [Int] = []
        var row = 0
        for position in 0..<index.count {
            let isNamed = index.withPath(position) { path in
                while row < manifest.files.count,
                    manifest.files.withPath(row, { PathOrder.compare($0, path) }) < 0
                {
                    row += 1
                }
                return row < manifest.files.count
                    && manifest.files.withPath(row) { PathOrder.compare($0, path) } == 0
            }
            if !isNamed { found.append(position) }
        }
        return found
    }

    /// Of `candidates`, those that stand where the manifest wants something else: a file where it needs a
    /// directory, or inside what it needs as a file. They go before anything new is placed.
    func blocking(_ candidates: [Int]) -> [Int] {
        candidates.filter { position in
            index.withPath(position) { path in
                let next = manifest.files.firstRow(notBefore: path)
                if next < manifest.files.count,
                    manifest.files.withPath(next, { PathOrder.isDirectory(path, of: $0) })
                {
                    return true
                }
                var prefix = path
                while let slash = prefix.lastIndex(of: 0x2F) {
                    prefix = UnsafeBufferPointer(rebasing: prefix[..<slash])
                    let place = manifest.files.firstRow(notBefore: prefix)
                    if place < manifest.files.count,
                        manifest.files.withPath(place, { PathOrder.compare($0, prefix) }) == 0
                    {
                        return true
                    }
                }
                return false
            }
        }
    }

    /// Removes files that are still what we installed, then directories that became empty.
    func remove(_ positions: [Int]) -> Removal.Result {
        Removal(destination: destination, index: index, backup: backup).remove(positions)
    }
}

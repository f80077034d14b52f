import SyncManifest
import SyncModel

/// Finds files that need not be read: they look as they did when they were last read, and the base has what they
/// held then, whole and in packs that can be named again.
///
/// Tree, cache and base stand in ``PathOrder``, so one pass over the three is enough.
enum Untouched {
    /// - Parameter isLoose: Whether it is enough that the base knows the file's digest.
    static func mark(
        _ tree: inout SourceTree,
        cache: String,
        _ base: BaseSet,
        _ catalogue: Catalogue,
        isLoose: Bool
    ) {
        let files = base.manifest.files
        var index = 0
        var row = 0
        var found: [(index: Int, row: Int)] = []
        _ = StampCache.forEach(in: cache) { path, stamp, digest in
            while index < tree.count, tree.withPath(index, { PathOrder.precedes($0, path) }) { index += 1 }
            while row < files.count, files.withPath(row, { PathOrder.precedes($0, path) }) { row += 1 }
            guard index < tree.count, tree.entries[index].kind != .link, tree.entries[index].stamp == stamp,
                tree.withPath(index, { PathOrder.compare($0, path) }) == 0,
                row < files.count, files.kind(row) != .link, files.digest(row) == digest,
                files.size(row) == stamp.size, files.withPath(row, { PathOrder.compare($0, path) }) == 0,
                isLoose || stamp.size == 0 || !files.blobs(row).isEmpty,
                isLoose
                    || files.blobs(row).allSatisfy({ catalogue.find(files.digest(of: $0, in: row)) != nil })
            else { return }
            found.append((index, row))
        }
        for (index, row) in found { tree.setBaseRow(Int32(truncatingIfNeeded: row), of: index) }
    }
}

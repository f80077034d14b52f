import CPosix
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
                let next = manifest.files.lowerBound(path)
                if next < manifest.files.count,
                    manifest.files.withPath(next, { PathOrder.isDirectory(path, of: $0) })
                {
                    return true
                }
                var prefix = path
                while let slash = prefix.lastIndex(of: 0x2F) {
                    prefix = UnsafeBufferPointer(rebasing: prefix[..<slash])
                    let place = manifest.files.lowerBound(prefix)
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
    ///
    /// - Returns: The positions that are gone now, by us or before us.
    func remove(_ positions: [Int]) -> (gone: [Int], removed: Int) {
        let directories = Directories(destination)
        var gone: [Int] = []
        var removed = 0
        var emptied: [[UInt8]] = []
        for position in positions {
            guard let record = index.record(position) else { continue }
            index.withPath(position) { path in
                let name = path.lastIndex(of: 0x2F).map { $0 + 1 } ?? 0
                let parent = UnsafeBufferPointer(rebasing: path[..<max(0, name - 1)])
                guard let base = path.baseAddress else { return }
                guard let directory = try? directories.descriptor(parent, create: false) else {
                    // Not there, or no longer a directory: nothing of ours to remove.
                    return gone.append(position)
                }
                let leaf = UnsafeRawPointer(base + name).assumingMemoryBound(to: CChar.self)
                switch status(directory, leaf) {
                case .success(nil): gone.append(position)
                case .success(let found?) where record.matches(found):
                    guard unlinkat(directory, leaf, 0) == 0 else { return }
                    gone.append(position)
                    removed += 1
                    if emptied.last.map({ !$0.elementsEqual(parent) }) ?? true {
                        emptied.append(Array(parent))
                    }
                case .success, .failure: return  // Changed by somebody since: theirs now.
                }
            }
        }
        directories.closeAll()
        for parent in emptied.reversed() { removeEmpty(parent) }
        return (gone, removed)
    }

    /// rmdir(2) upwards, as long as directories are empty.
    private func removeEmpty(_ path: [UInt8]) {
        var rest = path[...]
        let directories = Directories(destination, capacity: 1)
        while !rest.isEmpty {
            let name = rest.lastIndex(of: 0x2F).map { $0 + 1 } ?? 0
            let parent = Array(rest[..<max(0, name - 1)])
            let leaf = Array(rest[name...]) + [0]
            let isRemoved = parent.withUnsafeBufferPointer { parent in
                guard let above = try? directories.descriptor(parent, create: false) else { return false }
                return leaf.withUnsafeBufferPointer {
                    $0.withMemoryRebound(to: CChar.self) { leaf in
                        leaf.baseAddress.map { unlinkat(above, $0, AT_REMOVEDIR) == 0 } ?? false
                    }
                }
            }
            guard isRemoved else { return }
            rest = parent[...]
        }
    }
}

extension FileTable {
    /// The first row whose path does not come before `path`.
    func lowerBound(_ path: UnsafeBufferPointer<UInt8>) -> Int {
        var low = 0
        var high = count
        while low < high {
            let middle = (low + high) / 2
            if withPath(middle, { PathOrder.compare($0, path) }) < 0 {
                low = middle + 1
            } else {
                high = middle
            }
        }
        return low
    }
}

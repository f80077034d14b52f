import CPosix
import SyncFiles
import SyncModel
import SyncSystem

/// Removes files that we installed and nobody has changed since. Paths of the index are reached by descriptor, like all
/// others (V10).
struct Removal: Sendable {
    let destination: Destination
    let index: StatIndex
    /// Keeps what is removed; `nil` for no backup.
    var backup: BackupDirectory?

    /// The results by file.
    struct Result {
        /// Positions of files that are gone, removed by us or before.
        var gone: [Int] = []
        /// How many were removed by us, directories excluded.
        var removed = 0
        var removedDirectories = 0
        /// Files that could not be backed up and are still there.
        var failures: [(position: Int, error: FileError)] = []
    }

    /// Removes files that are unchanged since we installed them, then directories that became empty.
    func remove(_ positions: [Int]) -> Result {
        let directories = Directories(destination)
        let keeper = backup.map(BackupDirectory.Keeper.init)
        var result = Result()
        var emptied: [[UInt8]] = []
        for position in positions where !index.isDirectory(position) {
            guard let record = index.record(position) else { continue }
            index.withPath(position) { path in
                let entered: Void? = try? directories.withLeaf(of: path) { directory, leaf in
                    switch status(directory, leaf) {
                    case .success(nil): result.gone.append(position)
                    case .success(let found?) where record.matches(found):
                        do throws(FileError) {
                            try keeper?.keep(leaf, in: directory, path: path)
                        } catch {
                            return result.failures.append((position, error))
                        }
                        // Without hard links, the backup is the file itself.
                        guard unlinkat(directory, leaf, 0) == 0 || (keeper != nil && sa_errno() == ENOENT)
                        else { return }
                        result.gone.append(position)
                        result.removed += 1
                        if emptied.last.map({ !$0.elementsEqual(path.parentPath) }) ?? true {
                            emptied.append(Array(path.parentPath))
                        }
                    case .success, .failure: return  // Changed by somebody since: theirs now.
                    }
                }
                // Missing, or no longer a directory: nothing of ours to remove.
                if entered == nil { result.gone.append(position) }
            }
        }
        directories.closeAll()
        // Innermost first. A directory that is not empty, or something else by now, belongs to somebody else.
        for position in positions.reversed() where index.isDirectory(position) {
            index.withPath(position) { path in
                let code = try? directories.withLeaf(of: path) { unlinkat($0, $1, AT_REMOVEDIR) }
                result.gone.append(position)
                guard code == 0 else { return }
                result.removedDirectories += 1
                emptied.append(Array(path.parentPath))
            }
        }
        directories.closeAll()
        for parent in emptied.reversed() { removeEmpty(parent) }
        return result
    }

    /// rmdir(2) upwards while directories are empty.
    private func removeEmpty(_ path: [UInt8]) {
        var rest = path
        let directories = Directories(destination, capacity: 1)
        while !rest.isEmpty {
            // What cannot be entered is not empty.
            let code = try? directories.withLeaf(of: rest) { unlinkat($0, $1, AT_REMOVEDIR) }
            guard code == 0 else { return }
            rest.removeSubrange((rest.lastIndex(of: 0x2F) ?? 0)...)
        }
    }
}

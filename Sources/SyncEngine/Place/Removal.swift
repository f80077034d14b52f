import SyncFiles
import SyncModel
import SyncSystem

/// Removes files that we installed and whose content nobody has changed since. Paths of the index are reached by descriptor, like all
/// others.
struct Removal: Sendable {
    let destination: Destination
    let index: StatIndex
    /// Keeps what is removed; `nil` for no backup.
    var backup: BackupDirectory?

    /// The results by position.
    struct Result {
        /// What is gone, removed by us or before; directories of others, too.
        var gone: [Int] = []
        /// How many were removed by us, directories excluded.
        var removed = 0
        var removedDirectories = 0
        /// What is still there because it could not be reached, backed up or removed.
        var failures: [(position: Int, error: FileError)] = []
    }

    private enum End {
        case removed
        /// Nothing of ours is there.
        case missing
        /// Somebody has changed it, or put something into the directory: theirs now.
        case theirs
    }

    /// What is at the place of a file that we installed.
    enum Finding: Equatable {
        case ours, missing, theirs
        /// It cannot be looked at.
        case unreachable
    }

    /// Looks at the places of files that we installed, as ``remove(_:)`` will.
    func look(at positions: [Int]) -> [Finding] {
        let directories = Directories(destination)
        return positions.map { position in
            guard let record = index.record(position) else { return .missing }
            return index.withPath(position) { path in
                do throws(FileError) {
                    guard try isReachable(path, directories) else { return .missing }
                    return try directories.withLeaf(of: path) { directory, leaf in
                        switch status(directory, leaf) {
                        case .success(nil): .missing
                        case .failure: .unreachable
                        case .success(let found?): isOurs(found, record, path) ? .ours : .theirs
                        }
                    } ?? .missing
                } catch { return .unreachable }
            }
        }
    }

    /// Whether a file is still what we installed. Its status may have changed though its content has not: somebody has
    /// touched it, or the file system numbers and dates its files anew with each mount, as vfat does. Then it is read.
    private func isOurs(_ found: FileStatus, _ record: IndexRecord, _ path: UnsafeBufferPointer<UInt8>) -> Bool {
        if record.matches(found) { return true }
        guard (found.kind == .link) == (record.kind == .link), found.kind == .link || found.kind == .file,
            found.size == record.status.size, var reader = try? PlaceReader(destination, isStopped: { false })
        else { return false }
        let entry = IndexLog.Entry(path: Array(path), digest: record.digest, kind: record.kind)
        return reader.verify(entry) != nil
    }

    /// Removes files that are unchanged since we installed them, then directories that became empty.
    func remove(_ positions: [Int]) -> Result {
        let directories = Directories(destination)
        let keeper = backup.map(BackupDirectory.Keeper.init)
        var result = Result()
        var emptied: [[UInt8]] = []
        func remove(_ position: Int, _ one: (UnsafeBufferPointer<UInt8>) throws(FileError) -> End) -> End? {
            index.withPath(position) { path in
                do throws(FileError) {
                    let end = try isReachable(path, directories) ? one(path) : .missing
                    if end == .removed, emptied.last.map({ !$0.elementsEqual(path.parentPath) }) ?? true {
                        emptied.append(Array(path.parentPath))
                    }
                    return end
                } catch {
                    result.failures.append((position, error))
                    return nil
                }
            }
        }
        for position in positions where !index.isDirectory(position) {
            guard let record = index.record(position) else { continue }
            let end = remove(position) { path throws(FileError) in try removeFile(path, record, directories, keeper) }
            if end == .removed || end == .missing { result.gone.append(position) }
            if end == .removed { result.removed += 1 }
        }
        directories.closeAll()
        // Innermost first.
        for position in positions.reversed() where index.isDirectory(position) {
            let end = remove(position) { path throws(FileError) in try removeDirectory(path, directories) }
            if end != nil { result.gone.append(position) }
            if end == .removed { result.removedDirectories += 1 }
        }
        directories.closeAll()
        for parent in emptied.reversed() { removeEmpty(parent) }
        return result
    }

    /// Whether the directory of a path is there, and neither a link nor a file by now.
    private func isReachable(_ path: UnsafeBufferPointer<UInt8>, _ directories: Directories) throws(FileError) -> Bool {
        do throws(FileError) { return try directories.descriptor(path.parentPath, create: false) != nil } catch {
            if error.isMissing || error.code == .tooManySymbolicLinkLevels { return false }
            throw error
        }
    }

    private func removeFile(
        _ path: UnsafeBufferPointer<UInt8>, _ record: IndexRecord, _ directories: Directories,
        _ keeper: BackupDirectory.Keeper?
    ) throws(FileError) -> End {
        try directories.withLeaf(of: path) { directory, leaf throws(FileError) -> End in
            switch status(directory, leaf) {
            case .success(nil): return .missing
            case .failure(let code): throw error("look at", path, code)
            case .success(let found?):
                guard isOurs(found, record, path) else { return .theirs }
                try keeper?.keep(leaf, in: directory, path: path)
                guard let code = SyncSystem.removeFile(leaf, in: directory) else { return .removed }
                guard code == .noSuchFileOrDirectory else { throw error("remove", path, code) }
                // Without hard links, the backup is the file itself.
                return keeper == nil ? .missing : .removed
            }
        } ?? .missing
    }

    private func removeDirectory(_ path: UnsafeBufferPointer<UInt8>, _ directories: Directories) throws(FileError)
        -> End
    {
        try directories.withLeaf(of: path) { directory, leaf throws(FileError) -> End in
            switch SyncSystem.removeDirectory(leaf, in: directory) {
            case nil: return .removed
            case .noSuchFileOrDirectory, .notDirectory: return .missing
            case .directoryNotEmpty, .fileExists: return .theirs
            case let code?:
                // Missing permission is told before the directory's contents. rmdir(2)
                let opened = openDirectory(leaf, in: directory, .noFollow)
                if let opened, (try? directoryEntries(opened.raw))?.isEmpty == false { return .theirs }
                throw error("remove", path, code)
            }
        } ?? .missing
    }

    private func error(_ step: String, _ path: UnsafeBufferPointer<UInt8>, _ code: Errno) -> FileError {
        FileError(step: step, path: String(decoding: path, as: UTF8.self), code: code)
    }

    /// rmdir(2) upwards while directories are empty. One that stays does no harm.
    private func removeEmpty(_ path: [UInt8]) {
        var rest = path
        let directories = Directories(destination, capacity: 1)
        while !rest.isEmpty {
            let isGone = try? directories.withLeaf(of: rest) { SyncSystem.removeDirectory($1, in: $0) == nil }
            guard isGone == true else { return }
            rest.removeSubrange((rest.lastIndex(of: 0x2F) ?? 0)...)
        }
    }
}

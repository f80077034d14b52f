import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Removes files that we installed and whose content nobody has changed since. Paths of the index are reached by
/// descriptor, like all others.
struct Removal: Sendable {
    let destination: Destination
    let index: StatIndex
    /// The backup of removed files; `nil` for none.
    var backup: BackupDirectory?

    /// The results by position.
    struct Result {
        /// Positions of entries that are gone, removed by us or before; also directories that others use now.
        var gone: [Int] = []
        /// The number of files that we removed.
        var removed = 0
        var removedDirectories = 0
        /// Entries that are still there because they could not be reached, backed up or removed.
        var failures: [(position: Int, error: FileError)] = []
    }

    /// The state of a place where we installed something.
    enum Finding {
        case ours
        /// Nothing of ours is there.
        case missing
        /// Somebody has changed the entry, or put something into the directory: it is theirs now.
        case theirs
        /// The place cannot be read.
        case unreachable
    }

    /// Checks the places of files that we installed, as ``remove(_:)`` will.
    func findings(at positions: [Int]) -> [Finding] {
        let directories = Directories(destination)
        return positions.map { position in
            guard let record = index.record(position) else { return .missing }
            return index.withPath(position) { path in
                do throws(FileError) {
                    guard try isReachable(path, directories) else { return .missing }
                    return try directories.withLeaf(of: path) { directory, leaf throws(FileError) -> Finding in
                        switch Self.found(directory, leaf) {
                        case .success(nil): .missing
                        case .failure: .unreachable
                        case .success(let found?): try isOurs(found, record, path) ? .ours : .theirs
                        }
                    } ?? .missing
                } catch { return .unreachable }
            }
        }
    }

    /// Whether a file is still what we installed. Its status may change without its content: somebody has touched it,
    /// or the file system numbers and dates its files anew with each mount, as vfat does. Then the file is read.
    ///
    /// - Throws: If the file would have to be read, and cannot be: then nobody knows whose it is.
    private func isOurs(_ found: FileStatus, _ record: IndexRecord, _ path: UnsafeBufferPointer<UInt8>)
        throws(FileError) -> Bool
    {
        if record.matches(found) { return true }
        guard (found.kind == .link) == (record.kind == .link), found.kind == .link || found.kind == .file,
            found.size == record.status.size
        else { return false }
        guard var reader = try? PlaceReader(destination, isStopped: { false }) else {
            throw error("read", path, .noMemory)
        }
        let entry = IndexLog.Entry(path: Array(path), digest: record.digest, kind: record.kind)
        return try reader.read(entry) != nil
    }

    /// Links files that are unchanged since we installed them into the backup, as ``remove(_:)`` will. A sync then
    /// makes these names durable before one of the files is removed.
    func keepBackups(of positions: [Int]) {
        guard let backup else { return }
        let (directories, kept) = (Directories(destination), backup.directories())
        for position in positions where !index.isDirectory(position) {
            guard let record = index.record(position) else { continue }
            // A failure here occurs again when the file is removed, and is reported then.
            index.withPath(position) { path in
                guard (try? isReachable(path, directories)) == true else { return }
                _ = try? directories.withLeaf(of: path) { directory, leaf throws(FileError) in
                    guard case .success(let found?) = status(directory, leaf), try isOurs(found, record, path) else {
                        return
                    }
                    try backup.keep(leaf, in: directory, path: path, kept, moves: false)
                }
            }
        }
    }

    /// Removes files that are unchanged since we installed them, then directories that became empty.
    func remove(_ positions: [Int]) -> Result {
        let directories = Directories(destination)
        let kept = backup?.directories()
        var result = Result()
        var emptied: [[UInt8]] = []
        func remove(_ position: Int, _ one: (UnsafeBufferPointer<UInt8>) throws(FileError) -> Finding) -> Finding? {
            index.withPath(position) { path in
                do throws(FileError) {
                    let end = try isReachable(path, directories) ? one(path) : .missing
                    if end == .ours, emptied.last.map({ !$0.elementsEqual(path.parentPath) }) ?? true {
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
            let end = remove(position) { path throws(FileError) in try removeFile(path, record, directories, kept) }
            if end == .ours || end == .missing { result.gone.append(position) }
            if end == .ours { result.removed += 1 }
        }
        directories.closeAll()
        // Innermost first.
        for position in positions.reversed() where index.isDirectory(position) {
            let end = remove(position) { path throws(FileError) in try removeDirectory(path, directories) }
            if end != nil { result.gone.append(position) }
            if end == .ours { result.removedDirectories += 1 }
        }
        directories.closeAll()
        for parent in emptied.reversed() { Directories(destination, capacity: 1).removeEmpty(parent) }
        return result
    }

    /// The status of a place; `nil` only if a second look finds nothing, either: a missing file is forgotten for good.
    private static func found(_ directory: Int32, _ leaf: UnsafePointer<CChar>) -> Swift.Result<FileStatus?, Errno> {
        let found = status(directory, leaf)
        guard case .success(nil) = found else { return found }
        return status(directory, leaf)
    }

    /// Whether the directory of a path exists and is no link or file by now; a missing one is looked for twice.
    private func isReachable(_ path: UnsafeBufferPointer<UInt8>, _ directories: Directories) throws(FileError) -> Bool {
        func check() throws(FileError) -> Bool {
            do throws(FileError) { return try directories.descriptor(path.parentPath, create: false) != nil } catch {
                if error.isMissing || error.code == .tooManySymbolicLinkLevels { return false }
                throw error
            }
        }
        if try check() { return true }
        directories.forgetMissing()
        return try check()
    }

    /// - Returns: The state before; an entry that was `ours` is removed.
    private func removeFile(
        _ path: UnsafeBufferPointer<UInt8>, _ record: IndexRecord, _ directories: Directories, _ kept: Directories?
    ) throws(FileError) -> Finding {
        try directories.withLeaf(of: path) { directory, leaf throws(FileError) -> Finding in
            switch Self.found(directory, leaf) {
            case .success(nil): return .missing
            case .failure(let code): throw error("look at", path, code)
            case .success(let found?):
                guard try isOurs(found, record, path) else { return .theirs }
                if let kept { try backup?.keep(leaf, in: directory, path: path, kept) }
                guard let code = SyncSystem.removeFile(leaf, in: directory) else { return .ours }
                guard code == .noSuchFileOrDirectory else { throw error("remove", path, code) }
                // Without hard links, the file itself has been moved to the backup.
                return kept == nil ? .missing : .ours
            }
        } ?? .missing
    }

    private func removeDirectory(_ path: UnsafeBufferPointer<UInt8>, _ directories: Directories) throws(FileError)
        -> Finding
    {
        try directories.withLeaf(of: path) { directory, leaf throws(FileError) -> Finding in
            switch SyncSystem.removeDirectory(leaf, in: directory) {
            case nil: return .ours
            case .noSuchFileOrDirectory, .notDirectory: return .missing
            case .directoryNotEmpty, .fileExists: return .theirs
            case let code?:
                // rmdir(2) reports a missing permission before it looks at the directory's contents.
                let opened = openDirectory(leaf, in: directory, .noFollow)
                if let opened, (try? directoryEntries(opened.raw))?.isEmpty == false { return .theirs }
                throw error("remove", path, code)
            }
        } ?? .missing
    }

    private func error(_ step: String, _ path: UnsafeBufferPointer<UInt8>, _ code: Errno) -> FileError {
        FileError(step: step, path: String(decoding: path, as: UTF8.self), code: code)
    }
}

/// Files that an earlier pull installed and the manifest no longer names.
///
/// A file is removed only if the index lists it as installed by us, and if it is unchanged since. The index is input,
/// too: its paths are reached by descriptor like all others, never outside the destination.
struct Pruning: Sendable {
    let manifest: Manifest
    let destination: Destination
    let index: StatIndex
    /// The backup of removed files; `nil` for none.
    var backup: BackupDirectory?

    /// Positions in the index of files that the manifest does not name, in ``PathOrder``.
    func unnamed() -> [Int] {
        var found: [Int] = []
        var walk = IndexWalk(index: index)
        for row in manifest.files.indices {
            manifest.files.withPath(row) { path in _ = walk.find(path) { found.append($0) } }
        }
        return (found + walk.rest).filter { !index.isDirectory($0) }
    }

    /// Positions of directories named by an earlier manifest but not by this one.
    func obsoleteDirectories() -> [Int] {
        (0..<index.count).filter { position in
            index.isDirectory(position) && index.withPath(position) { manifest.directories.row(of: $0) == nil }
        }
    }

    /// Of some directories, those that a pull created and that still exist.
    func existing(_ obsolete: [Int]) -> [Int] {
        let directories = Directories(destination)
        return obsolete.filter { position in
            index.record(position)?.installed == true
                && index.withPath(position, directories.status(of:))?.kind == .directory
        }
    }

    /// Of ``obsoleteDirectories()``, those where the manifest wants a file.
    func blockingDirectories(_ obsolete: [Int]) -> [Int] {
        obsolete.filter { position in
            index.record(position)?.installed == true
                && index.withPath(position) { manifest.files.row(of: $0) != nil || isBelowFile($0) }
        }
    }

    private func isBelowFile(_ path: UnsafeBufferPointer<UInt8>) -> Bool {
        var prefix = path
        while let slash = prefix.lastIndex(of: 0x2F) {
            prefix = UnsafeBufferPointer(rebasing: prefix[..<slash])
            if manifest.files.row(of: prefix) != nil { return true }
        }
        return false
    }

    /// Of `candidates`, those where the manifest needs something else: a directory, or a file that they are inside of.
    /// They are removed before anything new is placed.
    func blocking(_ candidates: [Int]) -> [Int] {
        candidates.filter { position in
            index.withPath(position) { path in
                let next = manifest.files.firstRow(notBefore: path)
                if next < manifest.files.count, manifest.files.withPath(next, { PathOrder.isDirectory(path, of: $0) }) {
                    return true
                }
                return !manifest.directories.rows(below: Array(path)).isEmpty || isBelowFile(path)
            }
        }
    }

    /// Whether nothing is left of a directory once some of our files and directories are removed.
    ///
    /// - Parameter going: Their paths.
    func vanishes(_ directory: [UInt8], with going: Set<[UInt8]>) -> Bool {
        let directories = Directories(destination)
        var open = [directory]
        while let path = open.popLast() {
            let raw = path.withUnsafeBufferPointer { try? directories.descriptor($0, create: false) }
            guard let raw = raw ?? nil, let names = try? directoryEntries(raw) else { return false }
            if names.isEmpty, !going.contains(path) { return false }
            for name in names {
                let below = path + [0x2F] + Array(name.utf8)
                guard case .success(let found?) = status(raw, name) else { return false }
                if found.kind == .directory { open.append(below) } else if !going.contains(below) { return false }
            }
        }
        return true
    }

    /// Why a pull must not remove so many files: more than half of them without `--force`, or more than `--max-delete`;
    /// `nil` if it may.
    ///
    /// - Returns: The reason, for a plan, which changes nothing anyway, and the error that ends a pull.
    func refusal(_ recipe: RunRecipe, removing count: Int) -> (reason: String, error: EngineError)? {
        let ours = (0..<index.count).count { !index.isDirectory($0) && index.record($0)?.installed == true }
        let (why, remedy): (String, String)
        if let most = recipe.maxDelete, count > most {
            (why, remedy) = ("more than --max-delete \(most)", "allow more")
        } else if !recipe.force, count * 2 > ours {
            (why, remedy) = ("more than half", "add --force")
        } else {
            return nil
        }
        let place = escaped(destination.path)
        let reason = "--prune would remove \(count) of \(ours) installed files from \(place), \(why)"
        let question = "nothing was changed. Is it the right manifest? If so, \(remedy)"
        return (reason, EngineError(.refused, "\(reason); \(question)", cause: .pruneRefused))
    }
}

extension BackupDirectory {
    /// The backup of files that a run removes or replaces; `nil` for none.
    static func open(for recipe: RunRecipe, beside destination: Destination) throws(EngineError) -> BackupDirectory? {
        guard let path = recipe.backupDir else { return nil }
        do throws(FileError) { return try open(path: path, beside: destination) } catch { throw refusal(error) }
    }

    /// Refuses a backup directory that could not be used, even if the run has nothing to put into it: the first run
    /// reports it.
    static func check(for recipe: RunRecipe, beside destination: Destination) throws(EngineError) {
        guard let path = recipe.backupDir else { return }
        do throws(FileError) { try check(path: path, beside: destination) } catch { throw refusal(error) }
    }

    private static func refusal(_ error: FileError) -> EngineError {
        // The disk is all right: the user must name another place.
        let isPlace = [.invalidArgument, .improperLink].contains(error.code)
        return EngineError(
            isPlace ? .usage : .cannotCreate, "\(error); nothing was changed",
            cause: isPlace ? .configuration : error.cause)
    }
}

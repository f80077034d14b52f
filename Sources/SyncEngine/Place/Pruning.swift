import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Files that an earlier pull installed and the manifest no longer names.
///
/// Only what the index lists as installed by us, and only if unchanged since. The index is input, too: its paths
/// are reached by descriptor like all others, never outside the destination.
struct Pruning: Sendable {
    let manifest: Manifest
    let destination: Destination
    let index: StatIndex
    /// Keeps what is removed; `nil` for no backup.
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
            guard index.record(position)?.installed == true else { return false }
            let found = index.withPath(position) { path in
                try? directories.withLeaf(of: path) { directory, leaf -> FileStatus.Kind? in
                    (try? status(directory, leaf).get())?.kind
                }
            }
            return found == .directory
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

    /// Whether nothing is left of a directory once some of our files and directories are gone.
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
    func refusal(_ recipe: RunRecipe, removing count: Int) -> Refusal? {
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
        let error = EngineError(.refused, "\(reason); \(question)", cause: .pruneRefused)
        return Refusal(reason: reason, error: error)
    }

    struct Refusal {
        /// For `plan`, which changes nothing anyway.
        let reason: String
        /// The error that the pull ends with.
        let error: EngineError
    }
}

extension BackupDirectory {
    /// The backup of what a run removes or replaces; `nil` for none.
    static func open(for recipe: RunRecipe, beside destination: Destination) throws(EngineError) -> BackupDirectory? {
        guard let path = recipe.backupDir else { return nil }
        do throws(FileError) { return try open(path: path, beside: destination) } catch {
            let status: ExitStatus = [.invalidArgument, .improperLink].contains(error.code) ? .usage : .cannotCreate
            throw EngineError(status, "\(error); nothing was changed", cause: error.cause)
        }
    }
}

extension PullRun {
    /// Removes files and directories that an earlier pull installed, and reports it.
    ///
    /// - Parameter isLast: Whether no batch of files is synced afterwards. Then this is: what a power cut brought back, and the
    ///   index had forgotten, would stay for ever.
    /// - Returns: The positions of those that could not be removed.
    @discardableResult mutating func remove(_ positions: [Int], _ survey: inout Survey, isLast: Bool = false) -> Set<
        Int
    > {
        guard !positions.isEmpty else { return [] }
        let index = survey.index
        let removal = Removal(destination: destination, index: index, backup: survey.pruning.backup)
        let result = removal.remove(positions)
        if isLast, environment.isDurable, !result.gone.isEmpty {
            do throws(FileError) { try environment.synchronize(destination) } catch {
                // What is gone may come back: it stays in the index, and the next run looks.
                (report.status, report.reason) = (.ioError, error.reasonForFile)
                report.notRemoved += positions.count
                for position in positions { journal.notRemoved(index.text(position), reason: "\(error)") }
                return Set(positions)
            }
        }
        report.files.removed += result.removed
        report.folders.removed += result.removedDirectories
        for position in result.gone where !index.isDirectory(position) { journal.removed(index.text(position)) }
        for (position, error) in result.failures {
            journal.notRemoved(index.text(position), reason: "\(error)")
            report.status = .ioError
        }
        report.notRemoved += result.failures.count
        survey.gone.formUnion(result.gone)
        return Set(result.failures.map(\.position))
    }
}

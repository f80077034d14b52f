import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// The results of placing rows.
struct Placed: Sendable {
    var records: [(row: Int, record: IndexRecord)] = []
    var failures: [(row: Int, error: FileError)] = []

    mutating func add(_ other: Placed) {
        records += other.records
        failures += other.failures
    }
}

/// Moves verified files into place: one rename(2) per file, or one for a whole new directory.
///
/// Not `Sendable`: only the committer's thread has one.
final class Placement {
    private typealias Member = (row: Int, record: IndexRecord)

    private let manifest: Manifest
    private let staging: Staging
    private let destination: Destination
    private let directories: Directories
    private let wholes: WholeDirectories
    private let backup: (directory: BackupDirectory, kept: Directories)?
    /// What files inherit from their directories, by the directory's descriptor, or why that is unknown.
    private var inheritance: [Int32: Result<Inheritance, Errno>] = [:]
    /// Opened with the first batch: a run that changes nothing writes nothing.
    private var log: IndexLog?
    /// Members of incomplete directories, by the directory's number.
    private var gathered: [Int: [Member]] = [:]
    /// Directories that are in place, or whose files are placed one by one …
    private var closed: Set<Int> = []
    /// … and only the latter.
    private var dissolved: [Int] = []

    init(
        _ manifest: Manifest, _ destination: Destination, _ staging: Staging, _ wholes: WholeDirectories,
        _ backup: BackupDirectory? = nil
    ) {
        (self.manifest, self.destination) = (manifest, destination)
        (self.staging, self.wholes) = (staging, wholes)
        self.backup = backup.map { ($0, $0.directories()) }
        directories = Directories(destination)
        inheritance[destination.root] = Self.inheritance(of: destination.root)
        directories.opened = { [unowned self] _, directory in inheritance[directory] = Self.inheritance(of: directory) }
    }

    private static func inheritance(of directory: Int32) -> Result<Inheritance, Errno>? {
        do throws(Errno) { return try Inheritance(of: directory).map { .success($0) } } catch { return .failure(error) }
    }

    /// Links the files that a batch will replace into the backup. The next sync makes these names durable before one of
    /// the files is replaced.
    func keepBackups(of batch: [Committer.Staged]) {
        guard let backup else { return }
        // Not ``directories``: this value remembers missing ones, which are made when the batch is placed.
        let directories = Directories(destination)
        for staged in batch {
            // A failure here occurs again when the file is placed, and is reported then.
            try? manifest.files.withPath(staged.row) { path throws(FileError) in
                _ = try directories.withLeaf(of: path) { directory, leaf throws(FileError) in
                    try backup.directory.keep(leaf, in: directory, path: path, backup.kept, moves: false)
                }
            }
        }
    }

    /// Places a batch whose bytes are durable. Members of directories that wait for others follow with a later batch,
    /// or in ``finish()``.
    func place(_ batch: [Committer.Staged]) -> Placed {
        write(batch)
        var result = Placed()
        for staged in batch {
            switch staged.source {
            case .file(let file, let status):
                // The directory is about to be created, so it can no longer be moved in as a whole.
                if let number = wholes.number(of: staged.row) { result.add(dissolve(number)) }
                let traits = manifest.files.traits(staged.row)
                let given = traits == .none ? status : staging.give(traits, to: file, status)
                let known = given.map(IndexRecord.Status.init)
                let isPlaced = place(staged.row, staged.digest, known, &result) { name, directory in
                    staging.rename(file, to: name, in: directory) { inherit(staged.row, $0, $1, directory) }
                }
                if !isPlaced { staging.remove(file) }
            case .member(let number, let status):
                let traits = manifest.files.traits(staged.row)
                let status = traits == .none ? status : give(traits, toMember: staged.row, of: number, status)
                let record = IndexRecord(
                    status: status, digest: staged.digest, kind: manifest.files.kind(staged.row), installed: true)
                gather((staged.row, record), number, &result)
            }
        }
        return result
    }

    /// Places the members of incomplete directories one by one.
    func finish() -> Placed {
        var result = Placed()
        for number in gathered.keys.sorted() { result.add(dissolve(number)) }
        for number in dissolved { staging.remove(wholes[number].staged) }
        return result
    }

    /// Logs files before they are placed, so that after a kill everything in place is known to be ours.
    private func write(_ batch: [Committer.Staged]) {
        guard !batch.isEmpty else { return }
        do throws(FileError) {
            if log == nil { log = try IndexLog(destination) }
            try log?.append(
                batch.map { staged in
                    IndexLog.Entry(
                        path: manifest.files.withPath(staged.row) { Array($0) }, digest: staged.digest,
                        kind: manifest.files.kind(staged.row))
                })
        } catch {
            // Without the log, a crash costs a re-hash and the right to prune these files.
        }
    }

    /// Logs durable files once more, with their status, so that they need not be hashed again after a kill.
    func confirm(_ placed: [(row: Int, record: IndexRecord)]) {
        guard let log, let now = log.fileTime() else { return }
        let entries = placed.filter { StatIndex.trusts($0.record, at: now) }.map { row, record in
            IndexLog.Entry(
                path: manifest.files.withPath(row) { Array($0) }, digest: record.digest, kind: record.kind,
                status: record.status)
        }
        // Without these entries, a crash costs a re-hash.
        try? log.append(entries)
    }

    // MARK: Whole directories

    private func give(_ traits: FileTraits, toMember row: Int, of number: Int, _ status: FileStatus) -> FileStatus {
        let directory = wholes[number].staged
        return manifest.files.withPath(row) { path in
            guard let start = path.baseAddress else { return status }
            let name = UnsafeRawPointer(start + (path.lastIndex(of: 0x2F).map { $0 + 1 } ?? 0))
            return staging.give(traits, toMemberNamed: name.assumingMemoryBound(to: CChar.self), of: directory, status)
        }
    }

    private func gather(_ member: Member, _ number: Int, _ result: inout Placed) {
        guard !closed.contains(number) else { return place(member, from: wholes[number].staged, &result) }
        gathered[number, default: []].append(member)
        let whole = wholes[number]
        guard gathered[number]?.count == whole.count else { return }
        guard move(whole) else { return result.add(dissolve(number)) }
        closed.insert(number)
        let members = gathered.removeValue(forKey: number) ?? []
        // Files may have been deleted from staging unnoticed: the number of names is compared.
        guard nameCount(in: whole) < members.count else { return result.records += members }
        for member in members {
            if manifest.files.withPath(member.row, directories.status(of:)) != nil {
                result.records.append(member)
            } else {
                let path = manifest.files.path(member.row)
                result.failures.append((member.row, FileError(step: "place", path: path, code: .noSuchFileOrDirectory)))
            }
        }
    }

    /// The number of files in a directory that has been moved into place.
    private func nameCount(in whole: WholeDirectories.Whole) -> Int {
        manifest.files.withPath(whole.firstRow) { path in
            guard let raw = try? directories.descriptor(path.parentPath, create: false) else { return 0 }
            return (try? directoryEntries(raw))?.count ?? 0
        }
    }

    /// - Returns: Whether the directory is in place; anything already there is left as it is.
    private func move(_ whole: WholeDirectories.Whole) -> Bool {
        manifest.files.withPath(whole.firstRow) { path in
            let own = path.parentPath
            let above = own.parentPath
            guard !own.isEmpty, let parent = try? directories.descriptor(above, create: true) else { return false }
            let name = own[(above.isEmpty ? 0 : above.count + 1)...]
            return staging.place(whole.staged, as: name, in: parent) == nil
        }
    }

    /// From now on, places the files of a directory one by one.
    private func dissolve(_ number: Int) -> Placed {
        var result = Placed()
        guard closed.insert(number).inserted else { return result }
        dissolved.append(number)
        for member in gathered.removeValue(forKey: number) ?? [] { place(member, from: wholes[number].staged, &result) }
        return result
    }

    private func place(_ member: Member, from directory: Staging.Directory, _ result: inout Placed) {
        place(member.row, member.record.digest, member.record.status, &result) { name, target in
            let code = staging.rename(memberNamed: name, of: directory, into: target) { [self] in
                inherit(member.row, $0, $1, target)
            }
            if code != nil { staging.remove(memberNamed: name, of: directory) }
            return code
        }
    }

    // MARK: Files

    /// Gives a staged file the group and the ACL that it inherits from its new directory.
    private func inherit(_ row: Int, _ name: UnsafePointer<CChar>, _ staged: Int32, _ directory: Int32) {
        guard case .success(let handed)? = inheritance[directory] else { return }
        let (files, executable) = (manifest.files, manifest.files.kind(row) == .executable)
        let kept = files.traits(row).mode.map { FileMode($0) }
        handed.give(to: name, in: staged, mode: kept ?? (executable ? 0o777 : 0o666), keeping: kept)
    }

    /// - Parameters:
    ///   - known: The status of the file when it was hashed; `nil` for a link.
    ///   - rename: Moves the file to a name in a directory; returns the error.
    /// - Returns: Whether the file is in place.
    @discardableResult private func place(
        _ row: Int, _ digest: SHA256Digest, _ known: IndexRecord.Status?, _ result: inout Placed,
        rename: (_ name: UnsafePointer<CChar>, _ directory: Int32) -> Errno?
    ) -> Bool {
        let files = manifest.files
        do throws(FileError) {
            let placed = try files.withPath(row) { path throws(FileError) in
                try directories.withLeaf(of: path, create: true) { directory, leaf throws(FileError) in
                    // The file's group or ACL would be wrong, perhaps for good.
                    if case .failure(let code)? = inheritance[directory] {
                        throw FileError(step: "look at the directory of", path: files.path(row), code: code)
                    }
                    if let backup { try backup.directory.keep(leaf, in: directory, path: path, backup.kept) }
                    return try record(of: row, digest, known, leaf, directory, code: rename(leaf, directory))
                }
            }
            guard let placed else {
                throw FileError(step: "enter", path: files.path(row), code: .noSuchFileOrDirectory)
            }
            result.records.append((row, placed))
            return true
        } catch {
            result.failures.append((row, error))
            return false
        }
    }

    /// The record of a file that has been moved.
    ///
    /// - Parameter code: The error of rename(2). An error does not always mean that nothing was moved: over NFS, the
    /// answer to a request that was carried out can be lost.
    private func record(
        of row: Int, _ digest: SHA256Digest, _ known: IndexRecord.Status?, _ name: UnsafePointer<CChar>,
        _ directory: Int32, code: Errno?
    ) throws(FileError) -> IndexRecord {
        let files = manifest.files
        func failed(_ step: String, _ code: Errno?) -> FileError {
            let remark: String? =
                switch code {
                case .isDirectory, .directoryNotEmpty, .fileExists: "a directory is in the way; move it away"
                case .staleNFSFileHandle: "another process changed it in staging after it was verified"
                default: nil
                }
            return FileError(step: step, path: files.path(row), code: code, remark: remark)
        }
        let kind = files.kind(row)
        let there = status(directory, name)
        if let code {
            guard known != nil, case .success(let found?) = there, found.isSame(as: known, kind) else {
                throw failed("install", code)
            }
        }
        switch there {
        case .success(let found?):
            if found.isSame(as: known, kind) {
                return IndexRecord(status: found, digest: digest, kind: kind, installed: true)
            }
            // Another file is there: only its bytes count, and they may be right. Without memory, the check fails.
            guard var reader = try? PlaceReader(destination, isStopped: { false }),
                let record = reader.verify(row, of: manifest, installed: true)
            else {
                // No path may show unverified bytes.
                removeFile(name, in: directory)
                throw failed("install", .staleNFSFileHandle)
            }
            return record
        case .success(nil): throw failed("find again", .noSuchFileOrDirectory)
        case .failure(let code): throw failed("look at", code)
        }
    }
}

extension FileStatus {
    /// Whether this is the file that was hashed; rename(2) may have altered ``changed``.
    ///
    /// - Parameter known: The file's status then; `nil` when only the kind is known.
    fileprivate func isSame(as known: IndexRecord.Status?, _ kind: FileTable.Kind) -> Bool {
        guard (self.kind == .link) == (kind == .link), self.kind == .link || self.kind == .file else { return false }
        guard let known else { return true }
        return IndexRecord.Status(self).isOfSameFile(as: known)
    }
}

import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// New directories that are assembled in staging and moved into place by one rename(2) each, instead of one for every
/// file.
///
/// Used for directories with small files and no subdirectories; their files become visible once the last one is
/// verified and durable. If anything goes wrong, the files are placed one by one like all others.
final class WholeDirectories: Sendable {
    struct Whole: Sendable {
        /// Its first and last row; the first one also gives its path.
        var firstRow: Int
        var lastRow: Int
        /// The number of files and links that it will contain.
        var count: Int
        var staged: Staging.Directory
    }

    /// The most entries of a directory that is assembled in staging …
    static let mostEntries = 16_384
    /// … and the most **bytes**.
    static let mostBytes: UInt64 = 256 << 20

    private let wholes = Mutex<[Whole]>([])

    /// Chooses directories among the rows to be placed. Called once, before any of them is staged.
    ///
    /// - Parameters:
    ///   - wanted: Every row that is to be placed, in path order.
    ///   - open: The wanted rows that have nothing staged yet, in path order.
    func choose(_ wanted: [Int], open: [Int], of files: FileTable, in destination: Destination) {
        let directories = Directories(destination)
        var seen: Set<Staging.Directory> = []
        let found = Self.candidates(wanted, open: open, of: files).filter { whole in
            // Two paths may have the same key: a very rare accident, or a trick that gains nothing.
            seen.insert(whole.staged).inserted && Self.isMissing(whole.firstRow, files, directories)
                // A directory that is assembled in staging cannot be moved to another file system.
                && files.withPath(whole.firstRow, destination.fileSystem) == 0
        }
        wholes.withLock { $0 = found }
    }

    /// Runs of rows with one parent, all of them open and small, without a subdirectory.
    static func candidates(_ wanted: [Int], open: [Int], of files: FileTable) -> [Whole] {
        var found: [Whole] = []
        var start = 0
        var opened = 0
        while start < wanted.count {
            let end = endOfRun(from: start, wanted, files)
            defer { start = end }
            let rows = wanted[start..<end]
            while opened < open.count, open[opened] < wanted[start] { opened += 1 }
            guard rows.count > 1, rows.count <= mostEntries, opened + rows.count <= open.count,
                open[opened..<(opened + rows.count)].elementsEqual(rows), rows.allSatisfy({ isSmall($0, files) }),
                rows.reduce(UInt64(0), { $0 &+ files.size($1) }) <= mostBytes
            else { continue }
            files.withPath(wanted[start]) { path in
                guard let slash = path.lastIndex(of: 0x2F) else { return }
                let below = UnsafeBufferPointer(rebasing: path[...slash])
                // In path order, everything below a directory is contiguous.
                let neighbours = [start - 1, end].filter(wanted.indices.contains)
                if neighbours.contains(where: { files.withPath(wanted[$0]) { $0.starts(with: below) } }) { return }
                let staged = Staging.Directory(path: path.parentPath)
                found.append(
                    Whole(firstRow: wanted[start], lastRow: wanted[end - 1], count: rows.count, staged: staged))
            }
        }
        return found
    }

    private static func endOfRun(from start: Int, _ wanted: [Int], _ files: FileTable) -> Int {
        files.withPath(wanted[start]) { first in
            let slash = first.lastIndex(of: 0x2F)
            var end = start + 1
            while end < wanted.count {
                let isNext = files.withPath(wanted[end]) { path in
                    guard path.lastIndex(of: 0x2F) == slash else { return false }
                    guard let slash else { return true }
                    return path[..<slash].elementsEqual(first[..<slash])
                }
                guard isNext else { return end }
                end += 1
            }
            return end
        }
    }

    /// Whether a file is delivered in one piece, see ``SpanUnpacker/smallLimit``.
    private static func isSmall(_ row: Int, _ files: FileTable) -> Bool {
        guard files.kind(row) != .link, files.size(row) > 0 else { return true }
        let blobs = files.blobs(row)
        guard blobs.count == 1, let blob = blobs.first else { return false }
        return blob.storedLength <= SpanUnpacker.smallLimit && blob.rawLength <= SpanUnpacker.smallLimit
    }

    private static func isMissing(_ row: Int, _ files: FileTable, _ directories: Directories) -> Bool {
        files.withPath(row) { path in
            // The destination itself exists. For a link or file in the way, placing reports the error.
            do throws(FileError) { return try directories.descriptor(path.parentPath, create: false) == nil } catch {
                return false
            }
        }
    }

    /// The number of the directory in which a row is to be staged.
    func number(of row: Int) -> Int? {
        wholes.withLock { wholes in
            let number = wholes.indices.partitioningIndex { wholes[$0].lastRow >= row }
            return number < wholes.count && wholes[number].firstRow <= row ? number : nil
        }
    }

    /// A number that ``number(of:)`` gave.
    subscript(_ number: Int) -> Whole { wholes.withLock { $0[number] } }

    /// Stages a row in its directory.
    ///
    /// - Parameter make: Makes the entry of this name.
    /// - Returns: The committer's entry for the row; `nil` when the row is to be staged by itself.
    func stage(
        _ row: Int, of files: FileTable, _ digest: SHA256Digest,
        _ make: (_ leaf: UnsafePointer<CChar>, _ directory: Staging.Directory) throws(FileError) -> FileStatus
    ) throws(FileError) -> Committer.Staged? {
        guard let number = number(of: row) else { return nil }
        let directory = self[number].staged
        let made = try files.withPath(row) { path throws(FileError) -> FileStatus? in
            guard let slash = path.lastIndex(of: 0x2F), let start = path.baseAddress else { return nil }
            // The arena keeps a NUL behind each path, so the tail is a C string.
            return try make(UnsafeRawPointer(start + slash + 1).assumingMemoryBound(to: CChar.self), directory)
        }
        return made.map { Committer.Staged(row: row, memberOf: number, $0, digest: digest) }
    }
}

// Entries that need no data, links and empty files, and files that are made from bytes in memory.
extension RunContext {
    /// Stages every link and empty file among `rows` until a stop request; the rest is then no failure.
    ///
    /// - Returns: The rows that could not be made.
    func stageSmallEntries(_ rows: [Int]) -> [RowFailure] {
        var failures: [RowFailure] = []
        for row in rows where manifest.files.kind(row) == .link || manifest.files.size(row) == 0 {
            if isStopped { break }
            do throws(FileError) { committer.add(try stageSmallEntry(row)) } catch {
                failures.append(RowFailure(row: row, disk: error))
            }
        }
        return failures
    }

    private func stageSmallEntry(_ row: Int) throws(FileError) -> Committer.Staged {
        let lane = manifest.files.withPath(row) { staging.lane(laneOfSmallEntries, for: $0) }
        var file = Staging.File(
            lane: lane, digest: manifest.files.digest(row), serial: UInt32(truncatingIfNeeded: row))
        guard manifest.files.kind(row) == .link, let target = manifest.files.linkTarget(row) else {
            return try stage(UnsafeRawBufferPointer(start: nil, count: 0), row, as: file)
        }
        do { file.digest = try sha256(target) } catch {
            throw FileError(step: "hash", path: target, remark: "\(error)")
        }
        if let member = try wholes.stage(
            row, of: manifest.files, file.digest,
            { (leaf, directory) throws(FileError) in try staging.link(to: target, as: leaf, in: directory) })
        {
            return member
        }
        try staging.link(to: target, as: file)
        return Committer.Staged(row: row, file: file, nil)
    }

    /// Stages a file with these bytes: in its directory if that is assembled in staging, or else as `file`.
    func stage(_ bytes: UnsafeRawBufferPointer, _ row: Int, as file: @autoclosure () -> Staging.File) throws(FileError)
        -> Committer.Staged
    {
        let executable = manifest.files.kind(row) == .executable
        let digest = manifest.files.digest(row)
        let member = try wholes.stage(row, of: manifest.files, digest) { leaf, directory throws(FileError) in
            try staging.write(bytes, as: leaf, in: directory, executable: executable)
        }
        if let member { return member }
        let file = file()
        return Committer.Staged(row: row, file: file, try staging.write(bytes, to: file, executable: executable))
    }
}

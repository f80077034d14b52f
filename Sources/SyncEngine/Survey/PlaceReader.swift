import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Reads and checks the entry at a row's place. One per thread.
struct PlaceReader: ~Copyable {
    private let directories: Directories
    private var hasher: SHA256Hasher
    private let buffer: UnsafeMutableRawBufferPointer
    private let isStopped: @Sendable () -> Bool
    private let hashed: @Sendable (UInt64) -> Void

    /// - Parameters:
    ///   - isStopped: Polled often: a file can take minutes. A file not read to its end does not count as right.
    ///   - hashed: Called as often, with the **bytes** read since the last call.
    init(
        _ destination: Destination, isStopped: @escaping @Sendable () -> Bool,
        hashed: @escaping @Sendable (UInt64) -> Void = { _ in }
    ) throws(DigestError) {
        let hasher = try SHA256Hasher()
        self.hashed = hashed
        directories = Directories(destination)
        self.hasher = hasher
        self.isStopped = isStopped
        buffer = .allocate(byteCount: 1 << 18, alignment: 64)
    }

    deinit { buffer.deallocate() }

    /// The treatment of a mode or time that differs from the manifest's, if the content is right.
    enum TraitPolicy {
        /// The difference is corrected.
        case mended
        /// The file counts as wrong: another tree shares it, so it must not be changed.
        case counts
        /// The difference is ignored.
        case ignored

        /// - Parameter mends: Whether the destination may be changed, not only read.
        init(in destination: Destination, mends: Bool) {
            self = destination.sharesFiles ? .counts : mends ? .mended : .ignored
        }
    }

    /// The record of a file or link that is right; `nil` when the content differs or cannot be read.
    ///
    /// - Parameters:
    ///   - known: A record for the content, which is not read while the record matches.
    ///   - traitPolicy: The treatment of a mode or time that differs from the manifest's.
    mutating func verify(
        _ row: Int, of manifest: Manifest, installed: Bool, known: IndexRecord? = nil,
        traitPolicy: TraitPolicy = .mended
    ) -> IndexRecord? {
        let files = manifest.files
        return files.withPath(row) { path in
            let found = try? directories.withLeaf(of: path) { directory, leaf -> FileStatus? in
                guard let found = content(of: row, files, directory, leaf, known: known).found else { return nil }
                switch traitPolicy {
                case .mended: return Self.mended(found, row, files, directory, leaf)
                case .counts: return Self.isAsListed(found, row, files) ? found : nil
                case .ignored: return found
                }
            }
            // A file that cannot be read is wanted.
            guard let found, let status = found, let digest = files.contentDigest(row) else { return nil }
            var kind = files.kind(row)
            // A record has the kind of the file that is there, not the listed one.
            if traitPolicy == .ignored, !Self.hasListedBit(status, row, files) {
                kind = kind == .file ? .executable : .file
            }
            return IndexRecord(status: status, digest: digest, kind: kind, installed: installed)
        }
    }

    /// The record of a file that an interrupted run logged, if it is still there; `nil` otherwise. Its content is not
    /// read while the logged status matches.
    ///
    /// - Throws: ``FileError`` where it cannot be reached, or read.
    mutating func read(_ entry: IndexLog.Entry) throws(FileError) -> IndexRecord? {
        guard !entry.path.isEmpty, !entry.path.contains(0) else { return nil }
        return try directories.withLeaf(of: entry.path) { directory, leaf throws(FileError) in
            try read(entry, directory, leaf)
        } ?? nil
    }

    private mutating func read(_ entry: IndexLog.Entry, _ directory: Int32, _ leaf: UnsafePointer<CChar>)
        throws(FileError) -> IndexRecord?
    {
        func unread(_ code: Errno?) -> FileError {
            FileError(step: "read", path: String(decoding: entry.path, as: UTF8.self), code: code)
        }
        func there() throws(FileError) -> FileStatus? {
            switch status(directory, leaf) {
            case .success(let found): return found
            case .failure(let code): throw unread(code)
            }
        }
        if let known = entry.status, let found = try there() {
            let record = IndexRecord(known, digest: entry.digest, kind: entry.kind, installed: true)
            if record.matches(found) { return record }
        }
        if entry.kind == .link {
            guard let found = try there(), found.kind == .link else { return nil }
            guard let target = target(directory, leaf) else {
                let code = Errno.last
                // The link is gone, or something else is in its place.
                if code == .noSuchFileOrDirectory || code == .invalidArgument { return nil }
                throw unread(code)
            }
            guard let digest = try? sha256(target) else { throw unread(.noMemory) }
            guard digest == entry.digest else { return nil }
            return IndexRecord(status: found, digest: entry.digest, kind: .link, installed: true)
        }
        if entry.kind == .directory {
            guard let found = try there(), found.kind == .directory else { return nil }
            return IndexRecord(directory: found, keeping: .none, installed: true)
        }
        guard let file = openToRead(directory, leaf) else {
            let code = Errno.last
            // Since then it was removed, replaced, or made unreadable.
            guard let found = try there(), found.kind == .file, found.permissions & 0o400 != 0 else { return nil }
            // Or it has another owner.
            let isRefused = code == .permissionDenied || code == .notPermitted
            if isRefused, found.user != CurrentProcess.user { return nil }
            throw unread(code)
        }
        guard let before = status(file.raw) else { throw unread(.last) }
        guard before.kind == .file else { return nil }
        guard let digest = digest(of: file.raw, size: before.size) else {
            guard status(file.raw) == before, !isStopped() else { return nil }
            throw unread(.ioError)
        }
        guard digest == entry.digest else { return nil }
        guard let after = status(file.raw) else { throw unread(.last) }
        guard after == before else { return nil }
        // The content makes it ours. Where modes cannot be set, its bit may not be the one that it was given.
        let kind: FileTable.Kind = before.isExecutable ? .executable : .file
        return IndexRecord(status: before, digest: entry.digest, kind: kind, installed: true)
    }

    /// The record of whatever file or link is at a path; `nil` for none, or if it cannot be read to its end.
    mutating func record(of path: UnsafeBufferPointer<UInt8>) -> IndexRecord? {
        let found = try? directories.withLeaf(of: path) { directory, leaf -> IndexRecord? in
            guard case .success(let there?) = status(directory, leaf) else { return nil }
            if there.kind == .link {
                guard let target = target(directory, leaf), let digest = try? sha256(target) else { return nil }
                return IndexRecord(status: there, digest: digest, kind: .link, installed: true)
            }
            guard there.kind == .file, let file = openToRead(directory, leaf), status(file.raw) == there,
                let digest = digest(of: file.raw, size: there.size), status(file.raw) == there
            else { return nil }
            let kind: FileTable.Kind = there.isExecutable ? .executable : .file
            return IndexRecord(status: there, digest: digest, kind: kind, installed: true)
        }
        return (found ?? nil) ?? nil
    }

    /// The problem at a row's place, for people; `nil` for none. Changes nothing.
    ///
    /// - Parameters:
    ///   - index: Excuses a mode that is not the manifest's on a file that is still as a pull has left it: the file
    ///     system keeps no other mode, or no other tree shares the file yet.
    ///   - mayShare: Whether trees may share the file, and nobody may write to it then: that cannot be told of another
    ///     user's.
    mutating func inspect(_ row: Int, of manifest: Manifest, _ index: StatIndex, mayShare: Bool = false)
        -> VerifyReport.Problem?
    {
        let files = manifest.files
        func problem(_ reason: String) -> VerifyReport.Problem { .init(path: files.path(row), reason: reason) }
        do throws(FileError) {
            return try files.withPath(row) { path throws(FileError) in
                try directories.withLeaf(of: path) { directory, leaf -> VerifyReport.Problem? in
                    let (right, wrong) = content(of: row, files, directory, leaf)
                    guard var found = right else { return problem(wrong) }
                    if mayShare { found.permissions &= ~0o222 }
                    guard var finding = VerifyReport.Problem(files, row, found) else { return nil }
                    if let known = index.position(of: path).flatMap(index.record), known.matches(found),
                        known.kind == files.kind(row), known.digest == files.contentDigest(row)
                    {
                        finding.acceptMode(isShared: files.isShared)
                    }
                    return finding
                } ?? problem("missing")
            }
        } catch { return problem(error.remark ?? "cannot be reached") }
    }

    /// The status of a row's place if the content is right; otherwise the problem, for people.
    ///
    /// - Parameter known: A record for the content, which is not read while the record matches.
    private mutating func content(
        of row: Int, _ files: FileTable, _ directory: Int32, _ leaf: UnsafePointer<CChar>, known: IndexRecord? = nil
    ) -> (found: FileStatus?, wrong: String) {
        let found: FileStatus
        switch status(directory, leaf) {
        case .success(nil): return (nil, "missing")
        case .failure(let code): return (nil, "cannot be read: \(code)")
        case .success(let status?): found = status
        }
        if files.kind(row) == .link {
            guard found.kind == .link else { return (nil, "is not a link") }
            let target = target(directory, leaf)
            return target == files.linkTarget(row) ?? "" ? (found, "") : (nil, "links to \(escaped(target ?? "?"))")
        }
        guard found.kind == .file else { return (nil, "is not a file") }
        guard found.size == files.size(row) else {
            return (nil, "has \(Figures.count(found.size, "byte")), not \(Figures.grouped(files.size(row)))")
        }
        if known?.matches(found) == true { return (found, "") }
        guard let file = openToRead(directory, leaf), let opened = status(file.raw) else {
            return (nil, "cannot be read: \(errnoText)")
        }
        guard opened.kind == .file, let digest = digest(of: file.raw, size: found.size) else {
            return (nil, "cannot be read to its end")
        }
        guard digest == files.digest(row) else { return (nil, "differs") }
        return status(file.raw) == opened && opened.size == found.size ? (opened, "") : (nil, "is being written to")
    }

    /// The status of a row's place with corrected mode and time; `nil` if they cannot be corrected: then the row is
    /// fetched.
    private static func mended(
        _ found: FileStatus, _ row: Int, _ files: FileTable, _ directory: Int32, _ leaf: UnsafePointer<CChar>
    ) -> FileStatus? {
        let (traits, executable) = (files.traits(row), files.kind(row) == .executable)
        let isLink = files.kind(row) == .link
        if isAsListed(found, row, files) { return found }
        if isLink {
            guard traits.giveTime(to: leaf, in: directory) == nil, case .success(let mended) = status(directory, leaf)
            else { return nil }
            return mended
        }
        guard let file = openToRead(directory, leaf), status(file.raw) == found else { return nil }
        if !traits.hold(of: found) { return try? traits.give(to: file.raw, found, shown: "") }
        return setExecutable(file.raw, executable) == nil ? status(file.raw) : nil
    }

    /// Whether a file has the mode and time that the manifest keeps of it.
    private static func isAsListed(_ found: FileStatus, _ row: Int, _ files: FileTable) -> Bool {
        files.traits(row).hold(of: found) && hasListedBit(found, row, files)
    }

    /// Whether a file is executable if the manifest says so; true for a link, and if the manifest keeps the whole mode.
    private static func hasListedBit(_ found: FileStatus, _ row: Int, _ files: FileTable) -> Bool {
        files.kind(row) == .link || files.traits(row).mode != nil
            || found.isExecutable == (files.kind(row) == .executable)
    }

    private func target(_ directory: Int32, _ leaf: UnsafePointer<CChar>) -> String? {
        readLink(directory, leaf).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The SHA-256 of an open file of this many **bytes**; `nil` when it cannot be read or has another length.
    private mutating func digest(of file: Int32, size: UInt64) -> SHA256Digest? {
        sha256(of: file, 0..<size, with: &hasher, through: buffer, isStopped: isStopped) { [hashed] piece, _ in
            hashed(UInt64(piece.count))
            return true
        }
    }
}

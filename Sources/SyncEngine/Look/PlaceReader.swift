import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Reads what is at a row's place and checks it. One per thread.
struct PlaceReader: ~Copyable {
    private let directories: Directories
    private var hasher: SHA256Hasher
    private let buffer: UnsafeMutableRawBufferPointer
    private let isStopped: @Sendable () -> Bool
    private let hashed: @Sendable (UInt64) -> Void

    /// - Parameters:
    ///   - isStopped: Polled often: a file can take minutes. A file not read to its end does not count as right.
    ///   - hashed: Called as often with the **bytes** read since.
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

    /// The record of a file or link that is right, with its mode and time mended where only these were wrong;
    /// `nil` when the content differs or cannot be read.
    ///
    /// - Parameters:
    ///   - known: A record that speaks for the content, which is not read again while it does.
    ///   - mends: Without it mode and time stay as they are, and do not count.
    mutating func verify(
        _ row: Int, of manifest: Manifest, installed: Bool, known: IndexRecord? = nil, mends: Bool = true
    ) -> IndexRecord? {
        let files = manifest.files
        return files.withPath(row) { path in
            let found = try? directories.withLeaf(of: path) { directory, leaf -> FileStatus? in
                files.kind(row) == .link
                    ? verifyLink(directory, leaf, row, files, mends: mends)
                    : verifyFile(directory, leaf, row, files, known: known, mends: mends)
            }
            // What cannot be read is wanted.
            guard let found, let status = found, let digest = files.contentDigest(row) else { return nil }
            let kind = files.indexKind(row)
            return IndexRecord(status: status, digest: digest, kind: kind, installed: installed)
        }
    }

    /// The record of what an interrupted run logged, if that is still there; else `nil`. What was logged with its status is not
    /// read as long as it has that.
    mutating func verify(_ entry: IndexLog.Entry) -> IndexRecord? {
        guard !entry.path.isEmpty, !entry.path.contains(0) else { return nil }
        // What cannot be reached is not ours.
        return (try? directories.withLeaf(of: entry.path) { verify(entry, $0, $1) }) ?? nil
    }

    private mutating func verify(_ entry: IndexLog.Entry, _ directory: Int32, _ leaf: UnsafePointer<CChar>)
        -> IndexRecord?
    {
        if let known = entry.status, case .success(let found?) = status(directory, leaf) {
            let record = IndexRecord(known, digest: entry.digest, kind: entry.kind, installed: true)
            if record.matches(found) { return record }
        }
        if entry.kind == .link {
            guard case .success(let found?) = status(directory, leaf), found.kind == .link,
                let target = target(directory, leaf), (try? sha256(target)) == entry.digest
            else { return nil }
            return IndexRecord(status: found, digest: entry.digest, kind: .link, installed: true)
        }
        if entry.kind == .directory {
            guard case .success(let found?) = status(directory, leaf), found.kind == .directory else { return nil }
            return IndexRecord(directory: found, keeping: .none, installed: true)
        }
        guard let file = openToRead(directory, leaf), let before = status(file.raw), before.kind == .file,
            digest(of: file.raw, size: before.size) == entry.digest, status(file.raw) == before
        else { return nil }
        // Its content makes it ours. Where modes cannot be set, it has another bit than it was given.
        let kind: IndexRecord.Kind = before.isExecutable ? .executable : .file
        return IndexRecord(status: before, digest: entry.digest, kind: kind, installed: true)
    }

    /// What is wrong with a row's place, for people; `nil` if nothing. Changes nothing.
    ///
    /// - Parameter index: A mode that is not the manifest's is no fault of a file that is still as a pull has left it: the
    ///   file system keeps no other.
    mutating func inspect(_ row: Int, of manifest: Manifest, _ index: StatIndex) -> Finding? {
        let files = manifest.files
        do throws(FileError) {
            return try files.withPath(row) { path throws(FileError) in
                try directories.withLeaf(of: path) { directory, leaf -> Finding? in
                    if let reason = inspect(row, files, directory, leaf) { return Finding(reason: reason) }
                    guard case .success(let found?) = status(directory, leaf) else { return Finding(reason: "missing") }
                    guard var finding = Finding(files, row, found) else { return nil }
                    if let known = index.position(of: path).flatMap(index.record), known.matches(found),
                        known.kind == files.indexKind(row), known.digest == files.contentDigest(row)
                    {
                        finding.acceptMode()
                    }
                    return finding
                } ?? Finding(reason: "missing")
            }
        } catch { return Finding(reason: error.remark ?? "cannot be reached") }
    }

    /// The result of checking one place.
    struct Finding: Sendable {
        var reason: String
        /// Whether only the time differs, which happens easily, or a mode where none can be set.
        var isNote = false
        private var isOfMode = false

        init(reason: String) { self.reason = reason }

        /// A mode or time that differs from the manifest's; `nil` if both are right.
        init?(_ traits: FileTraits, _ found: FileStatus) {
            guard !traits.hold(of: found) else { return nil }
            if let mode = traits.mode, !FileTraits(mode: mode).hold(of: found) {
                reason = "has mode \(String(found.permissions, radix: 8)), not \(FileTraits.text(mode: mode))"
                isOfMode = true
            } else {
                let (has, wants) = (FileTraits.text(time: found.modified), traits.modified ?? 0)
                reason = "was modified \(has), not \(FileTraits.text(time: wants))"
                isNote = true
            }
        }

        /// The same of a file, with its executable bit where the manifest keeps no mode.
        init?(_ files: FileTable, _ row: Int, _ found: FileStatus) {
            let executable = files.kind(row) == .executable
            if files.kind(row) != .link, files.traits(row).mode == nil, found.isExecutable != executable {
                self.init(reason: executable ? "is not executable" : "is executable, but should not be")
                isOfMode = true
            } else {
                self.init(files.traits(row), found)
            }
        }

        /// Makes a note of a wrong mode that a pull could not set.
        mutating func acceptMode() {
            guard isOfMode else { return }
            (isNote, reason) = (true, reason + "; this file system keeps no other mode")
        }
    }

    private mutating func inspect(_ row: Int, _ files: FileTable, _ directory: Int32, _ leaf: UnsafePointer<CChar>)
        -> String?
    {
        let found: FileStatus
        switch status(directory, leaf) {
        case .success(nil): return "missing"
        case .failure(let code): return "cannot be read: \(code)"
        case .success(let status?): found = status
        }
        if files.kind(row) == .link {
            guard found.kind == .link else { return "is not a link" }
            let target = target(directory, leaf)
            return target == files.linkTarget(row) ? nil : "links to \(escaped(target ?? "?"))"
        }
        guard found.kind == .file else { return "is not a file" }
        guard found.size == files.size(row) else { return "has \(found.size) bytes, not \(files.size(row))" }
        guard let file = openToRead(directory, leaf) else { return "cannot be read: \(errnoText)" }
        guard let digest = digest(of: file.raw, size: found.size) else { return "cannot be read to its end" }
        return digest == files.digest(row) ? nil : "differs"
    }

    private mutating func verifyFile(
        _ directory: Int32, _ leaf: UnsafePointer<CChar>, _ row: Int, _ files: FileTable, known: IndexRecord?,
        mends: Bool
    ) -> FileStatus? {
        guard let file = openToRead(directory, leaf), var before = status(file.raw), before.kind == .file,
            before.size == files.size(row),
            known?.matches(before) == true || digest(of: file.raw, size: before.size) == files.digest(row)
        else { return nil }
        let executable = files.kind(row) == .executable
        let traits = files.traits(row)
        if mends, !traits.hold(of: before) {
            // What cannot be corrected is fetched.
            guard status(file.raw) == before, let mended = try? traits.give(to: file.raw, before, shown: "") else {
                return nil
            }
            before = mended
        } else if mends, traits.mode == nil, before.isExecutable != executable {
            guard status(file.raw) == before, setExecutable(file.raw, executable) == nil, let mended = status(file.raw)
            else { return nil }
            before = mended
        } else if status(file.raw) != before {
            return nil  // Somebody writes to it right now.
        }
        return before
    }

    private mutating func verifyLink(
        _ directory: Int32, _ leaf: UnsafePointer<CChar>, _ row: Int, _ files: FileTable, mends: Bool
    ) -> FileStatus? {
        guard case .success(var found?) = status(directory, leaf), found.kind == .link,
            target(directory, leaf) == files.linkTarget(row) ?? ""
        else { return nil }
        if mends, !files.traits(row).hold(of: found) {
            guard files.traits(row).giveTime(to: leaf, in: directory) == nil,
                case .success(let mended?) = status(directory, leaf)
            else { return nil }
            found = mended
        }
        return found
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

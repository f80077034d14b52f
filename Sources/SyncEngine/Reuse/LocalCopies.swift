import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Brings wanted content from what this machine has: files under another path, older revisions' files that are
/// still here, and whole files an interrupted run left in staging. Nothing is trusted: every byte is hashed.
struct LocalCopies: Sendable {
    let context: RunContext

    private struct Candidate: Sendable {
        var row: Int
        var source: Source
        enum Source: Sendable {
            case indexed(Int)
            case staged(Staging.File)
        }
    }

    /// - Returns: The rows that are staged now, and the **bytes** that need not be fetched.
    func run(wanted: [Int]) -> (rows: Set<Int>, bytes: UInt64) {
        let candidates = candidates(for: wanted)
        guard !candidates.isEmpty else { return ([], 0) }
        let manifest = context.manifest
        let done = concurrently(
            over: candidates.count, threads: context.environment.workers, name: "reuse",
            isStopped: { context.isStopped }, by: { try LocalCopier(context, lane: $0) }
        ) { copier, place -> Int? in
            let row = candidates[place].row
            let staged =
                switch candidates[place].source {
                case .indexed(let entry): copier.copy(entry, to: row)
                case .staged(let file): copier.check(file, of: row)
                }
            guard let staged else { return nil }
            context.committer.add(Committer.Staged(row: row, file: staged.file, staged.status))
            return row
        }
        let rows = Set(done.compactMap(\.result))
        let bytes = rows.reduce(UInt64(0)) { $0 &+ manifest.files.size($1) }
        return (rows, bytes)
    }

    private func candidates(for wanted: [Int]) -> [Candidate] {
        let (manifest, index) = (context.manifest, context.index)
        let leftovers = context.staging.leftovers()
        guard index.count > 0 || !leftovers.isEmpty else { return [] }
        var rowsByDigest: [SHA256Digest: [Int]] = [:]
        for row in wanted where manifest.files.kind(row) != .link && manifest.files.size(row) > 0 {
            rowsByDigest[manifest.files.digest(row), default: []].append(row)
        }
        var candidates: [Candidate] = []
        for (file, size) in leftovers where !file.name.isPart {
            let rows = rowsByDigest[file.name.digest] ?? []
            let place = rows.lastIndex { row in manifest.files.withPath(row) { context.staging.fits(file, $0) } }
            if let place, manifest.files.size(rows[place]) == size {
                candidates.append(Candidate(row: rows[place], source: .staged(file)))
                rowsByDigest[file.name.digest]?.remove(at: place)
            } else {
                context.staging.remove(file)
            }
        }
        let sources = index.sources(
            of: rowsByDigest.values.flatMap(\.self), wanted: wanted, in: manifest, below: context.destination,
            isStopped: context.environment.isStopped)
        for (digest, entry) in sources {
            for row in rowsByDigest[digest] ?? [] { candidates.append(Candidate(row: row, source: .indexed(entry))) }
        }
        return candidates.sorted { $0.row < $1.row }
    }
}

extension StatIndex {
    /// Local files with the content of some rows: for each digest the position of one that is still what was verified. A file
    /// whose status has changed since is hashed, unless it is at a wanted place, where its content is known to be wrong.
    ///
    /// - Parameters:
    ///   - rows: Files that are not empty.
    ///   - wanted: Rows that are missing or differ, ascending.
    func sources(
        of rows: [Int], wanted: [Int], in manifest: Manifest, below destination: Destination,
        isStopped: @escaping @Sendable () -> Bool
    ) -> [SHA256Digest: Int] {
        var open = Set(rows.map { manifest.files.digest($0) })
        var found: [SHA256Digest: Int] = [:]
        guard !open.isEmpty else { return found }
        let directories = Directories(destination)
        for position in 0..<count where !isStopped() {
            guard let record = record(position), record.kind == .file || record.kind == .executable,
                open.contains(record.digest)
            else { continue }
            let isRight = withPath(position) { path -> Bool in
                // What cannot be reached is of no use.
                let there = try? directories.withLeaf(of: path) { (try? status($0, $1).get()) ?? nil }
                guard let there = (there ?? nil) ?? nil, there.kind == .file, there.size == record.status.size else {
                    return false
                }
                if record.matches(there), trusts(record) { return true }
                if let row = manifest.files.row(of: path), manifest.files.digest(row) == record.digest {
                    let place = wanted.indices.partitioningIndex { wanted[$0] >= row }
                    if place < wanted.count, wanted[place] == row { return false }
                }
                guard var reader = try? PlaceReader(destination, isStopped: isStopped) else { return false }
                let entry = IndexLog.Entry(path: Array(path), digest: record.digest, kind: record.kind)
                return reader.verify(entry) != nil
            }
            if isRight { found[open.remove(record.digest) ?? record.digest] = position }
            if open.isEmpty { break }
        }
        return found
    }
}

/// Copies one file after another into staging, hashing what it writes. One thread each.
private final class LocalCopier {
    private let directories: Directories
    private let context: RunContext
    private var staging: Staging { context.staging }
    private var files: FileTable { context.manifest.files }
    private let lane: Int
    private var hasher: SHA256Hasher
    private let buffer: UnsafeMutableRawBufferPointer

    init(_ context: RunContext, lane: Int) throws(DigestError) {
        hasher = try SHA256Hasher()
        directories = Directories(context.destination)
        (self.context, self.lane) = (context, lane)
        buffer = .allocate(byteCount: 1 << 18, alignment: 64)
    }

    deinit { buffer.deallocate() }

    /// Copies an indexed file when it is still the one that was verified.
    func copy(_ entry: Int, to row: Int) -> (file: Staging.File, status: FileStatus)? {
        let (size, digest) = (files.size(row), files.digest(row))
        guard let reading = context.index.withPath(entry, directories.openFile) else { return nil }
        defer { withExtendedLifetime(reading) {} }
        guard let status = status(reading.raw), status.kind == .file, status.size == size else { return nil }
        let file = context.newFile(row, lane: lane, digest: digest)
        guard let writing = staging.create(file, executable: files.kind(row) == .executable) else { return nil }
        let isCloned = cloneFile(reading.raw, to: writing.raw) == nil
        // A clone has the bytes that are read here when its source has not changed since.
        guard transfer(from: reading.raw, to: isCloned ? nil : writing.raw, size: size) == digest,
            !isCloned || SyncSystem.status(reading.raw) == status, let found = SyncSystem.status(writing.raw),
            found.size == size
        else {
            // It may be right: the next run looks.
            if !context.isStopped { staging.remove(file) }
            return nil
        }
        return (file, found)
    }

    /// Takes a staged left-over when its bytes are right.
    func check(_ file: Staging.File, of row: Int) -> (file: Staging.File, status: FileStatus)? {
        let size = files.size(row)
        guard let reading = staging.open(file), transfer(from: reading.raw, to: nil, size: size) == files.digest(row),
            staging.renew(reading.raw, executable: files.kind(row) == .executable) == nil,
            let found = status(reading.raw), found.size == size
        else {
            // The next run looks again.
            if !context.isStopped { staging.remove(file) }
            return nil
        }
        return (file, found)
    }

    /// Hashes `size` **bytes** of `source`, and writes them to `target` where there is one.
    private func transfer(from source: Int32, to target: Int32?, size: UInt64) -> SHA256Digest? {
        sha256(of: source, 0..<size, with: &hasher, through: buffer, isStopped: { context.isStopped }) {
            piece, offset in target.map { writeAll(piece, to: $0, at: offset) == nil } ?? true
        }
    }
}

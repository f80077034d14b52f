import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

// Wanted content that this machine has: files under another path, older revisions' files that are still here, and whole
// files that an interrupted run left in staging. Nothing is trusted: every byte is hashed.
extension RunContext {
    /// Copies it to staging.
    ///
    /// - Returns: The rows that are staged now, and the **bytes** that need not be fetched.
    func copyLocally(_ wanted: [Int]) -> (rows: Set<Int>, bytes: UInt64) {
        let candidates = localFiles(for: wanted)
        guard !candidates.isEmpty else { return ([], 0) }
        let done = concurrently(
            over: candidates.count, threads: environment.workers, name: "reuse",
            isStopped: { isStopped },
            by: { lane in (try ChunkReader(index, destination, staging, bufferSize: 256 << 10), lane) }
        ) { worker, place -> Int? in
            let (row, source) = candidates[place]
            let staged =
                switch source {
                case .indexed(let entry): copy(entry, to: row, with: worker.0, lane: worker.1)
                case .staged(let file): check(file, of: row, with: worker.0)
                case .named: nil as Committer.Staged?
                }
            guard let staged else { return nil }
            if case .staged = source, fetched.contains(manifest.files.digest(row)) {
                // This run fetched the file to learn its size or digest.
            } else {
                reused.withLock { _ = $0.insert(row) }
            }
            committer.add(staged)
            return row
        }
        let rows = Set(done.compactMap(\.result))
        let here = reused.withLock { rows.intersection($0) }
        let bytes = here.reduce(UInt64(0)) { $0 &+ manifest.files.size($1) }
        return (rows, bytes)
    }

    /// Files in the index or in staging that may have the content of a row.
    private func localFiles(for wanted: [Int]) -> [(row: Int, source: ChunkSources.LocalFile)] {
        let leftovers = staging.leftovers()
        guard index.count > 0 || !leftovers.isEmpty else { return [] }
        var rowsByDigest: [SHA256Digest: [Int]] = [:]
        for row in wanted where manifest.files.kind(row) != .link && manifest.files.size(row) > 0 {
            rowsByDigest[manifest.files.digest(row), default: []].append(row)
        }
        var candidates: [(row: Int, source: ChunkSources.LocalFile)] = []
        for (file, size) in leftovers where !file.isPart {
            let rows = rowsByDigest[file.digest] ?? []
            let place = rows.lastIndex { row in manifest.files.withPath(row) { staging.fits(file, $0) } }
            if let place, manifest.files.size(rows[place]) == size {
                candidates.append((rows[place], .staged(file)))
                rowsByDigest[file.digest]?.remove(at: place)
            } else {
                staging.remove(file)
            }
        }
        let sources = index.sources(
            of: rowsByDigest.values.flatMap(\.self), wanted: wanted, in: manifest, below: destination,
            isStopped: environment.isStopped)
        for (digest, entry) in sources {
            for row in rowsByDigest[digest] ?? [] { candidates.append((row, .indexed(entry))) }
        }
        return candidates.sorted { $0.row < $1.row }
    }

    /// Copies an indexed file to staging if it still has the verified content, hashing what is written.
    private func copy(_ entry: Int, to row: Int, with reader: ChunkReader, lane: Int) -> Committer.Staged? {
        let files = manifest.files
        let (size, digest) = (files.size(row), files.digest(row))
        guard let reading = reader.open(.indexed(entry)) else { return nil }
        defer { withExtendedLifetime(reading) {} }
        guard let status = status(reading.raw), status.kind == .file, status.size == size else { return nil }
        let file = newFile(row, lane: lane, digest: digest)
        guard let writing = staging.create(file, executable: files.kind(row) == .executable) else { return nil }
        let isCloned = cloneFile(reading.raw, to: writing.raw) == nil
        // A clone has the bytes that are read here when its source has not changed since.
        guard hash(reading.raw, size: size, with: reader, to: isCloned ? nil : writing.raw) == digest,
            !isCloned || SyncSystem.status(reading.raw) == status, let found = SyncSystem.status(writing.raw),
            found.size == size
        else {
            // After a stop the file may be right: the next run checks it.
            if !isStopped { staging.remove(file) }
            return nil
        }
        return Committer.Staged(row: row, file: file, found)
    }

    /// Takes a staged leftover if its bytes are right.
    private func check(_ file: Staging.File, of row: Int, with reader: ChunkReader) -> Committer.Staged? {
        let (files, size) = (manifest.files, manifest.files.size(row))
        guard let reading = staging.open(file), hash(reading.raw, size: size, with: reader) == files.digest(row),
            staging.renew(reading.raw, executable: files.kind(row) == .executable) == nil,
            let found = status(reading.raw), found.size == size
        else {
            // After a stop the next run checks it again.
            if !isStopped { staging.remove(file) }
            return nil
        }
        return Committer.Staged(row: row, file: file, found)
    }

    /// Hashes `size` **bytes** of `source`, and writes them to `target` where there is one.
    private func hash(_ source: Int32, size: UInt64, with reader: ChunkReader, to target: Int32? = nil) -> SHA256Digest?
    {
        sha256(of: source, 0..<size, with: &reader.hasher, through: reader.buffer, isStopped: { isStopped }) {
            piece, offset in target.map { writeAll(piece, to: $0, at: offset) == nil } ?? true
        }
    }
}

extension StatIndex {
    /// Local files with the content of some rows: for each digest the position of one that still has the verified
    /// content. A file whose status has changed since is hashed, unless it is at a wanted place, where its content is
    /// known to be wrong.
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
                // A file that cannot be reached is of no use.
                guard let there = directories.status(of: path), there.kind == .file,
                    there.size == record.status.size
                else { return false }
                if record.matches(there), trusts(record) { return true }
                if let row = manifest.files.row(of: path), manifest.files.digest(row) == record.digest,
                    wanted.hasRow(row)
                {
                    return false
                }
                guard var reader = try? PlaceReader(destination, isStopped: isStopped) else { return false }
                let entry = IndexLog.Entry(path: Array(path), digest: record.digest, kind: record.kind)
                // Nor is one that cannot be read.
                return ((try? reader.read(entry)) ?? nil) != nil
            }
            if isRight { found[open.remove(record.digest) ?? record.digest] = position }
            if open.isEmpty { break }
        }
        return found
    }
}

/// What local files have of wanted ones: chunks, and bases of deltas. A pull and its plan share this search; nothing is
/// created.
struct LocalBytes: Sendable {
    let sources: ChunkSources
    /// `nil` without a destination.
    let bases: DeltaBases?
    private let manifest: Manifest
    private let wanted: [Int]
    private let isHere: @Sendable (_ row: Int, _ blob: Int) -> Bool

    /// - Parameters:
    ///   - wanted: Rows of which no local file has the whole content.
    ///   - isHere: Blobs that an earlier run has put in place.
    ///   - destination: `nil` if there is none yet.
    ///   - leftovers: Parts of files that are no longer wanted.
    init(
        _ manifest: Manifest, wanted: [Int],
        isHere: @escaping @Sendable (_ row: Int, _ blob: Int) -> Bool = { _, _ in false }, index: StatIndex,
        destination: Destination?, staging: Staging? = nil, leftovers: [Staging.File] = [],
        _ environment: EngineEnvironment, isStopped: @escaping @Sendable () -> Bool
    ) {
        (self.manifest, self.wanted, self.isHere) = (manifest, wanted, isHere)
        guard let destination else {
            (sources, bases) = (ChunkSources(manifest: manifest), nil)
            return
        }
        let sources = ChunkSources.find(
            manifest, wanted: wanted, isHere: isHere, index: index, destination: destination, staging: staging,
            parts: leftovers, isStopped: isStopped)
        self.sources = sources
        bases = DeltaBases(
            manifest, wanted: wanted, isWanted: { !isHere($0, $1) && !sources.has(row: $0, blob: $1) }, index: index,
            destination: destination, threads: environment.workers, isStopped: isStopped)
    }

    /// **Bytes** of a wanted file found in local chunks.
    func bytes(of row: Int) -> UInt64 {
        manifest.files.blobs(row).enumerated().reduce(UInt64(0)) { sum, next in
            sources.has(row: row, blob: next.offset) ? sum &+ next.element.rawLength : sum
        }
    }

    /// The plan for bytes that are neither in place nor in local files.
    ///
    /// - Parameter isResumed: Whether an interrupted run left something. Then gaps are what it has fetched, and hardly
    ///   any of them is fetched again, so that a run that is killed every minute still comes to an end.
    func plan(connections: Int, isResumed: Bool = false, gaps: (_ row: Int) -> [Range<UInt64>]? = { _ in nil }) -> Plan
    {
        let skipping = { isHere($0, $1) || sources.has(row: $0, blob: $1) }
        var rule = FetchRounds.rule(for: manifest, wanted: wanted, connections: connections, skipping: skipping)
        if isResumed { (rule.maximumGap, rule.freeGap, rule.wastePercent) = (32 << 10, 0, 1) }
        return makePlan(
            manifest, wanted: wanted, rule: rule, gaps: gaps, skipping: skipping,
            delta: { bases?.delta(row: $0, blob: $1) })
    }
}

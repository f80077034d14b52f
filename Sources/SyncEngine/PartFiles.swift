import CPosix
import SyncDigest
import SyncFiles
import SyncManifest
import SyncModel
import Synchronization

/// The large files that are being put together, by row.
final class PartFiles: Sendable {
    /// What completing a blob led to.
    enum Outcome: Sendable {
        case incomplete
        case verified
        case failed(FileError)
        /// Bytes were wrong; the blobs at fault are open again.
        case wrong(String)
    }

    private let open = Mutex<[Int: PartFile]>([:])
    private let manifest: Manifest
    private let staging: Staging
    /// The lane for parts, so that an interrupted run's parts are found where the next run looks.
    private let lane: Int

    init(manifest: Manifest, staging: Staging, lane: Int) {
        self.manifest = manifest
        self.staging = staging
        self.lane = lane
    }

    /// The part for a row; made, empty, when it is the first time.
    ///
    /// - Parameter whole: Whether the file comes as one piece, whatever blobs the manifest has for it.
    func part(for row: Int, whole: Bool) throws(FileError) -> PartFile {
        try open.withLock { (open) throws(FileError) in
            if let known = open[row], !whole || known.blobCount == 1 { return known }
            let part = try make(row, whole: whole, keeping: false)
            open[row] = part
            return part
        }
    }

    /// Takes over what an interrupted run left of a row: blobs whose bytes are right need not be fetched.
    ///
    /// - Returns: What completing the last blob led to when all are here; `.incomplete` otherwise; `nil` when
    ///   there is no left-over.
    func adopt(row: Int, hasher: inout SHA256Hasher) -> (part: PartFile, outcome: Outcome)? {
        let file = name(row)
        let raw = staging.open(file)
        guard raw >= 0 else { return nil }
        CPosix.close(raw)
        guard let part = try? make(row, whole: false, keeping: true) else { return nil }  // Unusable: fetched anew.
        let blobs = manifest.files.blobs(row)
        var missing = 0
        for (position, blob) in blobs.enumerated() {
            let digest = manifest.files.digest(of: blob, in: row)
            if part.check(blob: position, digest: digest, hasher: &hasher) {
                part.adopt(blob: position)
            } else {
                missing += 1
            }
        }
        open.withLock { $0[row] = part }
        guard missing == 0 else { return (part, .incomplete) }
        return (part, complete(part, row: row, blob: blobs.count - 1, hasher: &hasher))
    }

    /// Takes over the first bytes of a file that comes as one piece.
    ///
    /// - Returns: How many **bytes** are kept; the digest of the whole decides later whether they were right.
    func adoptPrefix(row: Int) -> UInt64 {
        let file = name(row)
        let raw = staging.open(file)
        guard raw >= 0 else { return 0 }
        CPosix.close(raw)
        guard let part = try? make(row, whole: true, keeping: true) else { return 0 }  // Fetched anew.
        let kept = part.adoptPrefix()
        if kept > 0 { open.withLock { $0[row] = part } }
        return kept
    }

    /// Says that a blob is written. Looks for the blobs at fault when the whole is wrong.
    func complete(_ part: PartFile, row: Int, blob: Int, hasher: inout SHA256Hasher) -> Outcome {
        switch part.complete(blob: blob) {
        case .incomplete: return .incomplete
        case .failed(let error): return .failed(error)
        case .verified:
            open.withLock { $0[row] = nil }
            return .verified
        case .mismatch:
            let blobs = manifest.files.blobs(row)
            guard part.blobCount == blobs.count, blobs.count > 1 else {
                part.reopen(bad: [0])
                return .wrong("the bytes do not have the file's SHA-256")
            }
            var bad: [Int] = []
            for (position, blob) in blobs.enumerated() {
                let digest = manifest.files.digest(of: blob, in: row)
                if !part.check(blob: position, digest: digest, hasher: &hasher) { bad.append(position) }
            }
            part.reopen(bad: bad.isEmpty ? Array(blobs.indices.map { $0 - blobs.startIndex }) : bad)
            return .wrong(
                bad.isEmpty
                    ? "every blob has its digest, but the file does not: the manifest contradicts itself"
                    : "\(bad.count) of \(blobs.count) blobs do not have their digest"
            )
        }
    }

    /// Whether a blob of a row is here already.
    func isHere(row: Int, blob: Int) -> Bool {
        open.withLock { $0[row] }?.isDone(blob: blob) ?? false
    }

    private func name(_ row: Int) -> Staging.File {
        Staging.File(lane: lane, name: StagedName(digest: manifest.files.digest(row), isPart: true))
    }

    private func make(_ row: Int, whole: Bool, keeping: Bool) throws(FileError) -> PartFile {
        var file = name(row)
        // Two rows with one content each get a part of their own.
        file.name.serial = keeping || !isTaken(file) ? 0 : UInt32(truncatingIfNeeded: row)
        let raw =
            keeping
            ? staging.open(file)
            : staging.create(file, executable: manifest.files.kind(row) == .executable)
        guard raw >= 0 else { throw .last("create", staging.shown(file)) }
        let descriptor = Descriptor(owning: raw)
        var ends: [UInt64] = []
        var end: UInt64 = 0
        for blob in manifest.files.blobs(row) where !whole {
            end = end &+ blob.rawLength
            ends.append(end)
        }
        if ends.isEmpty { ends = [manifest.files.size(row)] }
        do {
            return try PartFile(
                descriptor: descriptor,
                staged: file,
                digest: manifest.files.digest(row),
                ends: ends
            )
        } catch {
            throw FileError(step: "hash", path: staging.shown(file), code: 0, remark: "\(error)")
        }
    }

    private func isTaken(_ file: Staging.File) -> Bool {
        takenNames.withLock { !$0.insert(file.name.digest).inserted }
    }

    private let takenNames = Mutex<Set<SHA256Digest>>([])
}

import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

// The large files being assembled. After a stop they stay for the next run.
extension RunContext {
    /// The part for a row; created, empty, the first time.
    ///
    /// - Parameter whole: Whether the file comes as one piece, whatever blobs the manifest has for it.
    func part(for row: Int, whole: Bool) throws(FileError) -> PartFile {
        try parts.withLock { parts in
            Result { () throws(FileError) in
                if let known = parts[row] {
                    if !whole || known.blobCount == 1 { return known }
                    staging.remove(known.staged)
                }
                let part = try make(row, whole: whole)
                parts[row] = part
                return part
            }
        }.get()
    }

    /// Takes over the part of a row from an interrupted run: blobs with the right bytes need not be fetched.
    ///
    /// - Returns: The outcome of completing the last blob if all are here; `.incomplete` otherwise; `nil` when
    ///   the left-over cannot be used.
    func adopt(_ file: Staging.File, row: Int, hasher: inout SHA256Hasher) -> (
        part: PartFile, outcome: PartFile.Progress
    )? {
        guard let part = reopen(file, row: row, whole: false) else { return nil }
        let blobs = manifest.files.blobs(row)
        var missing = 0
        for position in 0..<part.blobCount {
            if isStopped { return nil }
            let digest =
                blobs.isEmpty
                ? manifest.files.digest(row) : manifest.files.digest(of: blobs[blobs.startIndex + position], in: row)
            if part.check(blob: position, digest: digest, hasher: &hasher) {
                part.adopt(blob: position)
            } else {
                missing += 1
            }
        }
        guard missing < part.blobCount else { return nil }
        parts.withLock { $0[row] = part }
        guard missing == 0 else { return (part, .incomplete) }
        return (part, complete(part, row: row, blob: part.blobCount - 1, hasher: &hasher))
    }

    /// Takes over what an earlier run wrote of a file that is fetched by its own URLs.
    ///
    /// - Returns: The number of **bytes** kept; the digest of the whole decides later whether they were right. Also 0
    ///   if no byte is missing: ``adopt(_:row:hasher:)`` checks such a file.
    func adoptRanges(_ file: Staging.File, row: Int) -> UInt64 {
        guard let part = reopen(file, row: row, whole: true) else { return 0 }
        let kept = part.adoptRanges()
        guard kept > 0, kept < part.size else { return 0 }
        parts.withLock { $0[row] = part }
        return kept
    }

    /// Records that a blob is written. If the whole file is wrong, looks for the blobs at fault.
    func complete(_ part: PartFile, row: Int, blob: Int, hasher: inout SHA256Hasher) -> PartFile.Progress {
        outcome(of: part.complete(blob: blob, isStopped: environment.isStopped), part, row, &hasher)
    }

    /// Writes bytes of a file that is fetched by its own URLs.
    func put(
        _ bytes: UnsafeRawBufferPointer, at offset: UInt64, in part: PartFile, row: Int, hasher: inout SHA256Hasher
    ) -> PartFile.Progress {
        outcome(of: part.put(bytes, at: offset, isStopped: environment.isStopped), part, row, &hasher)
    }

    private func outcome(of progress: PartFile.Progress, _ part: PartFile, _ row: Int, _ hasher: inout SHA256Hasher)
        -> PartFile.Progress
    {
        switch progress {
        case .incomplete, .failed: return progress
        case .verified:
            parts.withLock { $0[row] = nil }
            return .verified
        case .wrong(let reason, _, _):
            // Bytes hashed earlier may since have been replaced by a second attempt.
            let found = part.wholeDigest(hasher: &hasher)
            if found == manifest.files.digest(row), part.endsWhereItMust {
                parts.withLock { $0[row] = nil }
                return .verified
            }
            let blobs = manifest.files.blobs(row)
            guard part.blobCount == blobs.count, blobs.count > 1 else {
                part.reopen(bad: [0])
                return .wrong(reason, blobs: [0], found: found)
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
                    : "\(bad.count) of \(blobs.count) blobs do not match their digests", blobs: bad, found: found)
        }
    }

    /// The missing **bytes** of a loose file that is partly here; `nil` for any other.
    func gaps(row: Int) -> [Range<UInt64>]? {
        guard manifest.files.blobs(row).isEmpty, let part = parts.withLock({ $0[row] }) else { return nil }
        let gaps = part.gaps
        return gaps == [0..<part.size] || gaps.isEmpty ? nil : gaps
    }

    /// Whether a blob of a row is here already.
    func isHere(row: Int, blob: Int) -> Bool { parts.withLock { $0[row] }?.isDone(blob: blob) ?? false }

    /// Returns the progress of each unfinished file, in **bytes**, in manifest order.
    var progressOfParts: @Sendable () -> [LiveRun.PartProgress] {
        { [parts, manifest] in
            parts.withLock { $0 }.sorted { $0.key < $1.key }.map { row, part in
                (manifest.files.path(row), part.doneBytes, part.size)
            }
        }
    }

    private func make(_ row: Int, whole: Bool) throws(FileError) -> PartFile {
        let place = manifest.files.withPath(row) { staging.lane(laneOfParts, for: $0) }
        let file = staging.newFile(lane: place, digest: manifest.files.digest(row), isPart: true)
        guard let descriptor = staging.create(file, executable: manifest.files.kind(row) == .executable) else {
            throw .last("create", staging.shown(file))
        }
        // Extend it to its full length at once, as a hole; if that fails, zeros are written like other bytes.
        let isSparse =
            !whole && manifest.files.blobs(row).count > 1 && setLength(descriptor.raw, manifest.files.size(row)) == nil
        return try part(descriptor, file, row, whole: whole, isSparse: isSparse)
    }

    /// Reopens a leftover with the mode its row has now; `nil` on failure, so that it is fetched anew.
    private func reopen(_ file: Staging.File, row: Int, whole: Bool) -> PartFile? {
        guard let descriptor = staging.open(file) else { return nil }
        guard staging.renew(descriptor.raw, executable: manifest.files.kind(row) == .executable) == nil else {
            return nil
        }
        return try? part(descriptor, file, row, whole: whole)  // No memory to hash with: fetched anew.
    }

    private func part(
        _ descriptor: consuming Descriptor, _ file: Staging.File, _ row: Int, whole: Bool, isSparse: Bool = false
    ) throws(FileError) -> PartFile {
        var ends: [UInt64] = []
        var end: UInt64 = 0
        for blob in manifest.files.blobs(row) where !whole {
            end = end &+ blob.rawLength
            ends.append(end)
        }
        if ends.isEmpty { ends = [manifest.files.size(row)] }
        do {
            return try PartFile(
                descriptor: descriptor, staged: file, digest: manifest.files.digest(row), ends: ends, isSparse: isSparse
            )
        } catch { throw FileError(step: "hash", path: staging.shown(file), remark: "\(error)") }
    }
}

import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Makes deltas for one thread. It reads content of the base's files from those packs that are in the output directory,
/// and from what was fetched of the others. Takes about **4 MiB**.
final class DeltaEncoder: @unchecked Sendable {  // Safe: one thread of `make` has it, and is joined.
    /// A delta that is in no pack yet, and its bytes.
    typealias Made = (bytes: [UInt8], delta: Delta)

    private let base: Manifest
    private let output: OutputDirectory
    private let ranges: PackRanges?
    private let dictionary: DecodingDictionary?
    private var decoder: BlobDecoder
    private var compressor: ZstdCompressor
    private var hasher: SHA256Hasher
    /// Opened packs, by index; `nil` for a pack that is not in the output directory.
    private(set) var packs: [UInt32: SharedDescriptor?] = [:]
    /// The last row read, and where each of its blobs ends in the file.
    private var ends: (row: Int, offsets: [UInt64]) = (-1, [])

    /// The lowest zstd level for deltas: they are few, and every update fetches them. For a recompiled library of 333
    /// MiB they took 38.2 MiB with level 3, 36.0 with 6 and 35.4 with 9, in 1.0, 4.2 and 6.2 s.
    private static let leastLevel: Int32 = 6
    /// Longer blobs are not read, to bound memory.
    private static let longestBlob: UInt64 = 16 << 20
    /// Most packs open at once, of all readers together.
    private static let mostPacks = 256
    let mostPacks: Int

    /// - Parameters:
    ///   - ranges: Fetched ranges of packs that are not on this machine; `nil` where there are none.
    ///   - readers: The number of encoders that share the limit of open packs. A pack that could not be opened would
    ///     count as missing, and the output would depend on the number of jobs.
    init(
        _ base: Manifest, dictionary: DecodingDictionary?, _ output: OutputDirectory, ranges: PackRanges? = nil,
        level: Int32 = leastLevel, readers: Int
    ) throws(PublishError) {
        mostPacks = max(1, Self.mostPacks / max(1, readers))
        decoder = try calling { try BlobDecoder() }
        hasher = try calling { try SHA256Hasher() }
        compressor = try calling { try ZstdCompressor(level: max(level, Self.leastLevel)) }
        (self.base, self.dictionary, self.output, self.ranges) = (base, dictionary, output, ranges)
    }

    /// Makes the delta of a task, whose blob is stored already; `nil` if it cannot be made.
    func encode(
        _ task: DeltaPlan.Task, in file: borrowing Descriptor, _ place: Catalogue.Entry, _ regions: FormerRegions
    ) throws(PublishError) -> Made? {
        var raw = [UInt8](repeating: 0, count: Int(place.rawLength))
        let count = raw.withUnsafeMutableBytes { readFully(file.raw, into: $0, at: task.target.lowerBound) }
        // If the file has changed since the blob was stored, there is no delta.
        guard count == raw.count, try digest(raw) == place.digest else { return nil }
        let base = regions.base(for: task, raw)
        guard let former = read(row: task.former.row, base) else { return nil }
        let stored = UInt64(place.storedLength)
        let most = Int(stored + Delta.slack(stored))
        let made = try calling { try compressor.encode(raw, behind: former, most: most) }
        guard let made else { return nil }
        guard let blob = UInt32(exactly: task.blob) else { throw .tooManyBlobs }
        return (
            made,
            Delta(
                blob: blob, pack: .max, offset: 0, storedLength: UInt64(made.count),
                baseFile: self.base.files.digest(task.former.row), base: base, baseDigest: try digest(former))
        )
    }

    private func digest(_ bytes: [UInt8]) throws(PublishError) -> SHA256Digest {
        try calling { try bytes.withUnsafeBytes { try hasher.digest(of: $0) } }
    }

    // MARK: Reading

    /// A part of a file's content, with the SHA-256 of each blob checked; `nil` if its packs are missing or damaged.
    func read(row: Int, _ range: Range<UInt64>) -> [UInt8]? {
        var result: [UInt8] = []
        result.reserveCapacity(Int(range.upperBound - range.lowerBound))
        let blobs = base.files.blobs(row)
        var index = firstBlob(row, endingAfter: range.lowerBound)
        while index < blobs.count, result.count < range.count {
            let blob = blobs[blobs.startIndex + index]
            guard blob.rawLength <= Self.longestBlob, blob.storedLength <= Self.longestBlob,
                let raw = raw(blob, base.files.digest(of: blob, in: row))
            else { return nil }
            let place = (ends.offsets[index] - blob.rawLength)..<ends.offsets[index]
            let part = place.clamped(to: range)
            result += raw[Int(part.lowerBound - place.lowerBound)..<Int(part.upperBound - place.lowerBound)]
            index += 1
        }
        return UInt64(result.count) == range.upperBound - range.lowerBound ? result : nil
    }

    private func firstBlob(_ row: Int, endingAfter offset: UInt64) -> Int {
        if ends.row != row {
            var end: UInt64 = 0
            ends = (
                row,
                base.files.blobs(row).map {
                    end &+= $0.rawLength
                    return end
                }
            )
        }
        return ends.offsets.indices.partitioningIndex { ends.offsets[$0] > offset }
    }

    private func raw(_ blob: Blob, _ digest: SHA256Digest) -> [UInt8]? {
        guard let stored = stored(blob) else { return nil }
        var raw = stored
        do {
            if blob.codec.isCompressed {
                guard !blob.codec.needsDictionary || dictionary != nil else { return nil }
                raw = [UInt8](repeating: 0, count: Int(blob.rawLength))
                try stored.withUnsafeBytes { stored in
                    try raw.withUnsafeMutableBytes { raw in
                        try decoder.decode(stored, as: blob.codec, with: dictionary, into: raw)
                    }
                }
            }
            return try raw.withUnsafeBytes { try hasher.digest(of: $0).agrees(with: digest) } ? raw : nil
        } catch { return nil }
    }

    private func stored(_ blob: Blob) -> [UInt8]? {
        let digest = base.packs[Int(blob.pack)].sha256
        if packs[blob.pack] == nil {
            if packs.count >= mostPacks { packs = [:] }
            // A pack that cannot be read gives no base; the blob itself is stored in any case.
            packs[blob.pack] = .some(SharedDescriptor(try? output.open(.packs, digest.packName)))
        }
        guard case .some(.some(let pack)) = packs[blob.pack] else { return ranges?.held(digest, blob.range) }
        var bytes = [UInt8](repeating: 0, count: Int(blob.storedLength))
        let count = bytes.withUnsafeMutableBytes { readFully(pack.raw, into: $0, at: blob.offset) }
        return count == bytes.count ? bytes : nil
    }
}

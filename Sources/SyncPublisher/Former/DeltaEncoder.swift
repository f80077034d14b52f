import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// What one thread needs for making deltas: contexts, memory, and the base's packs. About **4 MiB**.
final class DeltaEncoder: @unchecked Sendable {  // Safe: one thread of `make` has it, and is joined.
    struct Made: Sendable {
        var bytes: [UInt8]
        var base: Range<UInt64>
        var baseDigest: SHA256Digest
    }

    /// The lowest zstd level for deltas: they are few, and every update fetches them. For a recompiled library of 333
    /// MiB they took 38.2 MiB with level 3, 36.0 with 6 and 35.4 with 9, in 1.0, 4.2 and 6.2 s.
    private static let leastLevel: Int32 = 6

    let reader: BaseReader
    private var compressor: ZstdCompressor
    private var hasher: SHA256Hasher

    init(_ reader: BaseReader, level: Int32) throws(PublishError) {
        self.reader = reader
        compressor = try calling { try ZstdCompressor(level: max(level, Self.leastLevel)) }
        hasher = try calling { try SHA256Hasher() }
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
        guard let former = reader.read(row: task.former.row, base) else { return nil }
        let stored = UInt64(place.storedLength)
        let most = Int(stored + Delta.slack(stored))
        let made = try calling { try compressor.encode(raw, behind: former, most: most) }
        guard let made else { return nil }
        return Made(bytes: made, base: base, baseDigest: try digest(former))
    }

    private func digest(_ bytes: [UInt8]) throws(PublishError) -> SHA256Digest {
        try calling { try bytes.withUnsafeBytes { try hasher.digest(of: $0) } }
    }
}

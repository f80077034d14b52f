import SyncCompression
import SyncDigest
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// What one thread needs for making deltas: contexts, memory, and the base's packs. About **4 MiB**.
final class DeltaEncoder: @unchecked Sendable {  // Safe: one thread of `make` has it, and is joined.
    /// A delta that was made.
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
        do {
            let compressor = try ZstdCompressor(level: max(level, Self.leastLevel))
            hasher = try SHA256Hasher()
            self.compressor = compressor
        } catch {
            throw .refusedCall(error)
        }
    }

    /// Makes the delta of a task; `nil` if it cannot be made.
    ///
    /// - Parameters:
    ///   - file: The new version, open.
    ///   - place: The blob, which is stored already.
    func encode(
        _ task: DeltaPlan.Task,
        in file: borrowing Descriptor,
        _ place: Catalogue.Entry,
        _ regions: FormerRegions
    ) throws(PublishError) -> Made? {
        var raw = [UInt8](repeating: 0, count: Int(place.rawLength))
        let count = raw.withUnsafeMutableBytes { readFully(file.raw, into: $0, at: task.target.lowerBound) }
        do {
            // If the file has changed since the blob was stored, there is no delta.
            guard count == raw.count, try raw.withUnsafeBytes({ try hasher.digest(of: $0) }) == place.digest
            else { return nil }
            let base = regions.base(for: task, raw)
            guard let former = reader.read(row: task.former.row, base) else { return nil }
            let stored = UInt64(place.storedLength)
            var target = [UInt8](repeating: 0, count: Int(stored + Delta.slack(stored)))
            let length = try raw.withUnsafeBytes { raw in
                try former.withUnsafeBytes { former in
                    try target.withUnsafeMutableBytes { target in
                        try compressor.encode(
                            raw,
                            behind: former,
                            into: UnsafeMutableRawBufferPointer(target)
                        )
                    }
                }
            }
            guard let length else { return nil }
            let digest = try former.withUnsafeBytes { try hasher.digest(of: $0) }
            return Made(bytes: Array(target[..<length]), base: base, baseDigest: digest)
        } catch {
            throw .refusedCall(error)
        }
    }
}

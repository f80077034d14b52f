import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Reads content of the base's files from those packs that are in the output directory, and from what was fetched of the others.
/// For one thread.
final class BaseReader {
    private let base: Manifest
    private let output: OutputDirectory
    private let served: ServedBase?
    private let dictionary: DecodingDictionary?
    private var decoder: BlobDecoder
    private var hasher: SHA256Hasher
    /// `nil` for one that is not here.
    private(set) var packs: [UInt32: SharedDescriptor?] = [:]
    /// The last row read, and where each of its blobs ends in the file.
    private var ends: (row: Int, offsets: [UInt64]) = (-1, [])

    /// Longer blobs are not read, to bound memory.
    private static let longestBlob: UInt64 = 16 << 20
    /// Most packs open at once, of all readers together.
    private static let mostPacks = 256
    let mostPacks: Int

    /// - Parameters:
    ///   - served: The base on a server; `nil` for one here.
    ///   - readers: How many share the limit of open packs. A pack that could not be opened would count as missing, and what is
    ///     published would depend on the number of jobs.
    init(
        _ base: Manifest, dictionary: DecodingDictionary?, _ output: OutputDirectory, served: ServedBase? = nil,
        readers: Int
    ) throws(PublishError) {
        mostPacks = max(1, Self.mostPacks / max(1, readers))
        decoder = try calling { try BlobDecoder() }
        hasher = try calling { try SHA256Hasher() }
        self.base = base
        self.dictionary = dictionary
        self.output = output
        self.served = served
    }

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
            return try raw.withUnsafeBytes { try hasher.digest(of: $0) } == digest ? raw : nil
        } catch { return nil }
    }

    private func stored(_ blob: Blob) -> [UInt8]? {
        let digest = base.packs[Int(blob.pack)].sha256
        if packs[blob.pack] == nil {
            if packs.count >= mostPacks { packs = [:] }
            packs[blob.pack] = .some(SharedDescriptor(output.open(.packs, digest.hex + ".pack")))
        }
        guard case .some(.some(let pack)) = packs[blob.pack] else { return served?.held(digest, blob.range) }
        var bytes = [UInt8](repeating: 0, count: Int(blob.storedLength))
        let count = bytes.withUnsafeMutableBytes { readFully(pack.raw, into: $0, at: blob.offset) }
        return count == bytes.count ? bytes : nil
    }
}

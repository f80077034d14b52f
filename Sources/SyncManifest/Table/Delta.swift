package import SyncModel

/// A blob in another form, for readers that have a former version of the file: one zstd frame made with some of that
/// version's bytes as prefix. An addition that readers may ignore; `x-deltas` in `Manifests/FORMAT.md`.
package struct Delta: Sendable, Equatable {
    /// Position of the blob in its file.
    package var blob: UInt32
    /// Index into ``Manifest/packs``.
    package var pack: UInt32
    /// First byte in the pack.
    package var offset: UInt64
    /// **Bytes** in the pack.
    package var storedLength: UInt64
    /// SHA-256 of the whole former version.
    package var baseFile: SHA256Digest
    /// Which **bytes** of it are the prefix.
    package var base: Range<UInt64>
    /// Their SHA-256.
    package var baseDigest: SHA256Digest

    package init(
        blob: UInt32, pack: UInt32, offset: UInt64, storedLength: UInt64, baseFile: SHA256Digest, base: Range<UInt64>,
        baseDigest: SHA256Digest
    ) {
        (self.blob, self.pack, self.offset, self.storedLength) = (blob, pack, offset, storedLength)
        (self.baseFile, self.base, self.baseDigest) = (baseFile, base, baseDigest)
    }

    /// Most **bytes** of a prefix; longer ones are ignored, so that memory stays bounded.
    package static let longestBase: UInt64 = 2 << 20
    /// Most raw **bytes**, and most stored ones, of a blob that has a delta.
    package static let longestBlob: UInt64 = 1 << 20

    /// How many **bytes** longer than its blob's stored form a delta may be and still be preferred: it lies beside
    /// other deltas, and the blob lies alone.
    package static func slack(_ storedLength: UInt64) -> UInt64 { min(64, storedLength / 64) }

    /// The bytes in the pack.
    package var range: Range<UInt64> { offset..<(offset &+ storedLength) }
}

/// Deltas of a table by row; few rows have any.
struct DeltaColumn: Sendable {
    /// Rows that have deltas, in the order they were added.
    private var rows: [UInt32] = []
    private var starts: [UInt32] = []
    private(set) var all: [Delta] = []

    /// Adds the deltas of a row; rows come in ascending order.
    mutating func append(_ deltas: some Collection<Delta>, row: Int) {
        guard !deltas.isEmpty, let number = UInt32(exactly: row), let start = UInt32(exactly: all.count) else { return }
        rows.append(number)
        starts.append(start)
        all.append(contentsOf: deltas)
    }

    /// Renumbers the packs of the deltas from `first` on; deltas without a new number become useless.
    mutating func renumberPacks(from first: Int, _ numbers: [UInt32]) {
        for index in all.indices[first...] {
            let pack = Int(all[index].pack)
            all[index].pack = pack < numbers.count ? numbers[pack] : .max
        }
    }

    subscript(row: Int) -> ArraySlice<Delta> {
        let index = rows.indices.partitioningIndex { Int(rows[$0]) >= row }
        guard index < rows.count, Int(rows[index]) == row else { return [] }
        return all[Int(starts[index])..<(index + 1 < starts.count ? Int(starts[index + 1]) : all.count)]
    }
}

extension FileTable {
    /// The deltas of a row, by ascending blob; their indices count through the whole table.
    package func deltas(_ row: Int) -> ArraySlice<Delta> { deltaColumn[lender(of: row)] }

    /// The delta with an index that ``deltas(_:)`` gave.
    package func delta(at index: Int) -> Delta { deltaColumn.all[index] }

    /// Keeps the deltas that can be used: of blobs that exist and fit in memory, in packs that exist.
    mutating func dropUselessDeltas(_ packs: [Manifest.Pack]) {
        guard !deltaColumn.all.isEmpty else { return }
        var kept = DeltaColumn()
        for row in indices {
            let blobs = blobs(row)
            var last = -1
            let good = deltas(row).filter { delta in
                guard Int(delta.blob) < blobs.count, Int(delta.blob) > last, Int(delta.pack) < packs.count,
                    delta.storedLength > 0, delta.storedLength <= Delta.longestBlob,
                    blobs[blobs.startIndex + Int(delta.blob)].rawLength <= Delta.longestBlob,
                    delta.base.upperBound - delta.base.lowerBound <= Delta.longestBase, !delta.base.isEmpty,
                    delta.offset <= packs[Int(delta.pack)].size,
                    delta.storedLength <= packs[Int(delta.pack)].size - delta.offset
                else { return false }
                last = Int(delta.blob)
                return true
            }
            kept.append(good, row: row)
        }
        deltaColumn = kept
    }
}

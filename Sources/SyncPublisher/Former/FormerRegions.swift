import SyncManifest

/// Indexes of those regions of former versions that the current tasks search for their bases.
struct FormerRegions: Sendable {
    private struct Region: Hashable {
        var row: Int
        var range: Range<UInt64>

        /// The region that a task searches; `nil` if its base needs no search.
        init?(_ task: DeltaPlan.Task) {
            guard let range = task.region else { return nil }
            (row, self.range) = (task.former.row, range)
        }

        /// In **bytes**.
        var length: UInt64 { range.upperBound - range.lowerBound }
    }

    /// Most **bytes** of memory for indexes of several regions together.
    private static let mostBytes = 64 << 20
    /// **Bytes** of a region read at a time.
    private static let piece: UInt64 = 1 << 20

    private var indexes: [Region: SimilarityIndex] = [:]

    /// Prepares for the first of `tasks` and as many more as fit in memory.
    ///
    /// - Returns: How many tasks that is; at least one if there is one.
    mutating func prepare(_ tasks: [DeltaPlan.Task], _ reader: DeltaEncoder) -> Int {
        var wanted: Set<Region> = []
        var size = 0
        var count = 0
        for task in tasks {
            if let region = Region(task), !wanted.contains(region) {
                size += SimilarityIndex.size(length: region.length)
                guard wanted.isEmpty || size <= Self.mostBytes else { break }
                wanted.insert(region)
            }
            count += 1
        }
        // Drop old indexes before adding new ones.
        indexes = indexes.filter { wanted.contains($0.key) }
        for region in wanted where indexes[region] == nil { indexes[region] = Self.index(region, reader) }
        return count
    }

    private static func index(_ region: Region, _ reader: DeltaEncoder) -> SimilarityIndex {
        var index = SimilarityIndex(length: region.length)
        for start in stride(from: region.range.lowerBound, to: region.range.upperBound, by: Int(piece)) {
            let end = min(region.range.upperBound, start + piece)
            if let bytes = reader.read(row: region.row, start..<end) {
                bytes.withUnsafeBytes { index.add($0) }
            } else {
                index.skip(end - start)
            }
        }
        return index
    }

    /// The range of the former version most like a task's blob, whose bytes are `raw`.
    func base(for task: DeltaPlan.Task, _ raw: [UInt8]) -> Range<UInt64> {
        guard let region = Region(task), let index = indexes[region],
            let found = raw.withUnsafeBytes({ index.likest($0, width: DeltaPlan.width(task.target)) })
        else { return task.base }
        let start = region.range.lowerBound
        return (start + found.lowerBound)..<(start + found.upperBound)
    }
}

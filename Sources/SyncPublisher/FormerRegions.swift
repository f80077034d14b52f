import SyncManifest

/// Indexes of the regions of former versions in which the deltas at hand look for their bases.
struct FormerRegions: Sendable {
    private struct Region: Hashable {
        var row: Int
        var range: Range<UInt64>
    }

    /// Most **bytes** that indexes of several regions may have together.
    private static let mostBytes = 64 << 20
    /// **Bytes** of a region that are read at a time.
    private static let piece: UInt64 = 1 << 20

    private var indexes: [Region: SimilarityIndex] = [:]

    /// Makes ready for the first of `tasks`, and for as many more as fit in memory.
    ///
    /// - Returns: How many tasks that is; at least one if there is one.
    mutating func prepare(_ tasks: ArraySlice<DeltaPlan.Task>, _ reader: BaseReader) -> Int {
        var kept: [Region: SimilarityIndex] = [:]
        var size = 0
        var count = 0
        for task in tasks {
            if let range = task.region, kept[Region(row: task.row, range: range)] == nil {
                let length = range.upperBound - range.lowerBound
                size += SimilarityIndex.size(length: length)
                guard count == 0 || size <= Self.mostBytes else { break }
                let region = Region(row: task.row, range: range)
                kept[region] = indexes[region] ?? Self.index(region, reader)
            }
            count += 1
        }
        indexes = kept
        return count
    }

    private static func index(_ region: Region, _ reader: BaseReader) -> SimilarityIndex {
        var index = SimilarityIndex(length: region.range.upperBound - region.range.lowerBound)
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

    /// Which **bytes** of the former version are most like the blob of a task, which has the bytes `raw`.
    func base(for task: DeltaPlan.Task, _ raw: [UInt8]) -> Range<UInt64> {
        guard let range = task.region, let index = indexes[Region(row: task.row, range: range)],
            let found = raw.withUnsafeBytes({ index.likest($0, width: DeltaPlan.width(task.target)) })
        else { return task.base }
        return (range.lowerBound + found.lowerBound)..<(range.lowerBound + found.upperBound)
    }
}

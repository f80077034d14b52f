import SyncModel
import SyncSystem

/// Which bytes are here of a file that comes in several ranges at a time. Pure.
struct WrittenRanges: Sendable, Equatable {
    /// Ascending; neither overlapping nor adjacent.
    private(set) var ranges: [Range<UInt64>]
    /// The place of each in a ``RangeRecord``.
    private var places: [Int]
    /// Places that are not used any more.
    private var free: [Int] = []

    /// A change of one place in the record; an empty range clears it.
    struct Change: Equatable {
        var place: Int
        var range: Range<UInt64>
    }

    /// - Parameter ranges: In any order; they may overlap.
    init(_ ranges: [Range<UInt64>] = []) {
        (self.ranges, places) = ([], [])
        for range in ranges { _ = insert(range) }
        places = Array(self.ranges.indices)
        free = []
    }

    /// Adds the bytes of a range.
    ///
    /// - Returns: What changes in the record, in the order in which it may be written.
    mutating func insert(_ range: Range<UInt64>) -> [Change] {
        guard !range.isEmpty else { return [] }
        let first = ranges.indices.partitioningIndex { ranges[$0].upperBound >= range.lowerBound }
        let end = ranges.indices.partitioningIndex { ranges[$0].lowerBound > range.upperBound }
        guard first < end else {
            let place = free.popLast() ?? ranges.count
            ranges.insert(range, at: first)
            places.insert(place, at: first)
            return [Change(place: place, range: range)]
        }
        let low = min(ranges[first].lowerBound, range.lowerBound)
        let high = max(ranges[end - 1].upperBound, range.upperBound)
        let others = places[(first + 1)..<end]
        var changes = [Change(place: places[first], range: low..<high)]
        changes += others.map { Change(place: $0, range: 0..<0) }
        free += others
        ranges.replaceSubrange(first..<end, with: [low..<high])
        places.removeSubrange((first + 1)..<end)
        return changes
    }

    /// What the record has: every range in its place.
    var record: [Change] { zip(places, ranges).map { Change(place: $0, range: $1) } }

    /// One past the last **byte** that is here without a gap from `offset` on.
    func end(from offset: UInt64) -> UInt64 {
        let next = ranges.indices.partitioningIndex { ranges[$0].upperBound > offset }
        guard next < ranges.count, ranges[next].lowerBound <= offset else { return offset }
        return ranges[next].upperBound
    }

    /// **Bytes** that are here.
    var byteCount: UInt64 { ranges.reduce(0) { $0 + ($1.upperBound - $1.lowerBound) } }

    /// The gaps in a file of `size` **bytes**.
    func gaps(in size: UInt64) -> [Range<UInt64>] {
        var gaps: [Range<UInt64>] = []
        var position: UInt64 = 0
        for range in ranges {
            if range.lowerBound > position { gaps.append(position..<min(range.lowerBound, size)) }
            position = range.upperBound
        }
        if position < size { gaps.append(position..<size) }
        return gaps
    }
}

/// Where a staged file itself says which of its bytes are here: behind its last byte, on a page of its own, where it is cut off
/// before the file is put in place.
///
/// Written after the bytes that it speaks of, each range with one write that lies within a page: after a kill, what it says is
/// here.
struct RangeRecord {
    let descriptor: Int32
    /// **Bytes** of the file.
    let size: UInt64

    private static let magic = Array("SARANGE1".utf8)
    private static let headerLength = 16
    private static let entryLength = 16
    /// Most ranges: those beyond are fetched again after a kill. A transfer has as many gaps as connections, or a few more.
    static let capacity = 1023
    private static let page: UInt64 = 4096

    /// Where it begins; `nil` for a file that cannot have one.
    private var start: UInt64? {
        let (end, overflow) = size.addingReportingOverflow(Self.page - 1)
        return overflow || end > UInt64(Int64.max) / 2 ? nil : end / Self.page * Self.page
    }

    /// Writes all of it.
    func write(_ written: WrittenRanges) -> Errno? {
        guard let start else { return .fileTooLarge }
        var bytes = Self.magic + Self.littleEndian(size)
        bytes += [UInt8](repeating: 0, count: Self.capacity * Self.entryLength)
        for change in written.record where change.place < Self.capacity {
            let place = Self.headerLength + change.place * Self.entryLength
            bytes.replaceSubrange(place..<(place + Self.entryLength), with: Self.entry(change.range))
        }
        return bytes.withUnsafeBytes { writeAll($0, to: descriptor, at: start) }
    }

    /// Writes what has changed.
    func write(_ changes: [WrittenRanges.Change]) -> Errno? {
        guard let start else { return .fileTooLarge }
        for change in changes where change.place < Self.capacity {
            let place = start + UInt64(Self.headerLength + change.place * Self.entryLength)
            let code = Self.entry(change.range).withUnsafeBytes { writeAll($0, to: descriptor, at: place) }
            if let code { return code }
        }
        return nil
    }

    /// The ranges that it names, as far as the file has bytes there; `nil` when there is none.
    ///
    /// After a power cut the record may be there and bytes before it not: then the file has holes in their place.
    func read() -> WrittenRanges? {
        guard let start else { return nil }
        var bytes = [UInt8](repeating: 0, count: Self.headerLength + Self.capacity * Self.entryLength)
        let count = bytes.withUnsafeMutableBytes { readFully(descriptor, into: $0, at: start) }
        let header = Self.magic + Self.littleEndian(size)
        guard count == bytes.count, bytes.starts(with: header) else { return nil }
        var ranges: [Range<UInt64>] = []
        bytes.withUnsafeBytes { bytes in
            for place in stride(from: Self.headerLength, to: bytes.count, by: Self.entryLength) {
                func number(_ place: Int) -> UInt64 {
                    UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: place, as: UInt64.self))
                }
                let (low, high) = (number(place), number(place + 8))
                guard low < high, high <= size else { continue }
                let end = min(high, UInt64(clamping: nextHole(descriptor, Int64(low))))
                if low < end { ranges.append(low..<end) }
            }
        }
        return WrittenRanges(ranges)
    }

    private static func entry(_ range: Range<UInt64>) -> [UInt8] {
        littleEndian(range.lowerBound) + littleEndian(range.upperBound)
    }

    private static func littleEndian(_ number: UInt64) -> [UInt8] {
        withUnsafeBytes(of: number.littleEndian) { Array($0) }
    }
}

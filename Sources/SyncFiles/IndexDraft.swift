import SyncManifest
import SyncModel

/// An index in memory whose records are appended in ``PathOrder``; otherwise like another index.
package struct IndexDraft: ~Copyable {
    private let owner: String
    private var header = StatIndex.Header()
    /// Room for the header, followed by the records.
    private var bytes: [UInt8]
    private var paths: [UInt8] = []

    /// - Parameters:
    ///   - index: The index whose owner, time and last revision are taken over.
    ///   - isComplete: Whether its completion is taken over, too.
    package init(like index: StatIndex, isComplete: Bool = false) {
        owner = index.owner
        (header.stamp, header.revision) = (index.stamp, index.revision)
        header.completion = isComplete ? index.completion : nil
        bytes = Array(repeating: 0, count: StatIndex.headerLength)
        bytes.reserveCapacity(index.bytes.count)
    }

    package mutating func append(_ record: IndexRecord, _ path: UnsafeBufferPointer<UInt8>) {
        let (offset, length) = (UInt32(truncatingIfNeeded: paths.count), UInt16(truncatingIfNeeded: path.count))
        withUnsafeTemporaryAllocation(byteCount: IndexRecord.byteCount, alignment: 8) { buffer in
            guard let base = buffer.baseAddress else { return }
            record.store(to: base, pathOffset: offset, pathLength: length)
            bytes.append(contentsOf: buffer)
        }
        paths.append(contentsOf: path)
        paths.append(0)
        header.count += 1
        // As in the index that is written next: later than every record.
        header.stamp = max(header.stamp, record.status.changed.saturatingAdd(1))
    }

    /// Adds records of an index unchanged, except that they count as installed by a pull.
    ///
    /// - Parameter later: Another index, and the position of the first of the same paths there. If it has a later
    ///   status of the very same file, that status is used: every name that a file gains or loses in another tree
    ///   changes its status.
    package mutating func append(
        installed positions: Range<Int>, of index: StatIndex, or later: (index: StatIndex, first: Int)
    ) {
        for position in positions {
            let other = later.first + (position - positions.lowerBound)
            guard let mine = index.record(position), let theirs = later.index.record(other) else { return }
            var record = mine.later(theirs)
            record.installed = true
            index.withPath(position) { append(record, $0) }
        }
    }

    /// The index; `nil` if an index cannot hold one of the records.
    package consuming func index() -> StatIndex? {
        header.arenaLength = UInt64(paths.count)
        header.ownerLength = UInt64(owner.utf8.count)
        bytes.withUnsafeMutableBytes { header.store(to: $0) }
        bytes += paths
        bytes += owner.utf8
        bytes += [UInt8](repeating: 0, count: 32)
        return StatIndex(bytes)
    }
}

extension StatIndex {
    /// How many records are the same in both indexes from two positions on, one by one: with the same paths and
    /// contents, and all of them trusted.
    ///
    /// - Parameter most: The number at which counting ends.
    package func countShared(from position: Int, with other: StatIndex, from otherPosition: Int, most: Int) -> Int {
        var shared = 0
        while shared < most, position + shared < count, otherPosition + shared < other.count,
            let mine = record(position + shared), let theirs = other.record(otherPosition + shared),
            mine.isSame(as: theirs), trusts(mine), other.trusts(theirs),
            withPath(position + shared, { path in other.withPath(otherPosition + shared) { path.elementsEqual($0) } })
        {
            shared += 1
        }
        return shared
    }

    /// The directories that contain an entry, or that the manifest names, in ``PathOrder``; without the destination
    /// itself.
    package var directories: [[UInt8]] {
        var found: [[UInt8]] = []
        var last: [UInt8] = []
        for position in 0..<count {
            withPath(position) { path in
                let end = isDirectory(position) ? path.count : path.lastIndex(of: 0x2F) ?? 0
                let directory = UnsafeBufferPointer(rebasing: path[..<end])
                var shared = 0
                while shared < min(end, last.count), directory[shared] == last[shared] { shared += 1 }
                if shared == end, shared == last.count { return }
                // Entries of a directory are adjacent, so the parents shared with the last entry are listed already.
                for length in 1...max(1, end) where length == end || length < end && directory[length] == 0x2F {
                    let isThere = length <= shared && (length == last.count || last[length] == 0x2F)
                    if !isThere { found.append(Array(directory[..<length])) }
                }
                last = Array(directory)
            }
        }
        return found
    }
}

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
        append(path, changed: record.status.changed) { record.store(to: $0, pathOffset: $1, pathLength: $2) }
    }

    /// Adds records of an index unchanged, except that they count as installed by a pull.
    ///
    /// - Parameter later: Another index, and the position of the first of the same paths there. If it has a later
    ///   status of the very same file, that status is used: every name that a file gains or loses in another tree
    ///   changes its status.
    package mutating func append(
        installed positions: Range<Int>, of index: StatIndex, or later: (index: StatIndex, first: Int)
    ) {
        index.bytes.withUnsafeBytes { all in
            later.index.bytes.withUnsafeBytes { others in
                for position in positions {
                    let other = later.first + (position - positions.lowerBound)
                    guard let mine = RawRecord(position, in: all), let theirs = RawRecord(other, in: others) else {
                        return
                    }
                    let status = theirs.isLater(than: mine) ? theirs : mine
                    index.withPath(position) { path in
                        append(path, changed: status.changed) { target, offset, length in
                            target.copyMemory(from: mine.start, byteCount: IndexRecord.byteCount)
                            target.copyMemory(from: status.start, byteCount: IndexRecord.Status.byteCount)
                            target.store(offset, at: RawRecord.pathOffset)
                            target.store(length, at: RawRecord.pathLength)
                            target.store(mine.flags | RawRecord.isInstalled, at: RawRecord.flags)
                        }
                    }
                }
            }
        }
    }

    private mutating func append(
        _ path: UnsafeBufferPointer<UInt8>, changed: Int64,
        _ store: (_ target: UnsafeMutableRawPointer, _ offset: UInt32, _ length: UInt16) -> Void
    ) {
        let (offset, length) = (UInt32(truncatingIfNeeded: paths.count), UInt16(truncatingIfNeeded: path.count))
        withUnsafeTemporaryAllocation(byteCount: IndexRecord.byteCount, alignment: 8) { buffer in
            guard let base = buffer.baseAddress else { return }
            store(base, offset, length)
            bytes.append(contentsOf: buffer)
        }
        paths.append(contentsOf: path)
        paths.append(0)
        header.count += 1
        // As in the index that is written next: later than every record.
        header.stamp = max(header.stamp, changed.saturatingAdd(1))
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

/// A record as stored; see ``IndexRecord/byteCount``.
private struct RawRecord {
    let start: UnsafeRawPointer

    static let pathOffset = 72
    static let pathLength = 76
    static let kind = 78
    static let flags = 79
    static let isInstalled: UInt8 = 1

    /// - Parameter bytes: An index. The result is `nil` if it is too short for the position.
    init?(_ position: Int, in bytes: UnsafeRawBufferPointer) {
        let first = StatIndex.headerLength + position * IndexRecord.byteCount
        guard let base = bytes.baseAddress, first + IndexRecord.byteCount <= bytes.count else { return nil }
        start = base + first
    }

    private func integer<Number: FixedWidthInteger & BitwiseCopyable>(at offset: Int) -> Number {
        Number(littleEndian: start.loadUnaligned(fromByteOffset: offset, as: Number.self))
    }

    private func word(_ offset: Int) -> UInt64 { integer(at: offset) }

    private var modified: Int64 { integer(at: 24) }
    var changed: Int64 { integer(at: 32) }
    private var kind: UInt8 { integer(at: Self.kind) }
    var flags: UInt8 { integer(at: Self.flags) }
    private var isDirectory: Bool { kind == FileTable.Kind.directory.indexNumber }

    /// As ``StatIndex/trusts(_:at:)``.
    func isTrusted(at stamp: Int64) -> Bool {
        isDirectory || StatIndex.trusts(changed: changed, modified, at: stamp)
    }

    /// Whether both have the same content and kind.
    func isSame(as other: RawRecord) -> Bool {
        kind == other.kind && word(40) == other.word(40) && word(48) == other.word(48) && word(56) == other.word(56)
            && word(64) == other.word(64)
    }

    /// Whether the record has a later status of the very same file.
    func isLater(than other: RawRecord) -> Bool {
        !isDirectory && changed > other.changed && word(0) == other.word(0) && word(8) == other.word(8)
            && word(16) == other.word(16) && word(24) == other.word(24)
    }
}

extension StatIndex {
    /// How many records are the same in both indexes from two positions on, one by one: with the same paths and
    /// contents, and all of them trusted.
    ///
    /// - Parameter most: The number at which counting ends.
    package func countShared(from position: Int, with other: StatIndex, from otherPosition: Int, most: Int) -> Int {
        var shared = 0
        bytes.withUnsafeBytes { all in
            other.bytes.withUnsafeBytes { others in
                while shared < most, position + shared < count, otherPosition + shared < other.count,
                    let mine = RawRecord(position + shared, in: all),
                    let theirs = RawRecord(otherPosition + shared, in: others),
                    mine.isSame(as: theirs), mine.isTrusted(at: stamp), theirs.isTrusted(at: other.stamp)
                {
                    let isSamePath = withPath(position + shared) { path in
                        other.withPath(otherPosition + shared) { path.elementsEqual($0) }
                    }
                    guard isSamePath else { return }
                    shared += 1
                }
            }
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

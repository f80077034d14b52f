package import SyncContent
package import SyncModel
package import SyncSystem

/// A large file being assembled from blobs, or from ranges of a file without blobs, that may arrive in any order and
/// from several workers.
///
/// The bytes are hashed once, in file order, while still in memory if they arrive in order; bytes that arrive early are
/// read back from the page cache in their turn. The digests of single blobs are checked only if the whole does not
/// match, to find the wrong one.
package final class PartFile: Sendable {
    /// The file's name in the staging directory.
    package let staged: Staging.File
    /// Length of the whole file in **bytes**.
    package let size: UInt64
    private let descriptor: Descriptor
    private let digest: SHA256Digest
    /// Where each blob ends, exclusive, in **bytes** of the file.
    private let ends: [UInt64]
    private let state: Mutex<State>
    private let hash: HashBox

    private struct State {
        var done: [Bool]
        /// The first blob that is not completely hashed.
        var frontier = 0
        /// **Bytes** hashed.
        var hashed: UInt64 = 0
        /// Whether bytes have been replaced after they were hashed: the digest is then of bytes that are gone.
        var isStale = false
        /// Whether a thread is using the hasher.
        var hashing = false
        /// Whether unwritten ranges are holes, so that zeros need not be written.
        var isSparse: Bool
        /// Blobs of a sparse file that have been written to.
        var touched: [Bool]
        /// The received ranges of a file without blobs.
        var written = WrittenRanges()
        /// Whether a ``RangeRecord`` holds these ranges; otherwise the file's length tells.
        var isRecorded = false
    }

    /// The running hash. A thread uses it only between setting and clearing `hashing`, both under the state's mutex,
    /// and no thread sets it while it is set.
    private final class HashBox: @unchecked Sendable {  // Safe: only the thread that set `hashing` uses it.
        var hasher: SHA256Hasher
        init(_ hasher: consuming SHA256Hasher) { self.hasher = hasher }
    }

    /// The result of completing a blob.
    package enum Progress: Equatable, Sendable {
        case incomplete
        /// All bytes have been received and match the digest.
        case verified
        /// All bytes have been received and do not match the digest. The blobs at fault, as far as they are known.
        case wrong(String, blobs: [Int], found: SHA256Digest?)
        case failed(FileError)

        package static let mismatch = Progress.wrong("the bytes do not have the file's SHA-256", blobs: [0], found: nil)
    }

    /// Takes an open staging file.
    ///
    /// - Parameters:
    ///   - ends: The end of each blob in the file; ascending, the last one is `size`.
    ///   - isSparse: Whether the file already has its full length and no data: blobs of zeros stay holes.
    package init(
        descriptor: consuming Descriptor, staged: Staging.File, digest: SHA256Digest, ends: [UInt64],
        isSparse: Bool = false
    ) throws(DigestError) {
        self.descriptor = descriptor
        self.staged = staged
        self.digest = digest
        self.ends = ends
        size = ends.last ?? 0
        let none = Array(repeating: false, count: ends.count)
        state = Mutex(State(done: none, isSparse: isSparse, touched: isSparse ? none : []))
        hash = HashBox(try SHA256Hasher())
    }

    /// The **bytes** of a blob in the file.
    package func range(blob: Int) -> Range<UInt64> { (blob == 0 ? 0 : ends[blob - 1])..<ends[blob] }

    /// Whether a blob is complete.
    package func isDone(blob: Int) -> Bool { state.withLock { $0.done[blob] } }

    /// Notes a blob that an earlier run has written and that has been checked.
    package func adopt(blob: Int) { state.withLock { $0.done[blob] = true } }

    /// **Bytes** of the blobs that are complete.
    package var doneBytes: UInt64 {
        state.withLock { state in
            if ends.count == 1, !state.done[0] { return state.written.byteCount }
            return ends.indices.reduce(0) {
                state.done[$1] ? $0 + range(blob: $1).upperBound - range(blob: $1).lowerBound : $0
            }
        }
    }

    /// Takes over the ranges that an earlier run wrote of a file without blobs. They are hashed in their turn.
    ///
    /// - Returns: The number of **bytes** taken over; 0 if nothing is of use.
    package func adoptRanges() -> UInt64 {
        guard ends.count == 1, let length = status(descriptor.raw)?.size, length > 0 else { return 0 }
        let found = length > size ? record.read() : WrittenRanges([0..<length])
        guard let found, !found.ranges.isEmpty else { return 0 }
        let isRecorded = length > size
        // The record's ranges may include holes, so it is written anew.
        if isRecorded, record.write(found) != nil { return 0 }
        state.withLock { ($0.written, $0.isRecorded) = (found, isRecorded) }
        return found.byteCount
    }

    private var record: RangeRecord { RangeRecord(descriptor: descriptor.raw, size: size) }

    /// The missing **bytes** of a file without blobs.
    package var gaps: [Range<UInt64>] { state.withLock(\.written).gaps(in: size) }

    /// The file's present status; `nil` on failure, for which ``Errno/last`` is set.
    package var fileStatus: FileStatus? { status(descriptor.raw) }

    /// The number of blobs in the file.
    package var blobCount: Int { ends.count }

    /// Writes bytes of a blob. Hashes them at once if they are next in file order.
    ///
    /// - Returns: Why it failed; `nil` on success.
    package func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> FileError? {
        state.withLock { $0.isSparse = false }
        return replace(bytes, at: offset) ?? hash(bytes, at: offset)
    }

    /// Writes a whole blob. Zeros are left as a hole if possible.
    package func write(_ bytes: UnsafeRawBufferPointer, blob: Int) -> FileError? {
        let isZero = bytes.isZero
        let isHole = state.withLock { state in
            guard state.isSparse else { return false }
            if isZero, !state.touched[blob] { return true }
            state.touched[blob] = true
            return false
        }
        let offset = range(blob: blob).lowerBound
        if !isHole, let error = replace(bytes, at: offset) { return error }
        return hash(bytes, at: offset)
    }

    /// Writes bytes without hashing them; they are read back in their turn.
    package func replace(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> FileError? {
        state.withLock { if offset < $0.hashed { $0.isStale = true } }
        return writeAll(bytes, to: descriptor.raw, at: offset).map {
            FileError(step: "write", path: staged.name, code: $0)
        }
    }

    /// Writes bytes of a file without blobs at their place, and hashes on as far as the file is complete: these bytes
    /// at once if they are next in file order, others from the page cache in their turn.
    ///
    /// - Parameter isStopped: As in ``complete(blob:isStopped:)``.
    package func put(_ bytes: UnsafeRawBufferPointer, at offset: UInt64, isStopped: () -> Bool = { false }) -> Progress
    {
        let (end, overflow) = offset.addingReportingOverflow(UInt64(bytes.count))
        guard !overflow, end <= size, ends.count == 1 else {
            return .failed(FileError(step: "write", path: staged.name, remark: "more than the file"))
        }
        if let error = beginRecord(before: offset) ?? replace(bytes, at: offset) { return .failed(error) }
        let (code, isMine, isNext) = state.withLock { state -> (Errno?, Bool, Bool) in
            let changes = state.written.insert(offset..<end)
            if state.isRecorded, let code = record.write(changes) { return (code, false, false) }
            guard !state.hashing, state.written.end(from: state.hashed) > state.hashed else {
                return (nil, false, false)
            }
            state.hashing = true
            return (nil, true, state.hashed == offset)
        }
        if let code { return .failed(recordError(code)) }
        guard isMine else { return .incomplete }
        if isNext {
            if let error = feed(bytes) { return stopHashing(.failed(error)) }
            state.withLock { $0.hashed = end }
        }
        return hashOn(isStopped)
    }

    /// Before the first gap, writes a record of the received ranges: from then on, the file's length says nothing about
    /// them.
    private func beginRecord(before offset: UInt64) -> FileError? {
        state.withLock { state in
            guard !state.isRecorded, offset != state.written.end(from: 0) else { return nil }
            if let code = record.write(state.written) { return recordError(code) }
            state.isRecorded = true
            return nil
        }
    }

    private func recordError(_ code: Errno) -> FileError {
        FileError(step: "write", path: staged.name, code: code)
    }

    private func stopHashing(_ progress: Progress) -> Progress {
        state.withLock { $0.hashing = false }
        return progress
    }

    /// Shares blocks of another file. ioctl_ficlonerange(2).
    ///
    /// - Parameters:
    ///   - range: **Bytes** of this file.
    ///   - offset: First **byte** in `source`.
    /// - Returns: Why it failed: ``Errno/notSupported`` or ``Errno/improperLink`` if blocks cannot be shared.
    package func share(_ range: Range<UInt64>, from source: Int32, at offset: UInt64) -> Errno? {
        let code = cloneRange(
            source, at: offset, count: range.upperBound - range.lowerBound, to: descriptor.raw, at: range.lowerBound)
        if let code { return code }
        state.withLock { state in
            if range.lowerBound < state.hashed { state.isStale = true }
            guard state.isSparse else { return }
            var blob = firstBlob(endingAfter: range.lowerBound)
            while blob < ends.count, self.range(blob: blob).lowerBound < range.upperBound {
                state.touched[blob] = true
                blob += 1
            }
        }
        return nil
    }

    private func firstBlob(endingAfter offset: UInt64) -> Int { ends.indices.partitioningIndex { ends[$0] > offset } }

    private func hash(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> FileError? {
        let isNext = state.withLock { state in
            guard !state.hashing, state.hashed == offset else { return false }
            state.hashing = true
            return true
        }
        guard isNext else { return nil }
        let error = feed(bytes)
        state.withLock { state in
            if error == nil { state.hashed += UInt64(bytes.count) }
            state.hashing = false
        }
        return error
    }

    /// Notes that a blob is completely written, and hashes on as far as the file is complete.
    ///
    /// - Parameter isStopped: Called often, since reading a large file back takes minutes. If it returns `true`, the
    ///   result is incomplete.
    package func complete(blob: Int, isStopped: () -> Bool = { false }) -> Progress {
        let starts = state.withLock { state in
            state.done[blob] = true
            guard !state.hashing else { return false }
            state.hashing = true
            return true
        }
        return starts ? hashOn(isStopped) : .incomplete
    }

    /// **Bytes** read back between two checks for a stop.
    private static let step: UInt64 = 16 << 20

    /// Most **bytes** that one call reads back of ranges while others are still to come, since their transfers wait for
    /// the same threads.
    private static let share: UInt64 = 8 << 20

    /// Reads back and hashes the next bytes in file order: the complete blobs from the frontier on, or received ranges.
    /// The caller has set `hashing`.
    private func hashOn(_ isStopped: () -> Bool) -> Progress {
        var left = Self.share
        while true {
            if isStopped() { return stopHashing(.incomplete) }
            let step: (bytes: Range<UInt64>, isHole: Bool)? = state.withLock { state in
                while state.frontier < ends.count, state.done[state.frontier], state.hashed >= ends[state.frontier] {
                    state.frontier += 1
                }
                let hashed = state.hashed
                let isReceived = hashed == size && state.written.end(from: 0) == size
                guard state.frontier < ends.count, !isReceived else { return (size..<size, false) }
                let isBlob = state.done[state.frontier]
                let end = isBlob ? ends[state.frontier] : state.written.end(from: hashed)
                // The thread that writes the last bytes either finds no thread hashing, or is noticed here.
                let most = isBlob || end == size ? Self.step : min(left, Self.step)
                guard hashed < end, most > 0 else {
                    state.hashing = false
                    return nil
                }
                return (hashed..<min(end, hashed + most), state.isSparse && !state.touched[state.frontier])
            }
            // Decided under the lock: another thread may go on by now.
            guard let step else { return .incomplete }
            if step.bytes.isEmpty { return finish() }
            // Reading a hole would fill the page cache with zeros.
            if let error = step.isHole ? hashZeros(step.bytes.count) : readBack(step.bytes) {
                return stopHashing(.failed(error))
            }
            left -= min(left, UInt64(step.bytes.count))
            state.withLock { $0.hashed = step.bytes.upperBound }
        }
    }

    /// Ends hashing, after the last byte.
    private func finish() -> Progress {
        // `hashing` stays set: this hasher is finished.
        do {
            guard try hash.hasher.finish() == digest, !state.withLock(\.isStale) else { return .mismatch }
            return cut() ?? .verified
        } catch { return .failed(FileError(step: "hash", path: staged.name, remark: "\(error)")) }
    }

    /// Cuts off the record of ranges, or bytes that somebody has appended to a leftover.
    private func cut() -> Progress? {
        guard status(descriptor.raw)?.size != size, let code = setLength(descriptor.raw, size) else { return nil }
        return .failed(FileError(step: "shorten", path: staged.name, code: code))
    }

    private func readBack(_ range: Range<UInt64>) -> FileError? {
        withUnsafeTemporaryAllocation(byteCount: 1 << 17, alignment: 64) { buffer in
            var (failure, code) = (FileError?.none, Errno?.none)
            let isWhole = readPieces(of: descriptor.raw, range, through: buffer, failed: { code = $0 }) { piece, _ in
                failure = feed(piece)
                return failure == nil
            }
            if isWhole { return nil }
            let remark = code == nil ? "it shrank" : nil
            return failure ?? FileError(step: "read back", path: staged.name, code: code, remark: remark)
        }
    }

    private func hashZeros(_ count: Int) -> FileError? {
        withUnsafeTemporaryAllocation(byteCount: min(count, 1 << 17), alignment: 64) { buffer in
            buffer.initializeMemory(as: UInt8.self, repeating: 0)
            var left = count
            while left > 0 {
                let piece = UnsafeRawBufferPointer(rebasing: buffer[..<min(left, buffer.count)])
                if let error = feed(piece) { return error }
                left -= piece.count
            }
            return nil
        }
    }

    private func feed(_ bytes: UnsafeRawBufferPointer) -> FileError? {
        do {
            try hash.hasher.update(bytes)
            return nil
        } catch { return FileError(step: "hash", path: staged.name, remark: "OpenSSL failed") }
    }

    /// Reads a blob back and checks its digest.
    package func check(blob: Int, digest: SHA256Digest, hasher: inout SHA256Hasher) -> Bool {
        self.digest(of: range(blob: blob), &hasher) == digest
    }

    /// The digest of the whole file, read back; `nil` on failure.
    package func wholeDigest(hasher: inout SHA256Hasher) -> SHA256Digest? { digest(of: 0..<size, &hasher) }

    /// Whether the file ends at its last byte, after anything behind that was cut off.
    package var endsWhereItMust: Bool { cut() == nil }

    private func digest(of range: Range<UInt64>, _ hasher: inout SHA256Hasher) -> SHA256Digest? {
        withUnsafeTemporaryAllocation(byteCount: 1 << 17, alignment: 64) { buffer in
            sha256(of: descriptor.raw, range, with: &hasher, through: buffer)
        }
    }

    /// Starts over after a mismatch: marks the blobs in `bad` as missing and hashes the whole file anew.
    package func reopen(bad: [Int]) {
        state.withLock { state in
            for blob in bad { state.done[blob] = false }
            state.frontier = 0
            state.hashed = 0
            state.hashing = false
            state.isStale = false
            if ends.count == 1, setLength(descriptor.raw, 0) == nil {
                (state.written, state.isRecorded) = (WrittenRanges(), false)
            }
        }
        do { try hash.hasher.reset() } catch { return }  // A stale hash can only lead to another mismatch.
    }
}

extension UnsafeRawBufferPointer {
    /// Whether every byte is 0: the first is, and each equals the one before it.
    package var isZero: Bool {
        guard count > 0, self[0] == 0 else { return count == 0 }
        return isEqual(Self(rebasing: dropLast()), Self(rebasing: dropFirst()))
    }
}

/// The received ranges of a file that arrives in several ranges at a time. Pure.
struct WrittenRanges: Sendable, Equatable {
    /// Ascending; neither overlapping nor adjacent.
    private(set) var ranges: [Range<UInt64>]
    /// The slot of each range in a ``RangeRecord``.
    private var places: [Int]
    /// Slots that are no longer used.
    private var free: [Int] = []

    /// A change of one slot in the record; an empty range clears it.
    typealias Change = (place: Int, range: Range<UInt64>)

    /// - Parameter ranges: In any order; they may overlap.
    init(_ ranges: [Range<UInt64>] = []) {
        (self.ranges, places) = ([], [])
        for range in ranges { _ = insert(range) }
        places = Array(self.ranges.indices)
        free = []
    }

    /// Adds the bytes of a range.
    ///
    /// - Returns: The changes of the record, in an order in which they may be written.
    mutating func insert(_ range: Range<UInt64>) -> [Change] {
        guard !range.isEmpty else { return [] }
        let first = ranges.indices.partitioningIndex { ranges[$0].upperBound >= range.lowerBound }
        let end = ranges.indices.partitioningIndex { ranges[$0].lowerBound > range.upperBound }
        guard first < end else {
            let place = free.popLast() ?? ranges.count
            ranges.insert(range, at: first)
            places.insert(place, at: first)
            return [(place, range)]
        }
        let low = min(ranges[first].lowerBound, range.lowerBound)
        let high = max(ranges[end - 1].upperBound, range.upperBound)
        let others = places[(first + 1)..<end]
        var changes: [Change] = [(places[first], low..<high)]
        changes += others.map { ($0, 0..<0) }
        free += others
        ranges.replaceSubrange(first..<end, with: [low..<high])
        places.removeSubrange((first + 1)..<end)
        return changes
    }

    /// The contents of the record: every range in its slot.
    var record: [Change] { zip(places, ranges).map { ($0, $1) } }

    /// The end of the **bytes** that follow `offset` without a gap.
    func end(from offset: UInt64) -> UInt64 {
        let next = ranges.indices.partitioningIndex { ranges[$0].upperBound > offset }
        guard next < ranges.count, ranges[next].lowerBound <= offset else { return offset }
        return ranges[next].upperBound
    }

    /// The number of received **bytes**.
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

/// A staged file's own record of its received ranges: behind its last byte, on a page of its own. It is cut off
/// before the file is moved into place.
///
/// A range is recorded after its bytes are written, with one write that lies within a page: after a kill, every
/// recorded range is complete.
struct RangeRecord {
    let descriptor: Int32
    /// The length of the file in **bytes**.
    let size: UInt64

    private static let magic = Array("SARANGE1".utf8)
    private static let headerLength = 16
    private static let entryLength = 16
    /// Most ranges; further ones are fetched again after a kill. A transfer has as many gaps as connections, or a few
    /// more.
    static let capacity = 1023
    private static let page: UInt64 = 4096

    /// The offset of the record; `nil` for a file too long for one.
    private var start: UInt64? {
        let (end, overflow) = size.addingReportingOverflow(Self.page - 1)
        return overflow || end > UInt64(Int64.max) / 2 ? nil : end / Self.page * Self.page
    }

    /// Writes the whole record.
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

    /// Writes changed slots.
    func write(_ changes: [WrittenRanges.Change]) -> Errno? {
        guard let start else { return .fileTooLarge }
        for change in changes where change.place < Self.capacity {
            let place = start + UInt64(Self.headerLength + change.place * Self.entryLength)
            let code = Self.entry(change.range).withUnsafeBytes { writeAll($0, to: descriptor, at: place) }
            if let code { return code }
        }
        return nil
    }

    /// Reads the recorded ranges, as far as the file has data there; `nil` if there is no record.
    ///
    /// After a power cut the record may exist while earlier bytes are lost; the file then has holes in their place.
    func read() -> WrittenRanges? {
        guard let start else { return nil }
        var bytes = [UInt8](repeating: 0, count: Self.headerLength + Self.capacity * Self.entryLength)
        let count = bytes.withUnsafeMutableBytes { readFully(descriptor, into: $0, at: start) }
        let header = Self.magic + Self.littleEndian(size)
        guard count == bytes.count, bytes.starts(with: header) else { return nil }
        var ranges: [Range<UInt64>] = []
        bytes.withUnsafeBytes { bytes in
            for place in stride(from: Self.headerLength, to: bytes.count, by: Self.entryLength) {
                let (low, high): (UInt64, UInt64) = (bytes.integer(at: place), bytes.integer(at: place + 8))
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

import SyncContent
package import SyncManifest
package import SyncModel
package import SyncSystem

/// The status and digest of a path when its content was last verified.
///
/// A file whose ``device``, ``inode``, ``size``, ``modified`` and ``changed`` are unchanged holds the bytes of
/// ``digest``; see ``StatIndex/trusts(_:)`` for the exception.
package struct IndexRecord: Equatable, Sendable {
    /// The part of a file's status that stays the same as long as nobody changes the file.
    package struct Status: Equatable, Sendable {
        package var device: UInt64 = 0
        package var inode: UInt64 = 0
        /// The size in **bytes**.
        package var size: UInt64 = 0
        /// The modification time, **nanoseconds** since 1970.
        package var modified: Int64 = 0
        /// The time of the last status change, **nanoseconds** since 1970.
        package var changed: Int64 = 0
    }

    package var status: Status
    /// The digest of the content; for a link, of the target's text; without meaning for a directory.
    package var digest: SHA256Digest
    package var kind: FileTable.Kind
    /// Whether a pull installed it, rather than found it. Only such files are ever pruned.
    package var installed: Bool
    /// Whether the latest manifest names it.
    package var isNamed = false

    /// Bytes of a record on disk, little endian: five integers, digest, path offset (4) and length (2),
    /// kind (1), flags (1: installed, 2: named).
    static let byteCount = 80

    package init(_ status: Status, digest: SHA256Digest, kind: FileTable.Kind, installed: Bool) {
        self.status = status
        self.digest = digest
        self.kind = kind
        self.installed = installed
    }

    package init(status: FileStatus, digest: SHA256Digest, kind: FileTable.Kind, installed: Bool) {
        self.init(Status(status), digest: digest, kind: kind, installed: installed)
    }

    /// A directory named by the manifest, with its present status.
    ///
    /// - Parameter traits: The traits that the manifest sets. Those that the file system could take are stored in place
    ///   of the size.
    package init(directory status: FileStatus, keeping traits: FileTraits, installed: Bool) {
        self.init(Status(status), digest: .zero, kind: .directory, installed: installed)
        let mode = traits.mode.flatMap { FileTraits(mode: $0).hold(of: status) ? $0 : nil }
        self.status.size =
            (mode.map { UInt64($0) | Self.keepsMode } ?? 0) | (traits.modified == status.modified ? Self.keepsTime : 0)
        isNamed = true
    }

    private static let keepsMode: UInt64 = 1 << 16
    private static let keepsTime: UInt64 = 1 << 17

    /// Whether a directory still has the mode and time of the manifest, whatever its contents.
    private func isKept(_ directory: FileStatus) -> Bool {
        guard directory.kind == .directory else { return false }
        if status.size & Self.keepsMode != 0, status.size & 0o777 != UInt64(directory.permissions & 0o777) {
            return false
        }
        return status.size & Self.keepsTime == 0 || status.modified == directory.modified
    }

    /// Whether a file with this status is the one that was verified. Where modes can be set, setting one changes
    /// ``Status/changed``; where they cannot, the file need not have the mode of its ``kind``.
    package func matches(_ status: FileStatus) -> Bool {
        switch kind {
        case .file, .executable: status.kind == .file && Status(status) == self.status
        case .link: status.kind == .link && Status(status) == self.status
        case .directory: isKept(status)
        }
    }

    /// Whether a directory has the mode that the manifest sets. It has not where modes cannot be set.
    package var keepsMode: Bool { kind == .directory && status.size & Self.keepsMode != 0 }
}

extension IndexRecord {
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard let kind = FileTable.Kind(indexNumber: bytes[78]),
            let digest = SHA256Digest(bytes: UnsafeRawBufferPointer(rebasing: bytes[40..<72]))
        else { return nil }
        status = Status(bytes)
        self.digest = digest
        self.kind = kind
        installed = bytes[79] & 1 != 0
        isNamed = bytes[79] & 2 != 0
    }

    func store(to target: UnsafeMutableRawPointer, pathOffset: UInt32, pathLength: UInt16) {
        status.store(to: target)
        digest.store(to: target + Status.byteCount)
        target.store(pathOffset, at: 72)
        target.store(pathLength, at: 76)
        target.store(kind.indexNumber, at: 78)
        target.store(UInt8((installed ? 1 : 0) | (isNamed ? 2 : 0)), at: 79)
    }
}

extension IndexRecord {
    /// Whether another record is of the same content.
    package func isSame(as other: IndexRecord) -> Bool { digest == other.digest && kind == other.kind }

    /// This record, with the status that another one has of the very same file if that is later: each name that the
    /// file gets or loses in another tree changes its status.
    package func later(_ other: IndexRecord) -> IndexRecord {
        guard isSame(as: other), kind != .directory, other.status.changed > status.changed,
            status.isOfSameFile(as: other.status)
        else { return self }
        var later = self
        later.status = other.status
        return later
    }
}

extension FileTable.Kind {
    /// The kind's number in the index and in its log, where 0 stands for none.
    var indexNumber: UInt8 { rawValue + 1 }

    init?(indexNumber: UInt8) {
        guard indexNumber > 0 else { return nil }
        self.init(rawValue: indexNumber - 1)
    }
}

extension IndexRecord.Status {
    static let byteCount = 40

    /// Writes five integers, in the order of the index and little endian. `target` must have room for ``byteCount``.
    func store(to target: UnsafeMutableRawPointer) {
        target.store(device, at: 0)
        target.store(inode, at: 8)
        target.store(size, at: 16)
        target.store(modified, at: 24)
        target.store(changed, at: 32)
    }

    /// - Parameter bytes: The bytes written by ``store(to:)``.
    init(_ bytes: UnsafeRawBufferPointer) {
        self.init(
            device: bytes.integer(at: 0), inode: bytes.integer(at: 8), size: bytes.integer(at: 16),
            modified: bytes.integer(at: 24), changed: bytes.integer(at: 32))
    }

    /// Whether both are of the same file, with no write to it in between.
    package func isOfSameFile(as other: Self) -> Bool {
        device == other.device && inode == other.inode && size == other.size && modified == other.modified
    }

    package init(_ status: FileStatus) {
        self.init(
            device: status.device, inode: status.inode, size: status.size, modified: status.modified,
            changed: status.changed)
    }
}

/// The verified contents of a destination: path → ``IndexRecord``, in one file `.syncagent/index`, in ``PathOrder``.
///
/// The idea and the racily-clean rule are git's (gitformat-index(5), Documentation/technical/racy-git): a file changed
/// in the same clock tick in which the index was written may have changed unnoticed, so its record does not count.
/// Losing the index costs hashing again, never data.
package struct StatIndex: Sendable {
    /// The manifest that the destination matches, if the last run ended with every file in place.
    package struct Completion: Equatable, Sendable {
        package var manifest: SHA256Digest
        /// First 8 bytes of the SHA-256 of the selected groups' names.
        package var selection: UInt64
        /// Sum of sizes in **bytes**.
        package var totalBytes: UInt64
        /// Files and links the manifest names.
        package var files: UInt64

        package init(manifest: SHA256Digest, selection: UInt64, totalBytes: UInt64, files: UInt64) {
            self.manifest = manifest
            self.selection = selection
            self.totalBytes = totalBytes
            self.files = files
        }
    }

    /// The revision that was pulled last, complete or not.
    package struct Revision: Equatable, Sendable {
        /// The manifest's `revision`.
        package var number: UInt64
        /// First 8 bytes of the manifest's digest.
        package var manifest: UInt64

        package init(number: UInt64, manifest: UInt64) {
            self.number = number
            self.manifest = manifest
        }
    }

    /// The file system's clock when the index was written, **nanoseconds** since 1970.
    package let stamp: Int64
    package let completion: Completion?
    /// `nil` while none has been recorded.
    package let revision: Revision?
    /// The project and session that own the destination.
    package let owner: String
    package let count: Int
    let bytes: [UInt8]
    private let arenaStart: Int

    static let magic: [UInt8] = Array("SAINDEX1".utf8)
    static let headerLength = 128
    /// Most **bytes** of an index, and of a log: enough for five million files with paths of 300. A longer one is an
    /// error, see ``load(from:)``, and none is written.
    package static let limit = 2 << 30

    /// An empty index.
    package static let empty = StatIndex([], Header(), count: 0, arenaStart: 0, owner: 0..<0)

    private init(_ bytes: [UInt8], _ header: Header, count: Int, arenaStart: Int, owner: Range<Int>) {
        (stamp, completion, revision) = (header.stamp, header.completion, header.revision)
        self.owner = String(decoding: bytes[owner], as: UTF8.self)
        (self.count, self.bytes, self.arenaStart) = (count, bytes, arenaStart)
    }

    /// Checks and parses an index file; `nil` if it is damaged or of another version.
    init?(_ bytes: [UInt8]) {
        guard let (header, count, arenaStart, owner) = Self.layout(bytes, fileLength: bytes.count) else { return nil }
        self.init(bytes, header, count: count, arenaStart: arenaStart, owner: owner)
        for index in 0..<count where pathRange(index) == nil || record(index) == nil { return nil }
    }

    /// The places of the parts of an index file.
    private typealias Layout = (header: Header, count: Int, arenaStart: Int, owner: Range<Int>)

    /// The layout of a file of this many **bytes**; `nil` if its header does not fit that.
    private static func layout(_ bytes: [UInt8], fileLength: Int) -> Layout? {
        guard fileLength >= headerLength + 32, bytes.count >= headerLength, bytes.starts(with: magic) else {
            return nil
        }
        let header = bytes.withUnsafeBytes { Header($0) }
        let (recordBytes, tooMany) = header.count.multipliedReportingOverflow(by: UInt64(IndexRecord.byteCount))
        guard !tooMany, let records = Int(exactly: recordBytes), let count = Int(exactly: header.count),
            let arena = Int(exactly: header.arenaLength), let owner = Int(exactly: header.ownerLength),
            records <= fileLength, arena <= fileLength, owner <= fileLength,
            headerLength + records + arena + owner + 32 == fileLength
        else { return nil }
        let arenaStart = headerLength + records
        return (header, count, arenaStart, (arenaStart + arena)..<(arenaStart + arena + owner))
    }

    struct Header {
        var stamp: Int64 = 0
        var count: UInt64 = 0
        var arenaLength: UInt64 = 0
        var ownerLength: UInt64 = 0
        var completion: Completion?
        var revision: Revision?

        init() {}

        init(_ bytes: UnsafeRawBufferPointer) {
            func word(_ offset: Int) -> UInt64 { bytes.integer(at: offset) }
            stamp = bytes.integer(at: 8)
            count = word(16)
            arenaLength = word(24)
            ownerLength = word(32)
            if word(104) == 1 { revision = Revision(number: word(112), manifest: word(120)) }
            guard word(40) == 1, let manifest = SHA256Digest(bytes: UnsafeRawBufferPointer(rebasing: bytes[48..<80]))
            else { return }
            completion = Completion(manifest: manifest, selection: word(80), totalBytes: word(88), files: word(96))
        }

        func store(to target: UnsafeMutableRawBufferPointer) {
            guard let base = target.baseAddress else { return }
            func put(_ value: UInt64, _ offset: Int) { base.store(value, at: offset) }
            target.copyBytes(from: StatIndex.magic)
            base.store(stamp, at: 8)
            put(count, 16)
            put(arenaLength, 24)
            put(ownerLength, 32)
            if let revision {
                put(1, 104)
                put(revision.number, 112)
                put(revision.manifest, 120)
            }
            guard let completion else { return }
            put(1, 40)
            completion.manifest.store(to: base + 48)
            put(completion.selection, 80)
            put(completion.totalBytes, 88)
            put(completion.files, 96)
        }
    }

    /// The record at `index`, 0..<``count``.
    package func record(_ index: Int) -> IndexRecord? {
        let start = Self.headerLength + index * IndexRecord.byteCount
        return bytes.withUnsafeBytes {
            IndexRecord(UnsafeRawBufferPointer(rebasing: $0[start..<(start + IndexRecord.byteCount)]))
        }
    }

    /// Whether the record at `index` is a link's.
    package func isLink(_ index: Int) -> Bool {
        bytes[Self.headerLength + index * IndexRecord.byteCount + 78] == FileTable.Kind.link.indexNumber
    }

    /// Whether the record at `index` is a directory's.
    package func isDirectory(_ index: Int) -> Bool {
        bytes[Self.headerLength + index * IndexRecord.byteCount + 78] == FileTable.Kind.directory.indexNumber
    }

    /// How many directories the latest manifest names.
    package var namedDirectories: Int { (0..<count).count { isDirectory($0) && record($0)?.isNamed == true } }

    /// How many files and links a pull has installed that the latest manifest does not name.
    package var obsoleteFiles: Int {
        (0..<count).count { index in
            let start = Self.headerLength + index * IndexRecord.byteCount
            return bytes[start + 79] & 3 == 1 && bytes[start + 78] != FileTable.Kind.directory.indexNumber
        }
    }

    /// The path at `index`, with a NUL directly behind it.
    package func withPath<R>(_ index: Int, _ body: (UnsafeBufferPointer<UInt8>) -> R) -> R {
        let range = pathRange(index) ?? 0..<0
        return bytes.withUnsafeBufferPointer { body(UnsafeBufferPointer(rebasing: $0[range])) }
    }

    /// The first position whose path does not come before `path`.
    package func lowerBound(_ path: UnsafeBufferPointer<UInt8>) -> Int {
        (0..<count).partitioningIndex { withPath($0) { !PathOrder.precedes($0, path) } }
    }

    /// The position of this path, or `nil`.
    package func position(of path: UnsafeBufferPointer<UInt8>) -> Int? {
        let position = lowerBound(path)
        return position < count && withPath(position) { $0.elementsEqual(path) } ? position : nil
    }

    /// Whether a record may stand for its file: not if the file was last changed in, or after, the clock tick in which
    /// the index was written. A time far ahead was set deliberately, as a manifest may require, and a write to the file
    /// would reset it.
    package func trusts(_ record: IndexRecord) -> Bool { Self.trusts(record, at: stamp) }

    /// The same for a record that was written at a time of the file system's clock.
    package static func trusts(_ record: IndexRecord, at stamp: Int64) -> Bool {
        let (modified, changed) = (record.status.modified, record.status.changed)
        return record.kind == .directory || changed < stamp && (modified < stamp || isAhead(modified, of: stamp))
    }

    /// Whether a time is so far ahead of another, in **nanoseconds**, that a coarse clock cannot explain it.
    static func isAhead(_ time: Int64, of other: Int64) -> Bool {
        time.subtractingReportingOverflow(other).partialValue > 2_000_000_000 && time > other
    }

    /// The range of the path in `bytes`; `nil` if the record points outside the arena.
    private func pathRange(_ index: Int) -> Range<Int>? {
        let start = Self.headerLength + index * IndexRecord.byteCount
        let (offset, length) = bytes.withUnsafeBytes {
            (Int($0.integer(at: start + 72) as UInt32), Int($0.integer(at: start + 76) as UInt16))
        }
        let first = arenaStart + offset
        guard first + length < bytes.count - 32, bytes[first + length] == 0 else { return nil }
        return first..<(first + length)
    }
}

extension StatIndex {
    /// The same index with other records, in memory only.
    ///
    /// - Parameters:
    ///   - isComplete: Whether the completion is taken over.
    ///   - fill: Calls its argument with each record and its path, in ``PathOrder``.
    /// - Returns: `nil` if an index cannot hold one of the records.
    package func replacingRecords(
        isComplete: Bool = false, _ fill: (_ append: (IndexRecord, UnsafeBufferPointer<UInt8>) -> Void) -> Void
    ) -> StatIndex? {
        var draft = IndexDraft(like: self, isComplete: isComplete)
        fill { draft.append($0, $1) }
        return draft.index()
    }

    /// The same index with changed records, in memory only.
    ///
    /// - Parameters:
    ///   - isComplete: Whether the completion is taken over.
    ///   - change: Returns what becomes of each record; `nil` to leave it out.
    /// - Returns: `nil` if an index cannot hold one of the records.
    package func mapRecords(
        isComplete: Bool = false, _ change: (_ position: Int, IndexRecord) -> IndexRecord?
    ) -> StatIndex? {
        replacingRecords(isComplete: isComplete) { append in
            for position in 0..<count {
                guard let changed = record(position).flatMap({ change(position, $0) }) else { continue }
                withPath(position) { append(changed, $0) }
            }
        }
    }

    /// Calls `append` with the records at some positions, and their paths.
    package func pass(
        _ positions: some Sequence<Int>, to append: (IndexRecord, UnsafeBufferPointer<UInt8>) -> Void
    ) {
        for position in positions {
            guard let record = record(position) else { continue }
            withPath(position) { append(record, $0) }
        }
    }

    /// The record at a position, if it may stand for its file.
    package func trusted(_ position: Int) -> IndexRecord? { record(position).flatMap { trusts($0) ? $0 : nil } }

    /// Writes the records unchanged.
    ///
    /// - Parameter other: The revision to record, if not that of the index.
    package func write(to destination: Destination, as other: Revision? = nil, durable: Bool) throws(FileError) {
        var writer = StatIndexWriter(in: destination)
        pass(0..<count) { writer.append($0, path: $1) }
        try writer.write(owner: owner, completion: completion, revision: other ?? revision, durable: durable)
    }

    /// Removes the index; the files are hashed again when they are next wanted.
    package static func remove(from destination: Destination) { removeFile("index", in: destination.state) }

    /// Reads a destination's index, for callers to whom ``empty`` only costs hashing again. ``load(from:)`` reports
    /// read errors.
    package static func read(from destination: Destination) -> StatIndex { (try? load(from: destination)) ?? .empty }

    /// Reads a destination's index. A missing or damaged one, or one that is not this user's, is ``empty``.
    ///
    /// - Throws: ``FileError`` if the index exists and cannot be read, or is longer than ``limit``. It must not
    ///   count as empty then: files that earlier pulls installed would be forgotten, and never removed.
    package static func load(from destination: Destination) throws(FileError) -> StatIndex {
        guard destination.state >= 0 else { return .empty }
        let bytes = try IndexLog.loading("index", of: destination) { file, shown throws(FileError) -> [UInt8]? in
            // Memory is allocated only if the header fits the length.
            let (length, layout) = try examine(file, shown)
            guard layout != nil else { return nil }
            let bytes = try readFile(file, limit: limit, shown: shown)
            return bytes.count == length ? bytes : nil
        }
        guard let bytes else { return .empty }
        let digest = bytes.withUnsafeBytes { all -> SHA256Digest? in
            try? sha256(UnsafeRawBufferPointer(rebasing: all[..<(all.count - 32)]))
        }
        // A lack of memory is no damage.
        guard let digest else { throw IndexLog.unproven("\(destination.statePath)/index") }
        let isIntact = bytes.withUnsafeBytes { all in
            SHA256Digest(bytes: UnsafeRawBufferPointer(rebasing: all[(all.count - 32)...])) == digest
        }
        guard isIntact else { return .empty }
        return StatIndex(bytes) ?? .empty
    }

    /// Reads the records of a destination's index from one path to before another, in memory proportional to those
    /// records alone; see ``load(from:)``.
    ///
    /// - Parameters:
    ///   - first: The first path; `nil` to begin with the first one of the index.
    ///   - end: The path before which the part ends; `nil` for no end.
    package static func load(from destination: Destination, _ first: [UInt8]?, to end: [UInt8]?) throws(FileError)
        -> StatIndex
    {
        guard destination.state >= 0 else { return .empty }
        let bytes = try IndexLog.loading("index", of: destination) { file, shown throws(FileError) in
            try readBytes(file, shown, first, end)
        }
        return bytes.flatMap { StatIndex($0) } ?? .empty
    }

    /// The bytes of an index with a part of the records. The index is checked as a whole; `nil` if it is damaged.
    private static func readBytes(_ file: Int32, _ shown: String, _ first: [UInt8]?, _ last: [UInt8]?) throws(FileError)
        -> [UInt8]?
    {
        let (length, layout) = try examine(file, shown)
        guard let (whole, count, arenaStart, owner) = layout else { return nil }
        func read(_ start: Int, _ count: Int) throws(FileError) -> [UInt8]? { try part(of: file, start, count, shown) }
        let sum = try StatIndexWriter.checksum(of: file, length: UInt64(length - 32), shown: shown)
        guard let tail = try read(length - 32, 32), tail.withUnsafeBytes({ SHA256Digest(bytes: $0) }) == sum else {
            return nil
        }
        /// The place of a record's path among all paths; their end for the position after the last.
        func place(_ position: Int) throws(FileError) -> (start: Int, length: Int)? {
            guard position < count else { return (Int(clamping: whole.arenaLength), 0) }
            let record = try read(headerLength + position * IndexRecord.byteCount, IndexRecord.byteCount)
            return record?.withUnsafeBytes { (Int($0.integer(at: 72) as UInt32), Int($0.integer(at: 76) as UInt16)) }
        }
        func position(_ path: [UInt8]?) throws(FileError) -> Int? {
            guard let path else { return nil }
            var (low, high) = (0, count)
            while low < high {
                let middle = low + (high - low) / 2
                guard let place = try place(middle), let other = try read(arenaStart + place.start, place.length) else {
                    return nil
                }
                if PathOrder.precedes(other, path) { low = middle + 1 } else { high = middle }
            }
            return low
        }
        let start = try position(first) ?? 0
        let end = max(start, try position(last) ?? count)
        guard let from = try place(start)?.start, let to = try place(end)?.start, from <= to,
            var records = try read(
                headerLength + start * IndexRecord.byteCount, (end - start) * IndexRecord.byteCount),
            let paths = try read(arenaStart + from, to - from), let name = try read(owner.lowerBound, owner.count)
        else { return nil }
        let isWhole = records.withUnsafeMutableBytes { records in
            stride(from: 72, to: records.count, by: IndexRecord.byteCount).allSatisfy { place in
                let offset: UInt32 = UnsafeRawBufferPointer(records).integer(at: place)
                guard let moved = UInt32(exactly: Int(offset) - from) else { return false }
                records.baseAddress?.store(moved, at: place)
                return true
            }
        }
        guard isWhole else { return nil }
        var header = whole
        (header.count, header.arenaLength, header.completion) = (UInt64(end - start), UInt64(paths.count), nil)
        var bytes = [UInt8](repeating: 0, count: headerLength)
        bytes.withUnsafeMutableBytes { header.store(to: $0) }
        bytes.reserveCapacity(headerLength + records.count + paths.count + name.count + 32)
        return bytes + records + paths + name + [UInt8](repeating: 0, count: 32)
    }

    /// The revision pulled last according to an index, read from its header alone.
    package static func revision(in destination: Destination) -> Revision? {
        guard destination.state >= 0, let file = try? openFile("index", in: destination.state, trust: .state) else {
            return nil
        }
        return (try? examine(file.raw, ""))?.layout?.header.revision
    }

    /// The owner according to an index, read from its header and its end alone, without a check for damage; `nil` for
    /// none.
    ///
    /// - Throws: ``FileError`` if the index exists and cannot be read, as for ``load(from:)``: it must not count as
    ///   unowned then.
    package static func owner(in destination: Destination) throws(FileError) -> String? {
        guard destination.state >= 0 else { return nil }
        let name = try IndexLog.loading("index", of: destination) { file, shown throws(FileError) -> [UInt8]? in
            guard let owner = try examine(file, shown).layout?.owner, !owner.isEmpty else { return nil }
            return try part(of: file, owner.lowerBound, owner.count, shown)
        }
        return name.map { String(decoding: $0, as: UTF8.self) }
    }

    /// The length of an index file, and its layout if its header fits that length.
    private static func examine(_ file: Int32, _ shown: String) throws(FileError) -> (length: Int, layout: Layout?) {
        guard let size = status(file)?.size else { throw .last("look at", ofOpen: shown) }
        guard let length = Int(exactly: size), length <= limit else { throw IndexLog.tooLong(shown, size) }
        return (length, try part(of: file, 0, headerLength, shown).flatMap { layout($0, fileLength: length) })
    }

    /// A part of a file; `nil` if the file ends before it does.
    private static func part(of file: Int32, _ start: Int, _ count: Int, _ shown: String) throws(FileError) -> [UInt8]?
    {
        var read = 0
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, used in
            read = readFully(file, into: UnsafeMutableRawBufferPointer(buffer), at: UInt64(start))
            used = max(0, read)
        }
        guard read >= 0 else { throw .last("read", ofOpen: shown) }
        return read == count ? bytes : nil
    }
}

/// Takes records in ``PathOrder`` and writes them as `.syncagent/index`, whole or not at all.
///
/// Records and paths are written as they come, so an index of a million files is never in memory.
package struct StatIndexWriter: ~Copyable {
    private let destination: Destination
    private var index: AppendedFile
    private var paths: AppendedFile
    private var count: UInt64 = 0
    private var newest: Int64 = 0

    private static let name = "index.new"

    /// Starts an index; no file exists until something is written.
    package init(in destination: Destination) {
        self.destination = destination
        index = AppendedFile(Self.name, in: destination)
        paths = AppendedFile("index.paths", in: destination, isUnnamed: true)
        index.append(repeatElement(0, count: StatIndex.headerLength))  // Filled in at the end.
    }

    /// Adds a record; the caller keeps ``PathOrder``.
    ///
    /// - Returns: `false` when 4 GiB of paths are used up. The index is then incomplete, and the files that are missing
    ///   in it are hashed again.
    @discardableResult package mutating func append(_ record: IndexRecord, path: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let offset = UInt32(exactly: paths.length), let length = UInt16(exactly: path.count) else { return false }
        withUnsafeTemporaryAllocation(byteCount: IndexRecord.byteCount, alignment: 8) { buffer in
            guard let base = buffer.baseAddress else { return }
            record.store(to: base, pathOffset: offset, pathLength: length)
            index.append(buffer)
        }
        paths.append(path)
        paths.append(CollectionOfOne(0))
        count += 1
        if record.kind != .directory {
            let (modified, changed) = (record.status.modified, record.status.changed)
            newest = max(newest, changed, StatIndex.isAhead(modified, of: changed) ? changed : modified)
        }
        return true
    }

    /// Completes the file under its temporary name and renames it.
    ///
    /// The stamp is the filesystem's own clock: the change time of the temporary file, taken again until it
    /// is later than every record, for at most 50 ms.
    ///
    /// - Parameter durable: Whether to fdatasync(2) before the rename.
    /// - Throws: ``FileError``: the first failure since the index was started.
    package consuming func write(
        owner: String, completion: StatIndex.Completion?, revision: StatIndex.Revision? = nil, durable: Bool
    ) throws(FileError) {
        let shown = "\(destination.statePath)/\(Self.name)"
        var header = StatIndex.Header()
        header.count = count
        header.arenaLength = paths.length
        header.ownerLength = UInt64(owner.utf8.count)
        header.completion = completion
        header.revision = revision
        try index.append(contentsOf: &paths)
        index.append(owner.utf8)
        guard index.length + 32 <= UInt64(StatIndex.limit) else {
            let remark = "it would be longer than \(ByteCount(UInt64(StatIndex.limit))), and would not be read again"
            throw FileError(step: "write", path: shown, code: .fileTooLarge, remark: remark)
        }
        let raw = try index.written()
        header.stamp = Self.stamp(of: raw, after: newest)

        var head = [UInt8](repeating: 0, count: StatIndex.headerLength)
        head.withUnsafeMutableBytes { header.store(to: $0) }
        try FileError.check(head.withUnsafeBytes({ writeAll($0, to: raw, at: 0) }), "write", shown)
        let checksum = try Self.checksum(of: raw, length: index.length, shown: shown)
        withUnsafeTemporaryAllocation(byteCount: 32, alignment: 8) { buffer in
            guard let base = buffer.baseAddress else { return }
            checksum.store(to: base)
            index.append(buffer)
        }
        _ = try index.written()
        if durable, let code = synchronizeData(raw) { throw FileError(step: "sync", path: shown, code: code) }
        try FileError.check(
            renameEntry(Self.name, in: destination.state, to: "index", in: destination.state), "rename", shown)
    }

    fileprivate static func checksum(of descriptor: Int32, length: UInt64, shown: String) throws(FileError)
        -> SHA256Digest
    {
        let sum = withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 64) { buffer -> SHA256Digest? in
            guard var hasher = try? SHA256Hasher() else { return nil }  // No memory: reported below.
            return sha256(of: descriptor, 0..<length, with: &hasher, through: buffer)
        }
        if let sum { return sum }
        throw FileError(step: "read back", path: shown, remark: "it could not be read or hashed")
    }

    private static func stamp(of descriptor: Int32, after newest: Int64) -> Int64 {
        var tries = 0
        while true {
            guard let status = SyncSystem.status(descriptor) else { return 0 }
            if status.changed > newest || tries == 50 { return status.changed }
            // Since Linux 6.13 the next change gets an exact time, because this one has just been read; elsewhere times
            // come from a clock that stands still for some milliseconds.
            if tries > 0 { pauseThread(milliseconds: 1) }
            tries += 1
            _ = touch(descriptor)
        }
    }
}

// Stored integers: little endian, at any address.
extension UnsafeRawBufferPointer {
    func integer<Number: FixedWidthInteger & BitwiseCopyable>(at offset: Int) -> Number {
        Number(littleEndian: loadUnaligned(fromByteOffset: offset, as: Number.self))
    }
}

extension UnsafeMutableRawPointer {
    func store<Number: FixedWidthInteger & BitwiseCopyable>(_ number: Number, at offset: Int) {
        storeBytes(of: number.littleEndian, toByteOffset: offset, as: Number.self)
    }
}

import SyncContent
package import SyncModel
package import SyncSystem

/// The verified contents of a destination: path → ``IndexRecord``, in one file `.syncagent/index`, in ``PathOrder``.
///
/// The idea and the racily-clean rule are git's (gitformat-index(5), Documentation/technical/racy-git): a file touched
/// in the same clock tick in which the index was written may have changed unseen, so its record does not count. Losing
/// the index costs a re-hash, never data.
package struct StatIndex: Sendable {
    /// What the destination was brought to, if the last run ended with every file in place.
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

    /// What was pulled last, complete or not.
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

    /// The filesystem's clock when the index was written, **nanoseconds** since 1970.
    package let stamp: Int64
    package let completion: Completion?
    /// `nil` in the index of an older program.
    package let revision: Revision?
    /// The project and session that own the destination.
    package let owner: String
    package let count: Int
    private let bytes: [UInt8]
    private let arenaStart: Int

    static let magic: [UInt8] = Array("SAINDEX1".utf8)
    static let headerLength = 128
    /// Most **bytes** of an index, and of a log: five million files with paths of 300. A longer one is told, see
    /// ``excess(in:)``, and none is written.
    static let limit = 2 << 30

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

    /// The layout of a file of this many **bytes**; `nil` if its first ones do not fit that.
    static func layout(_ bytes: [UInt8], fileLength: Int) -> (
        header: Header, count: Int, arenaStart: Int, owner: Range<Int>
    )? {
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
            func word(_ offset: Int) -> UInt64 {
                UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
            }
            stamp = Int64(bitPattern: word(8))
            count = word(16)
            arenaLength = word(24)
            ownerLength = word(32)
            if word(104) == 1 { revision = Revision(number: word(112), manifest: word(120)) }
            guard word(40) == 1, let manifest = SHA256Digest(bytes: UnsafeRawBufferPointer(rebasing: bytes[48..<80]))
            else { return }
            completion = Completion(manifest: manifest, selection: word(80), totalBytes: word(88), files: word(96))
        }

        func store(to target: UnsafeMutableRawBufferPointer) {
            func put(_ value: UInt64, _ offset: Int) {
                target.storeBytes(of: value.littleEndian, toByteOffset: offset, as: UInt64.self)
            }
            target.copyBytes(from: StatIndex.magic)
            put(UInt64(bitPattern: stamp), 8)
            put(count, 16)
            put(arenaLength, 24)
            put(ownerLength, 32)
            if let revision {
                put(1, 104)
                put(revision.number, 112)
                put(revision.manifest, 120)
            }
            guard let completion, let base = target.baseAddress else { return }
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
        bytes[Self.headerLength + index * IndexRecord.byteCount + 78] == IndexRecord.Kind.link.rawValue
    }

    /// Whether the record at `index` is a directory's.
    package func isDirectory(_ index: Int) -> Bool {
        bytes[Self.headerLength + index * IndexRecord.byteCount + 78] == IndexRecord.Kind.directory.rawValue
    }

    /// How many directories the latest manifest names.
    package var namedDirectories: Int { (0..<count).count { isDirectory($0) && record($0)?.isNamed == true } }

    /// How many files and links a pull has installed that the latest manifest does not name.
    package var obsoleteFiles: Int {
        (0..<count).count { index in
            let start = Self.headerLength + index * IndexRecord.byteCount
            return bytes[start + 79] & 3 == 1 && bytes[start + 78] != IndexRecord.Kind.directory.rawValue
        }
    }

    /// The path at `index`; a NUL stands directly behind it.
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
    /// the index was written. A time far ahead was set deliberately, as a manifest can ask for, and a write to the file
    /// would take it back.
    package func trusts(_ record: IndexRecord) -> Bool { Self.trusts(record, at: stamp) }

    /// The same of a record that was written at a time of the file system's clock.
    package static func trusts(_ record: IndexRecord, at stamp: Int64) -> Bool {
        record.kind == .directory
            || record.status.changed < stamp
                && (record.status.modified < stamp || isAhead(record.status.modified, of: stamp))
    }

    /// Whether a time is so far ahead of another, in **nanoseconds**, that a coarse clock cannot explain it.
    static func isAhead(_ time: Int64, of other: Int64) -> Bool {
        time.subtractingReportingOverflow(other).partialValue > 2_000_000_000 && time > other
    }

    /// The range of the path in `bytes`; `nil` if the record points outside the arena.
    private func pathRange(_ index: Int) -> Range<Int>? {
        let start = Self.headerLength + index * IndexRecord.byteCount
        let (offset, length) = bytes.withUnsafeBytes {
            (
                Int(UInt32(littleEndian: $0.loadUnaligned(fromByteOffset: start + 72, as: UInt32.self))),
                Int(UInt16(littleEndian: $0.loadUnaligned(fromByteOffset: start + 76, as: UInt16.self)))
            )
        }
        let first = arenaStart + offset
        guard first + length < bytes.count - 32, bytes[first + length] == 0 else { return nil }
        return first..<(first + length)
    }
}

extension StatIndex {
    /// The same index with other records, in memory only.
    ///
    /// - Parameter fill: Passes each record and its path on, in ``PathOrder``.
    /// - Returns: `nil` if one of them is none that an index can hold.
    package func replacingRecords(_ fill: (_ append: (IndexRecord, UnsafeBufferPointer<UInt8>) -> Void) -> Void)
        -> StatIndex?
    {
        var (records, paths) = ([UInt8](), [UInt8]())
        var header = Header()
        (header.stamp, header.revision) = (stamp, revision)
        fill { record, path in
            let offset = UInt32(truncatingIfNeeded: paths.count)
            let length = UInt16(truncatingIfNeeded: path.count)
            withUnsafeTemporaryAllocation(byteCount: IndexRecord.byteCount, alignment: 8) { buffer in
                guard let base = buffer.baseAddress else { return }
                record.store(to: base, pathOffset: offset, pathLength: length)
                records.append(contentsOf: buffer)
            }
            paths.append(contentsOf: path)
            paths.append(0)
            header.count += 1
            // As the index that is written next will have it: later than every record.
            header.stamp = max(header.stamp, record.status.changed.saturatingAdd(1))
        }
        header.arenaLength = UInt64(paths.count)
        header.ownerLength = UInt64(owner.utf8.count)
        var bytes = [UInt8](repeating: 0, count: Self.headerLength)
        bytes.withUnsafeMutableBytes { header.store(to: $0) }
        return StatIndex(bytes + records + paths + owner.utf8 + [UInt8](repeating: 0, count: 32))
    }

    /// Removes the index; the files are hashed again when they are next wanted.
    package static func remove(from destination: Destination) { removeFile("index", in: destination.state) }

    /// Reads a destination's index. One that is missing, damaged or not ours is ``empty``, which only costs a re-hash; so is
    /// one that is longer than ``limit``, see ``excess(in:)``.
    package static func read(from destination: Destination) -> StatIndex {
        guard destination.state >= 0, let bytes = readBytes(destination.state) else { return .empty }
        let isIntact = bytes.withUnsafeBytes { all -> Bool in
            let body = UnsafeRawBufferPointer(rebasing: all[..<(all.count - 32)])
            let sum = SHA256Digest(bytes: UnsafeRawBufferPointer(rebasing: all[(all.count - 32)...]))
            do { return try sha256(body) == sum } catch { return false }
        }
        guard isIntact else { return .empty }
        return StatIndex(bytes) ?? .empty
    }

    /// Why a destination's index or log cannot be read: it is longer than any that is written; `nil` when neither is.
    package static func excess(in destination: Destination) -> FileError? {
        for name in ["index", "index.log"] where destination.state >= 0 {
            guard case .success(let found?) = status(destination.state, name), found.size > UInt64(limit) else {
                continue
            }
            return FileError(
                step: "read", path: "\(destination.path)/\(Destination.stateName)/\(name)", code: .fileTooLarge,
                remark:
                    "it has \(ByteCount(found.size)), more than the \(ByteCount(UInt64(limit))) that are read. Remove it: "
                    + "every file is then hashed once, and --prune no longer knows what earlier pulls installed")
        }
        return nil
    }

    /// The revision pulled last according to an index, from its head alone.
    package static func revision(in destination: Destination) -> Revision? {
        guard destination.state >= 0, let file = try? openFile("index", in: destination.state, trust: .state),
            let size = status(file.raw)?.size, let count = Int(exactly: size)
        else { return nil }
        return layout(head(of: file.raw), fileLength: count)?.header.revision
    }

    private static func head(of file: Int32) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: headerLength) { buffer, used in
            used = max(0, readFully(file, into: UnsafeMutableRawBufferPointer(buffer), at: 0))
        }
    }

    /// Allocates memory for a whole index only if its head fits its length.
    private static func readBytes(_ state: Int32) -> [UInt8]? {
        guard let file = try? openFile("index", in: state, trust: .state), let size = status(file.raw)?.size,
            let count = Int(exactly: size), count <= limit, layout(head(of: file.raw), fileLength: count) != nil
        else { return nil }
        var isComplete = false
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, used in
            let read = readFully(file.raw, into: UnsafeMutableRawBufferPointer(buffer), at: 0)
            isComplete = read == count
            used = max(0, read)
        }
        return isComplete ? bytes : nil
    }
}

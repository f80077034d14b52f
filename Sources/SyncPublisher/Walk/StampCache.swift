import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// The status of files when they were last read, with their digests, so that unchanged files need not be read again:
/// files of the source, and packs.
///
/// A file of records in path order: path length (2 bytes), path, size, inode, mtime, ctime (8 bytes each, times in
/// **nanoseconds**), SHA-256; a length of 0 ends it, followed by the SHA-256 of everything before. Little-endian. A
/// file that is damaged, or of another version, is ignored.
///
/// As in git's index, no record is kept of a file that changed within two seconds of the walk: it could change again
/// without its times showing it ("racy git", gitformat-index(5)).
enum StampCache {
    static let magic = Array("syncagent publish stamps 1\n".utf8)
    /// The start of a cache from a run that publishes private keys. A run that does not publish them ignores such a
    /// cache.
    private static let magicWithKeys = Array("syncagent publish stamps and keys 1\n".utf8)
    /// Times closer than this prove nothing, in **nanoseconds**: FAT keeps even seconds only.
    static let racyTime: Int64 = 2_000_000_000
    /// Most **bytes** read; about ten million files.
    private static let limit: UInt64 = 2 << 30

    /// Calls `body` with each record, in path order.
    ///
    /// - Parameter withKeys: Whether the cache may be from a run that publishes private keys.
    /// - Returns: `false` when there is no such file, or it is not whole; then `body` was not called.
    static func forEach(
        in path: String, withKeys: Bool = false,
        _ body: (UnsafeBufferPointer<UInt8>, SourceTree.FileStamp, SHA256Digest) -> Void
    ) -> Bool {
        guard let file = try? openFile(path, trust: .state), let size = status(file.raw)?.size,
            size >= UInt64(magic.count + 2 + 32), size <= limit, isWhole(file.raw, size)
        else { return false }
        var reader = ByteReader(file.raw, end: size - 32)
        if reader.take(magic.count, { $0.elementsEqual(magic) }) != true {
            reader = ByteReader(file.raw, end: size - 32)
            guard withKeys, reader.take(magicWithKeys.count, { $0.elementsEqual(magicWithKeys) }) == true else {
                return false
            }
        }
        while let length = reader.take(2, { $0.loadUnaligned(as: UInt16.self) }), length > 0 {
            let count = Int(UInt16(littleEndian: length))
            let isRead: Void? = reader.take(count + 64) { record in
                func number(_ index: Int) -> UInt64 {
                    UInt64(littleEndian: record.loadUnaligned(fromByteOffset: count + index * 8, as: UInt64.self))
                }
                let stamp = SourceTree.FileStamp(
                    size: number(0), inode: number(1), modified: Int64(bitPattern: number(2)),
                    changed: Int64(bitPattern: number(3)))
                let digest = SHA256Digest(bytes: UnsafeRawBufferPointer(rebasing: record[(count + 32)...]))
                record.prefix(count).withMemoryRebound(to: UInt8.self) { body($0, stamp, digest ?? .zero) }
            }
            guard isRead != nil else { break }
        }
        return true
    }

    /// Takes a record: path, stamp and digest.
    typealias Take = (UnsafeBufferPointer<UInt8>, SourceTree.FileStamp, SHA256Digest) -> Void

    /// Writes records, under a temporary name that is renamed. `now` is when the status of the files was read, and
    /// `record` passes on the record of an index, or none.
    ///
    /// - Returns: Why the file could not be written; `nil` if it was.
    static func write(_ count: Int, to path: String, withKeys: Bool = false, now: Int64, record: (Int, Take) -> Void)
        -> Errno?
    {
        let temporary = path + ".tmp"
        let file: Descriptor
        do throws(FileError) { file = try createFile(temporary, .writeOnly) } catch { return error.code }
        let head = withKeys ? magicWithKeys : magic
        let code = writeRecords(count, after: head, to: file.raw, now: now, record) ?? renameEntry(temporary, to: path)
        if code != nil { removeFile(temporary) }
        return code
    }

    private static func writeRecords(
        _ count: Int, after head: [UInt8], to file: Int32, now: Int64, _ record: (Int, Take) -> Void
    ) -> Errno? {
        // Without a digest there is no cache.
        guard var hasher = try? SHA256Hasher() else { return .noMemory }
        var buffer = head
        var offset: UInt64 = 0
        func flush() -> Errno? {
            let code = buffer.withUnsafeBytes { bytes -> Errno? in
                guard (try? hasher.update(bytes)) != nil else { return .noMemory }
                return writeAll(bytes, to: file, at: offset)
            }
            offset += UInt64(buffer.count)
            buffer.removeAll(keepingCapacity: true)
            return code
        }
        for index in 0..<count {
            record(index) { path, stamp, digest in
                guard max(stamp.modified, stamp.changed) < now - racyTime else { return }
                withUnsafeBytes(of: UInt16(truncatingIfNeeded: path.count).littleEndian) {
                    buffer.append(contentsOf: $0)
                }
                buffer.append(contentsOf: path)
                for number in [
                    stamp.size, stamp.inode, UInt64(bitPattern: stamp.modified), UInt64(bitPattern: stamp.changed),
                ] { withUnsafeBytes(of: number.littleEndian) { buffer.append(contentsOf: $0) } }
                for byte in 0..<32 { buffer.append(digest[byte: byte]) }
            }
            if buffer.count >= 256 << 10, let code = flush() { return code }
        }
        buffer.append(contentsOf: [0, 0])
        if let code = flush() { return code }
        guard let digest = try? hasher.finish() else { return .noMemory }
        return (0..<32).map { digest[byte: $0] }.withUnsafeBytes { writeAll($0, to: file, at: offset) }
    }

    /// Whether the last 32 bytes are the SHA-256 of the rest.
    private static func isWhole(_ file: Int32, _ size: UInt64) -> Bool {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
        defer { buffer.deallocate() }
        guard var hasher = try? SHA256Hasher(),  // Without one nothing is reused.
            let digest = sha256(of: file, 0..<(size - 32), with: &hasher, through: buffer)
        else { return false }
        let tail = UnsafeMutableRawBufferPointer(rebasing: buffer[..<32])
        return readFully(file, into: tail, at: size - 32) == 32
            && SHA256Digest(bytes: UnsafeRawBufferPointer(tail)) == digest
    }
}

/// Reads a file sequentially through a buffer.
private struct ByteReader: ~Copyable {
    private let file: Int32
    private let end: UInt64
    private var offset: UInt64 = 0
    private let buffer: UnsafeMutableRawBufferPointer
    private var filled = 0..<0

    init(_ file: Int32, end: UInt64) {
        self.file = file
        self.end = end
        // The longest record: a path of 65,535 bytes and 64 more.
        buffer = .allocate(byteCount: 256 << 10, alignment: 16)
    }

    deinit { buffer.deallocate() }

    /// Passes on the next `count` bytes, at most 128 KiB; `nil` if there are fewer.
    mutating func take<R>(_ count: Int, _ body: (UnsafeRawBufferPointer) -> R) -> R? {
        if filled.count < count {
            buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: buffer[filled]))
            filled = 0..<filled.count
            let wanted = min(buffer.count - filled.count, Int(clamping: end - offset))
            let target = UnsafeMutableRawBufferPointer(
                rebasing: buffer[filled.upperBound..<(filled.upperBound + wanted)])
            guard readFully(file, into: target, at: offset) == wanted else { return nil }
            offset += UInt64(wanted)
            filled = 0..<(filled.count + wanted)
        }
        guard filled.count >= count else { return nil }
        let bytes = UnsafeRawBufferPointer(rebasing: buffer[filled.lowerBound..<(filled.lowerBound + count)])
        filled = (filled.lowerBound + count)..<filled.upperBound
        return body(bytes)
    }
}

extension PublishOptions {
    /// The file name of ``stampCache`` for a pair of absolute paths.
    package static func stampCacheName(directory: String, output: String) -> String {
        let pair = try? sha256("\(directory)\0\(output)").hex  // Without SHA-256 nothing can be published.
        return (pair ?? "unknown") + ".stamps"
    }

    /// The file beside ``stampCache`` that remembers packs that were read.
    var packStamps: String? { stampCache.map { $0 + ".packs" } }
}

extension PublishRun {
    /// Marks files that need not be read: they are unchanged since they were last read, and the base has their content,
    /// whole and in usable packs; for a loose set it is enough that the base knows their digests.
    ///
    /// Tree, cache and base are in ``PathOrder``, so one pass over the three is enough.
    func spareUntouched(_ tree: inout SourceTree) {
        guard let files = base?.manifest.files, let cache = options.stampCache, options.trustsStamps else { return }
        let isLoose = choices.isLoose
        var index = 0
        var row = 0
        var found: [(index: Int, row: Int)] = []
        _ = StampCache.forEach(in: cache, withKeys: options.permits.contains(.privateKeys)) { path, stamp, digest in
            while index < tree.count, tree.withPath(index, { PathOrder.precedes($0, path) }) { index += 1 }
            while row < files.count, files.withPath(row, { PathOrder.precedes($0, path) }) { row += 1 }
            guard index < tree.count, tree.entries[index].kind != .link, tree.entries[index].stamp == stamp,
                tree.withPath(index, { PathOrder.compare($0, path) }) == 0, row < files.count, files.kind(row) != .link,
                files.digest(row) == digest, files.size(row) == stamp.size,
                files.withPath(row, { PathOrder.compare($0, path) }) == 0,
                isLoose || stamp.size == 0 || !files.blobs(row).isEmpty,
                isLoose || files.blobs(row).allSatisfy({ catalogue.find(files.digest(of: $0, in: row)) != nil })
            else { return }
            found.append((index, row))
        }
        for (index, row) in found { tree.setBaseRow(Int32(truncatingIfNeeded: row), of: index) }
    }
}

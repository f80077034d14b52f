import SyncContent
import SyncModel
package import SyncSystem

/// Takes records in ``PathOrder`` and writes them as `.syncagent/index`, whole or not at all.
///
/// Records and paths go to disk as they come, so an index of a million files is never in memory.
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
        index.append(repeatElement(0, count: StatIndex.headerLength))  // Known at the end.
    }

    /// Adds a record; the caller keeps ``PathOrder``.
    ///
    /// - Returns: `false` when 4 GiB of paths are used up; the index is then left incomplete, which costs a
    ///   re-hash of what is missing.
    @discardableResult package mutating func append(_ record: IndexRecord, path: UnsafeBufferPointer<UInt8>) -> Bool {
        guard record.kind != .none, let offset = UInt32(exactly: paths.length), let length = UInt16(exactly: path.count)
        else { return false }
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

    /// Writes what is missing to the temporary name and renames it.
    ///
    /// The stamp is the filesystem's own clock: the change time of the temporary file, taken again until it
    /// is later than every record, at most 25 times 2 ms.
    ///
    /// - Parameter durable: Whether to fdatasync(2) before the rename.
    /// - Throws: ``FileError``: the first thing that went wrong since the index was started.
    package consuming func write(
        owner: String, completion: StatIndex.Completion?, revision: StatIndex.Revision? = nil, durable: Bool
    ) throws(FileError) {
        let shown = "\(destination.path)/.syncagent/\(Self.name)"
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
        if let code = head.withUnsafeBytes({ writeAll($0, to: raw, at: 0) }) {
            throw FileError(step: "write", path: shown, code: code)
        }
        let checksum = try Self.checksum(of: raw, length: index.length, shown: shown)
        withUnsafeTemporaryAllocation(byteCount: 32, alignment: 8) { buffer in
            guard let base = buffer.baseAddress else { return }
            checksum.store(to: base)
            index.append(buffer)
        }
        _ = try index.written()
        if durable, let code = synchronizeData(raw) { throw FileError(step: "sync", path: shown, code: code) }
        if let code = renameEntry(Self.name, in: destination.state, to: "index", in: destination.state) {
            throw FileError(step: "rename", path: shown, code: code)
        }
    }

    private static func checksum(of descriptor: Int32, length: UInt64, shown: String) throws(FileError) -> SHA256Digest
    {
        let sum = withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 64) { buffer -> SHA256Digest? in
            guard var hasher = try? SHA256Hasher() else { return nil }  // No memory: told below.
            return sha256(of: descriptor, 0..<length, with: &hasher, through: buffer)
        }
        if let sum { return sum }
        throw FileError(step: "read back", path: shown, remark: "it could not be read or hashed")
    }

    private static func stamp(of descriptor: Int32, after newest: Int64) -> Int64 {
        var tries = 0
        while true {
            guard let status = SyncSystem.status(descriptor) else { return 0 }
            if status.changed > newest || tries == 25 { return status.changed }
            tries += 1
            pauseThread(milliseconds: 2)
            _ = touch(descriptor)
        }
    }
}

import CPosix
import SyncDigest
import SyncModel

/// Collects records in ``PathOrder`` and writes them as `.syncagent/index`, whole or not at all.
package struct StatIndexWriter: ~Copyable {
    private var records: [UInt8] = []
    private var arena: [UInt8] = []
    private var count: UInt64 = 0
    private var newest: Int64 = 0

    /// Makes room for `count` records.
    package init(expecting count: Int) {
        records.reserveCapacity(count * IndexRecord.byteCount)
        arena.reserveCapacity(count * 40)
    }

    /// Adds a record; the caller keeps ``PathOrder``.
    ///
    /// - Returns: `false` when 4 GiB of paths are used up; the index is then left incomplete, which costs a
    ///   re-hash of what is missing.
    @discardableResult
    package mutating func append(_ record: IndexRecord, path: UnsafeBufferPointer<UInt8>) -> Bool {
        guard record.kind != .none, let offset = UInt32(exactly: arena.count),
            let length = UInt16(exactly: path.count)
        else { return false }
        withUnsafeTemporaryAllocation(byteCount: IndexRecord.byteCount, alignment: 8) { buffer in
            guard let base = buffer.baseAddress else { return }
            record.store(to: base, pathOffset: offset, pathLength: length)
            records.append(contentsOf: buffer)
        }
        arena.append(contentsOf: path)
        arena.append(0)
        count += 1
        newest = max(newest, record.modified, record.changed)
        return true
    }

    /// Writes the index to a temporary name and renames it.
    ///
    /// The stamp is the filesystem's own clock: the change time of the temporary file, taken again until it
    /// is later than every record, at most 25 times 2 ms.
    ///
    /// - Parameter durable: Whether to fdatasync(2) before the rename.
    package consuming func write(
        to destination: Destination,
        owner: String,
        completion: StatIndex.Completion?,
        durable: Bool
    ) throws(FileError) {
        let name = "index.new"
        let shown = "\(destination.path)/.syncagent/\(name)"
        let raw = sa_openat(destination.state, name, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, 0o600)
        guard raw >= 0 else { throw .last("create", shown) }
        let file = Descriptor(owning: raw)
        var header = StatIndex.Header()
        header.count = count
        header.arenaLength = UInt64(arena.count)
        header.ownerLength = UInt64(owner.utf8.count)
        header.completion = completion
        header.stamp = Self.stamp(of: file.raw, after: newest)

        var head = [UInt8](repeating: 0, count: StatIndex.headerLength)
        head.withUnsafeMutableBytes { header.store(to: $0) }
        var offset: UInt64 = 0
        var code: Int32 = 0
        var checksum: SHA256Digest?
        do {
            var hasher = try SHA256Hasher()
            for part in [head, records, arena, Array(owner.utf8)] where code == 0 {
                try part.withUnsafeBytes {
                    try hasher.update($0)
                    code = writeAll(file.raw, $0, at: offset)
                }
                offset += UInt64(part.count)
            }
            checksum = try hasher.finish()
        } catch {
            throw FileError(step: "write", path: shown, code: 0, remark: "\(error)")
        }
        if code == 0, let checksum {
            withUnsafeTemporaryAllocation(byteCount: 32, alignment: 8) { buffer in
                guard let base = buffer.baseAddress else { return }
                checksum.store(to: base)
                code = writeAll(file.raw, UnsafeRawBufferPointer(buffer), at: offset)
            }
        }
        guard code == 0 else { throw FileError(step: "write", path: shown, code: code) }
        if durable, fdatasync(file.raw) != 0 { throw .last("sync", shown) }
        guard sa_rename(destination.state, name, destination.state, "index") == 0 else {
            throw .last("rename", shown)
        }
    }

    private static func stamp(of descriptor: Int32, after newest: Int64) -> Int64 {
        var tries = 0
        while true {
            guard let status = SyncFiles.status(descriptor) else { return 0 }
            if status.changed > newest || tries == 25 { return status.changed }
            tries += 1
            usleep(2_000)
            _ = futimens(descriptor, nil)
        }
    }
}

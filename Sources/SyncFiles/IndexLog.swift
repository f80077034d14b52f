import SyncContent
package import SyncManifest
package import SyncModel
package import SyncSystem

/// The files that a run has installed since the index was written: `.syncagent/index.log`, one frame per commit batch.
///
/// After a crash it tells which files pulls have installed (so that a later `--prune` may remove them) and which
/// digests to expect. A file is recorded before it is moved into place; in that state, its content is hashed again
/// after a crash. Once it is durable, it is recorded again with its status, which stands for its content as in the
/// index. A torn last frame is dropped.
///
/// Frame: `SAIL`, payload length (4 bytes, little endian), payload, first 8 bytes of the payload's SHA-256. Entry in a
/// payload: kind (1; plus 128 if a status follows), path length (2), digest (32), status (five integers of 8), path.
package final class IndexLog {
    private let file: Descriptor
    private var end: UInt64
    package static let name = "index.log"
    private static let magic: [UInt8] = Array("SAIL".utf8)

    /// Opens the log for appending. A log that others could change is replaced by a new one.
    package init(_ destination: Destination) throws(FileError) {
        let shown = "\(destination.statePath)/\(Self.name)"
        do throws(FileError) {
            file = try openFile(Self.name, in: destination.state, [.readWrite, .create], trust: .ownState)
        } catch {
            file = try createFile(Self.name, in: destination.state, shown: shown)
            end = 0
            return
        }
        // A torn frame is overwritten: nothing after it could ever be read.
        end = try Self.readFrames(destination).end
        _ = setLength(file.raw, end)
    }

    /// One installed file or link.
    package struct Entry: Sendable {
        package var path: [UInt8]
        package var digest: SHA256Digest
        package var kind: FileTable.Kind
        /// The status, which holds as long as nobody changes the file; `nil` before the file is durable in its place.
        package var status: IndexRecord.Status?

        package init(path: [UInt8], digest: SHA256Digest, kind: FileTable.Kind, status: IndexRecord.Status? = nil) {
            self.path = path
            self.digest = digest
            self.kind = kind
            self.status = status
        }
    }

    private static let statusFollows: UInt8 = 0x80

    /// The time of the file system's own clock, **nanoseconds** since 1970; `nil` if it cannot be read.
    package func fileTime() -> Int64? { touch(file.raw) == nil ? SyncSystem.status(file.raw)?.changed : nil }

    /// Appends one frame with one write.
    package func append(_ entries: [Entry]) throws(FileError) {
        guard !entries.isEmpty else { return }
        let head = Self.magic.count + 4
        let longest = 3 + SHA256Digest.byteCount + IndexRecord.Status.byteCount
        var frame: [UInt8] = []
        frame.reserveCapacity(entries.reduce(head + 8) { $0 + longest + $1.path.count })
        frame += Self.magic + [0, 0, 0, 0]
        withUnsafeTemporaryAllocation(byteCount: longest, alignment: 8) { room in
            guard let start = room.baseAddress else { return }
            for entry in entries {
                room[0] = entry.kind.indexNumber | (entry.status == nil ? 0 : Self.statusFollows)
                room[1] = UInt8(truncatingIfNeeded: entry.path.count)
                room[2] = UInt8(truncatingIfNeeded: entry.path.count >> 8)
                entry.digest.store(to: start + 3)
                entry.status?.store(to: start + 3 + SHA256Digest.byteCount)
                let length = entry.status == nil ? 3 + SHA256Digest.byteCount : longest
                frame.append(contentsOf: UnsafeRawBufferPointer(start: start, count: length))
                frame.append(contentsOf: entry.path)
            }
        }
        let length = frame.count - head
        for place in 0..<4 { frame[Self.magic.count + place] = UInt8(truncatingIfNeeded: length >> (place * 8)) }
        frame.append(contentsOf: Self.checksum(frame[head...]))
        try FileError.check(
            frame.withUnsafeBytes({ writeAll($0, to: file.raw, at: end) }), "write", ".syncagent/\(Self.name)")
        end += UInt64(frame.count)
    }

    /// Removes the log, after an index that covers it is in place.
    package static func remove(_ destination: Destination) {
        guard let code = removeFile(name, in: destination.state), code != .noSuchFileOrDirectory else { return }
        // Tried twice: if the log stays, a complete tree is built once more.
        removeFile(name, in: destination.state)
    }

    /// Reads every whole frame, for callers to whom a missing log only costs hashing again.
    package static func read(_ destination: Destination) -> [Entry] { (try? load(destination)) ?? [] }

    /// Reads every whole frame. A log that is missing, or not this user's, has none.
    ///
    /// - Throws: ``FileError`` if the log exists and cannot be read, or is longer than any that is written.
    package static func load(_ destination: Destination) throws(FileError) -> [Entry] {
        try readFrames(destination).entries
    }

    /// Checks that the log can be read, for callers that do not use its entries.
    ///
    /// - Throws: ``FileError`` if the log is longer than any that is written.
    package static func requireReadable(_ destination: Destination) throws(FileError) {
        guard destination.state >= 0, case .success(let found?) = status(destination.state, name),
            found.size > UInt64(StatIndex.limit)
        else { return }
        throw tooLong("\(destination.statePath)/\(name)", found.size)
    }

    /// Reads a trusted file of `.syncagent`.
    ///
    /// - Returns: `nil` if there is none that belongs to this user.
    static func loading(
        _ name: String, of destination: Destination,
        _ read: (_ file: Int32, _ shown: String) throws(FileError) -> [UInt8]?
    ) throws(FileError) -> [UInt8]? {
        let shown = "\(destination.statePath)/\(name)"
        func load() throws(FileError) -> [UInt8]? {
            let file = try openFile(name, in: destination.state, trust: .state, shown: shown)
            return try read(file.raw, shown)
        }
        do throws(FileError) { return try load() } catch {
            if error.isRefusal { return nil }
            guard error.isMissing else { throw error }
        }
        // A file counts as missing only if a second attempt does not find it either: its contents would be lost for
        // good.
        do throws(FileError) { return try load() } catch {
            if error.isMissing || error.isRefusal { return nil }
            throw error
        }
    }

    static func tooLong(_ shown: String, _ size: UInt64) -> FileError {
        FileError(
            step: "read", path: shown, code: .fileTooLarge,
            remark: "it has \(ByteCount(size)), more than the \(ByteCount(UInt64(StatIndex.limit))) that are read. "
                + "Remove it: every file is then hashed once, and --prune no longer knows what earlier pulls installed")
    }

    /// The error for a file whose digest cannot be computed. The only possible reason is a lack of memory.
    static func unproven(_ shown: String) -> FileError { FileError(step: "read", path: shown, code: .noMemory) }

    /// Reads every whole frame; `end` is the end of the last one.
    private static func readFrames(_ destination: Destination) throws(FileError) -> (entries: [Entry], end: UInt64) {
        guard destination.state >= 0 else { return ([], 0) }
        let bytes = try loading(name, of: destination) { file, shown throws(FileError) in
            guard let size = status(file)?.size else { throw .last("look at", ofOpen: shown) }
            guard size <= UInt64(StatIndex.limit) else { throw tooLong(shown, size) }
            return try readFile(file, limit: StatIndex.limit, shown: shown)
        }
        guard let bytes else { return ([], 0) }
        var entries: [Entry] = []
        var rest = bytes[...]
        while rest.count > 16, rest.starts(with: magic) {
            let start = rest.startIndex
            let length = (0..<4).reduce(0) { $0 | Int(rest[start + 4 + $1]) << ($1 * 8) }
            guard rest.count >= 16 + length else { break }
            let payload = rest[(start + 8)..<(start + 8 + length)]
            let sum = rest[(start + 8 + length)..<(start + 16 + length)]
            let proof = checksum(payload)
            guard !proof.isEmpty else { throw unproven("\(destination.statePath)/\(name)") }
            guard sum.elementsEqual(proof) else { break }
            guard decode(payload, into: &entries) else { break }
            rest = rest[(start + 16 + length)...]
        }
        return (entries, UInt64(rest.startIndex))
    }

    private static func decode(_ payload: ArraySlice<UInt8>, into entries: inout [Entry]) -> Bool {
        var rest = payload
        while !rest.isEmpty {
            let start = rest.startIndex
            guard rest.count > 35, let kind = FileTable.Kind(indexNumber: rest[start] & ~statusFollows) else {
                return false
            }
            let hasStatus = rest[start] & statusFollows != 0
            let head = hasStatus ? 35 + IndexRecord.Status.byteCount : 35
            let length = Int(rest[start + 1]) | Int(rest[start + 2]) << 8
            guard rest.count >= head + length,
                let digest = rest[(start + 3)..<(start + 35)].withUnsafeBytes({ SHA256Digest(bytes: $0) })
            else { return false }
            let status =
                hasStatus ? rest[(start + 35)..<(start + head)].withUnsafeBytes { IndexRecord.Status($0) } : nil
            let path = Array(rest[(start + head)..<(start + head + length)])
            entries.append(Entry(path: path, digest: digest, kind: kind, status: status))
            rest = rest[(start + head + length)...]
        }
        return true
    }

    private static func checksum(_ payload: ArraySlice<UInt8>) -> [UInt8] {
        payload.withUnsafeBytes { bytes in
            do {
                let digest = try sha256(bytes)
                return (0..<8).map { digest[byte: $0] }
            } catch {
                return []  // A frame without a checksum is never read back.
            }
        }
    }
}

import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Opens local files that may hold chunks, and checks them. For one thread.
struct ChunkSearch: ~Copyable {
    let destination: Destination
    let isStopped: @Sendable () -> Bool
    private let opener: ChunkOpener
    private let reader: ChunkReader
    var index: StatIndex { opener.index }

    /// A file that was opened.
    struct Opened {
        let file: ChunkFile
        let size: UInt64
        /// Whether it is unchanged since it was verified.
        let isTrusted: Bool
    }

    /// `nil` if out of memory: nothing is then reused.
    init?(
        _ index: StatIndex, _ destination: Destination, _ staging: Staging?, isStopped: @escaping @Sendable () -> Bool
    ) {
        guard let reader = try? ChunkReader() else { return nil }
        self.destination = destination
        self.isStopped = isStopped
        self.reader = reader
        opener = ChunkOpener(index: index, staging: staging, directories: Directories(destination))
    }

    /// The local file for each content in the map, by the first 8 bytes of its digest.
    func mappedFiles(_ parts: [Staging.File]) -> [UInt64: ChunkSources.LocalFile] {
        guard let isMapped = ChunkMapReader.files(destination) else { return [:] }
        var found: [UInt64: ChunkSources.LocalFile] = [:]
        for part in parts where isMapped.contains(part.name.digest.firstWord) {
            found[part.name.digest.firstWord] = .staged(part)
        }
        for entry in 0..<index.count {
            guard let record = index.record(entry), record.kind != .link else { continue }
            let key = record.digest.firstWord
            if isMapped.contains(key), found[key] == nil || !isIndexed(found[key]) { found[key] = .indexed(entry) }
        }
        return found
    }

    /// Files at the places of wanted large files whose chunks are in no map.
    func filesWithoutMap(_ files: FileTable, _ wanted: [Int]) -> [ChunkSources.LocalFile] {
        let isMapped = ChunkMapReader.files(destination) ?? []
        var found: [ChunkSources.LocalFile] = []
        for row in wanted where files.blobs(row).count > 1 {
            files.withPath(row) { path in
                let entry = index.position(of: path)
                guard let file = opener.directories.openFile(path),
                    let status = withExtendedLifetime(file, { SyncSystem.status(file.raw) }), status.kind == .file,
                    status.size > 0
                else { return }
                if let record = entry.flatMap(index.record), isMapped.contains(record.digest.firstWord),
                    record.matches(status), index.trusts(record)
                {
                    return
                }
                found.append(entry.map { .indexed($0) } ?? .named(Array(path)))
            }
        }
        return found
    }

    /// Calls `body` with a descriptor of an open file.
    func withDescriptor(_ opened: Opened, _ body: (Int32) -> Void) { _ = opened.file.withDescriptor(opener, body) }

    private func isIndexed(_ local: ChunkSources.LocalFile?) -> Bool {
        if case .indexed = local { true } else { false }
    }

    /// Opens a file.
    ///
    /// - Parameter number: How many are open already.
    func open(_ local: ChunkSources.LocalFile, number: Int) -> Opened? {
        guard let descriptor = opener.open(local),
            let status = withExtendedLifetime(descriptor, { SyncSystem.status(descriptor.raw) }), status.kind == .file
        else { return nil }
        var isTrusted = false
        if case .indexed(let entry) = local, let record = index.record(entry) {
            isTrusted = record.matches(status) && index.trusts(record)
        }
        let file = ChunkFile(local, keeping: number < ChunkFile.mostKept ? descriptor : nil)
        return Opened(file: file, size: status.size, isTrusted: isTrusted)
    }

    /// Whether the file is long enough to have a chunk at an offset.
    func holds(_ opened: Opened, _ chunk: ChunkMapReader.Record, at offset: UInt64) -> Bool {
        let (end, overflow) = offset.addingReportingOverflow(UInt64(chunk.number))
        return !overflow && end <= opened.size && chunk.number > 0
    }

    /// Whether the file's bytes at an offset are this chunk.
    func verify(_ opened: Opened, _ chunk: ChunkMapReader.Record, at offset: UInt64) -> Bool {
        opened.file.withDescriptor(opener) { raw in
            reader.digest(of: raw, offset..<(offset + UInt64(chunk.number))) == chunk.digest
        } ?? false
    }
}

extension ChunkMapReader {
    /// The files in a destination's map, by the first 8 bytes of their digests; `nil` without a map.
    static func files(_ destination: Destination) -> Set<UInt64>? {
        guard var map = ChunkMapReader(destination) else { return nil }
        var files: Set<UInt64> = []
        while let record = map.nextFile() { files.insert(record.digest.firstWord) }
        return files
    }
}

/// Reads and hashes parts of files. For one thread.
final class ChunkReader {
    private(set) var hasher: SHA256Hasher
    let buffer: UnsafeMutableRawBufferPointer

    init() throws(DigestError) {
        hasher = try SHA256Hasher()
        buffer = .allocate(byteCount: 1 << 20, alignment: 4096)
    }

    deinit { buffer.deallocate() }

    /// Gives the hasher to `body`.
    func withHasher<R>(_ body: (inout SHA256Hasher) -> R) -> R { body(&hasher) }

    /// The SHA-256 of a part of a file; `nil` if it could not be read to its end.
    func digest(of file: Int32, _ range: Range<UInt64>) -> SHA256Digest? {
        sha256(of: file, range, with: &hasher, through: buffer)
    }
}

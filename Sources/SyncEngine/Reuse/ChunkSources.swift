import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// The places of wanted chunks in local files: older versions of the same files, other files, and what an interrupted
/// run left of files no longer wanted.
///
/// ``ChunkMap`` records the chunks of local files. A file that is unchanged since it was verified is trusted until its
/// bytes are read; in any other file each wanted chunk is hashed first. Either way the bytes are hashed again on their
/// way into the new file.
struct ChunkSources: Sendable {
    /// Where a chunk's bytes begin: an index into ``files``, and the first **byte** in that file.
    typealias Location = (file: UInt32, offset: UInt64)

    /// A local file that holds chunks.
    enum LocalFile: Sendable {
        /// Position in the index.
        case indexed(Int)
        /// A path of the manifest, in a destination filled by other means.
        case named([UInt8])
        case staged(Staging.File)
    }

    private(set) var files: [ChunkFile] = []
    let manifest: Manifest
    private var places: [UInt64: Location] = [:]
    private static let nowhere = UInt32.max

    /// Nothing found yet.
    init(manifest: Manifest) { self.manifest = manifest }

    /// The place where a wanted chunk may be. Digests are compared by their first 8 bytes.
    func place(of digest: SHA256Digest) -> Location? {
        places[digest.firstWord].flatMap { $0.file == Self.nowhere ? nil : $0 }
    }

    /// Whether a blob may be available locally. Only files of several blobs are searched for.
    func has(row: Int, blob: Int) -> Bool {
        guard !files.isEmpty else { return false }
        let blobs = manifest.files.blobs(row)
        guard blobs.count > 1 else { return false }
        return place(of: manifest.files.digest(of: blobs[blobs.startIndex + blob], in: row)) != nil
    }

    /// Finds the chunks of `wanted` rows.
    ///
    /// - Parameters:
    ///   - isHere: Blobs that an earlier run has put in place.
    ///   - parts: Leftovers of files that are no longer wanted.
    ///   - isStopped: Polled often: local files may be long.
    /// - Complexity: O(records of the map + entries of the index); 32 **bytes** of memory or so a wanted chunk.
    static func find(
        _ manifest: Manifest, wanted: [Int], isHere: (_ row: Int, _ blob: Int) -> Bool, index: StatIndex,
        destination: Destination, staging: Staging?, parts: [Staging.File], isStopped: () -> Bool
    ) -> ChunkSources {
        var sources = ChunkSources(manifest: manifest)
        guard let reader = try? ChunkReader(index, destination, staging) else { return sources }
        let unknown = manifest.chunking == nil ? [] : reader.filesWithoutMap(manifest.files, wanted)
        guard index.count > 0 || !parts.isEmpty || !unknown.isEmpty else { return sources }
        for row in wanted {
            let blobs = manifest.files.blobs(row)
            guard blobs.count > 1 else { continue }
            for (position, blob) in blobs.enumerated() where !isHere(row, position) {
                let key = manifest.files.digest(of: blob, in: row).firstWord
                sources.places[key] = (nowhere, 0)
            }
        }
        guard !sources.places.isEmpty else { return sources }
        sources.readMap(into: reader.mappedFiles(parts), with: reader, isStopped)
        sources.cut(unknown, with: reader, isStopped)
        return sources
    }

    /// Reads the map and picks the wanted chunks.
    private mutating func readMap(
        into mapped: [UInt64: LocalFile], with reader: ChunkReader, _ isStopped: () -> Bool
    ) {
        guard var map = ChunkMap(reader.destination) else { return addWholeFiles(with: reader) }
        while let record = map.nextFile() {
            guard let local = mapped[record.digest.firstWord] else { continue }
            var opened: ChunkFile?
            var offset: UInt64 = 0
            while !isStopped(), let chunk = map.nextChunk() {
                defer { offset &+= UInt64(chunk.number) }
                guard places[chunk.digest.firstWord]?.file == Self.nowhere else { continue }
                if opened == nil { opened = reader.open(local, number: files.count) }
                guard let found = opened, reader.holds(found, chunk, at: offset) else { break }
                if !found.isTrusted, !reader.verify(found, chunk, at: offset) { continue }
                take(chunk.digest, from: found, at: offset)
            }
        }
        addWholeFiles(with: reader)
    }

    /// Cuts files that are in no map, as the publisher would cut them.
    private mutating func cut(_ unknown: [LocalFile], with reader: ChunkReader, _ isStopped: () -> Bool) {
        guard !unknown.isEmpty, var cutter = OldFileCutter(manifest.chunking) else { return }
        for local in unknown where !isStopped() {
            guard let found = reader.open(local, number: files.count) else { continue }
            _ = found.withDescriptor(reader) { raw in
                cutter.cut(raw, size: found.size) { chunk, offset in
                    if places[chunk.digest.firstWord]?.file == Self.nowhere {
                        take(chunk.digest, from: found, at: offset)
                    }
                    return !isStopped()
                }
            }
        }
    }

    /// Finds whole files that are a chunk of a wanted one.
    private mutating func addWholeFiles(with reader: ChunkReader) {
        for entry in 0..<reader.index.count {
            guard let record = reader.index.record(entry), record.kind != .link,
                places[record.digest.firstWord]?.file == Self.nowhere, let length = UInt32(exactly: record.status.size),
                let found = reader.open(.indexed(entry), number: files.count), found.isTrusted
            else { continue }
            let chunk = ChunkMap.Record(digest: record.digest, number: length)
            if reader.holds(found, chunk, at: 0) { take(record.digest, from: found, at: 0) }
        }
    }

    private mutating func take(_ digest: SHA256Digest, from file: ChunkFile, at offset: UInt64) {
        if files.last !== file { files.append(file) }
        places[digest.firstWord] = (UInt32(files.count - 1), offset)
    }

    /// Records the chunks of files: those of this manifest, and those of files in the index. Called before anything is
    /// replaced, so that a killed run leaves a map of both.
    static func remember(_ manifest: Manifest, index: StatIndex, in destination: Destination) {
        let rows = manifest.files.indices.filter { manifest.files.blobs($0).count > 1 }
        var known = Set(rows.map { manifest.files.digest($0).firstWord })
        var old: Set<UInt64> = []
        if let inMap = ChunkMap.files(destination) {
            for entry in 0..<index.count {
                guard let key = index.record(entry)?.digest.firstWord, inMap.contains(key) else { continue }
                if !known.contains(key) { old.insert(key) }
            }
        } else if rows.isEmpty {
            return
        }
        var writer = ChunkMapWriter(destination)
        for row in rows where known.remove(manifest.files.digest(row).firstWord) != nil {
            append(row, of: manifest.files, to: &writer)
        }
        if !old.isEmpty, var map = ChunkMap(destination) {
            while let record = map.nextFile() {
                guard old.remove(record.digest.firstWord) != nil else { continue }
                writer.append(record)
                while let chunk = map.nextChunk() { writer.append(chunk) }
            }
        }
        writer.finish()
    }

    private static func append(_ row: Int, of files: FileTable, to writer: inout ChunkMapWriter) {
        let blobs = files.blobs(row)
        guard let count = UInt32(exactly: blobs.count), blobs.allSatisfy({ $0.rawLength <= UInt32.max }) else { return }
        writer.append(ChunkMap.Record(digest: files.digest(row), number: count))
        for blob in blobs {
            let digest = files.digest(of: blob, in: row)
            writer.append(ChunkMap.Record(digest: digest, number: UInt32(blob.rawLength)))
        }
    }
}

/// A local file with wanted chunks. The first ones stay open, so that they can be read after the run has replaced them.
final class ChunkFile: Sendable {
    private let local: ChunkSources.LocalFile
    private let kept: SharedDescriptor?
    /// **Bytes**.
    let size: UInt64
    /// Whether it is unchanged since it was verified.
    let isTrusted: Bool

    /// The most files kept open.
    static let mostKept = 128

    init(_ local: ChunkSources.LocalFile, keeping kept: SharedDescriptor?, size: UInt64, isTrusted: Bool) {
        (self.local, self.kept, self.size, self.isTrusted) = (local, kept, size, isTrusted)
    }

    /// Calls `body` with a descriptor of the file; `nil` if it cannot be opened.
    func withDescriptor<R>(_ reader: ChunkReader, _ body: (Int32) -> R) -> R? {
        withDescriptor(opening: reader.open, body)
    }

    /// - Parameter open: Opens the file if it does not stay open.
    func withDescriptor<R>(opening open: (ChunkSources.LocalFile) -> SharedDescriptor?, _ body: (Int32) -> R) -> R? {
        guard let opened = kept ?? open(local) else { return nil }
        return withExtendedLifetime(opened) { body(opened.raw) }
    }
}

extension Directories {
    /// Opens a file for reading, never through a link; `nil` on failure. A NUL follows the path.
    func openFile(_ path: UnsafeBufferPointer<UInt8>) -> SharedDescriptor? {
        // On a failure, its chunks are fetched.
        (try? withLeaf(of: path, openShared)) ?? nil
    }

    /// Opens a file for reading, never through a link; `nil` on failure.
    func open(_ local: ChunkSources.LocalFile, _ index: StatIndex, _ staging: Staging?) -> SharedDescriptor? {
        switch local {
        case .indexed(let entry): index.withPath(entry, openFile)
        case .named(let path): (try? withLeaf(of: path, openShared)) ?? nil
        case .staged(let file): SharedDescriptor(staging?.open(file))
        }
    }
}

private func openShared(_ directory: Int32, _ leaf: UnsafePointer<CChar>) -> SharedDescriptor? {
    SharedDescriptor(openToRead(directory, leaf))
}

/// Opens local files that may hold wanted bytes, reads parts of them and hashes these. For one thread.
final class ChunkReader {
    let index: StatIndex
    let destination: Destination
    private let staging: Staging?
    let directories: Directories
    var hasher: SHA256Hasher
    let buffer: UnsafeMutableRawBufferPointer

    /// - Parameter bufferSize: **Bytes** read at once.
    /// - Throws: ``DigestError`` if out of memory: nothing is then reused.
    init(
        _ index: StatIndex, _ destination: Destination, _ staging: Staging?, bufferSize: Int = 1 << 20
    ) throws(DigestError) {
        hasher = try SHA256Hasher()
        (self.index, self.destination, self.staging) = (index, destination, staging)
        directories = Directories(destination)
        buffer = .allocate(byteCount: bufferSize, alignment: 4096)
    }

    deinit { buffer.deallocate() }

    /// Opens a file for reading, never through a link; `nil` on failure.
    func open(_ local: ChunkSources.LocalFile) -> SharedDescriptor? { directories.open(local, index, staging) }

    /// The SHA-256 of a part of a file; `nil` if it could not be read to its end.
    func digest(of file: Int32, _ range: Range<UInt64>) -> SHA256Digest? {
        sha256(of: file, range, with: &hasher, through: buffer)
    }

    /// The local file for each content in the map, by the first 8 bytes of its digest.
    func mappedFiles(_ parts: [Staging.File]) -> [UInt64: ChunkSources.LocalFile] {
        guard let isMapped = ChunkMap.files(destination) else { return [:] }
        var found: [UInt64: ChunkSources.LocalFile] = [:]
        for part in parts where isMapped.contains(part.digest.firstWord) {
            found[part.digest.firstWord] = .staged(part)
        }
        for entry in 0..<index.count {
            guard let record = index.record(entry), record.kind != .link else { continue }
            let key = record.digest.firstWord
            if case .indexed = found[key] { continue }
            if isMapped.contains(key) { found[key] = .indexed(entry) }
        }
        return found
    }

    /// Files at the places of wanted large files whose chunks are in no map.
    func filesWithoutMap(_ files: FileTable, _ wanted: [Int]) -> [ChunkSources.LocalFile] {
        let isMapped = ChunkMap.files(destination) ?? []
        var found: [ChunkSources.LocalFile] = []
        for row in wanted where files.blobs(row).count > 1 {
            files.withPath(row) { path in
                let entry = index.position(of: path)
                guard let file = directories.openFile(path),
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

    /// Opens a file.
    ///
    /// - Parameter number: The number of files that are open already.
    func open(_ local: ChunkSources.LocalFile, number: Int) -> ChunkFile? {
        guard let descriptor = open(local),
            let status = withExtendedLifetime(descriptor, { SyncSystem.status(descriptor.raw) }), status.kind == .file
        else { return nil }
        var isTrusted = false
        if case .indexed(let entry) = local, let record = index.record(entry) {
            isTrusted = record.matches(status) && index.trusts(record)
        }
        return ChunkFile(
            local, keeping: number < ChunkFile.mostKept ? descriptor : nil, size: status.size, isTrusted: isTrusted)
    }

    /// Whether the file is long enough to have a chunk at an offset.
    func holds(_ file: ChunkFile, _ chunk: ChunkMap.Record, at offset: UInt64) -> Bool {
        let (end, overflow) = offset.addingReportingOverflow(UInt64(chunk.number))
        return !overflow && end <= file.size && chunk.number > 0
    }

    /// Whether the file's bytes at an offset are this chunk.
    func verify(_ file: ChunkFile, _ chunk: ChunkMap.Record, at offset: UInt64) -> Bool {
        file.withDescriptor(self) { raw in
            digest(of: raw, offset..<(offset + UInt64(chunk.number))) == chunk.digest
        } ?? false
    }
}

extension ChunkMap {
    /// The files in a destination's map, by the first 8 bytes of their digests; `nil` without a map.
    static func files(_ destination: Destination) -> Set<UInt64>? {
        guard var map = ChunkMap(destination) else { return nil }
        var files: Set<UInt64> = []
        while let record = map.nextFile() { files.insert(record.digest.firstWord) }
        return files
    }
}

/// Cuts a file with unknown chunks as the publisher would, and reports the chunks.
///
/// For destinations filled by other means, or whose ``ChunkMap`` was lost. Every chunk is hashed.
struct OldFileCutter: ~Copyable {
    private let cutter: ChunkCutter
    private var hasher: SHA256Hasher
    private let buffer: UnsafeMutableRawBufferPointer

    /// Chunks longer than this many **bytes** are not searched for.
    private static let longestChunk = 4 << 20

    /// `nil` if chunks are too long, or out of memory.
    init?(_ parameters: ChunkParameters?) {
        guard let parameters, parameters.isValid, parameters.maximum <= Self.longestChunk,
            let hasher = try? SHA256Hasher()
        else { return nil }
        self.hasher = hasher
        cutter = ChunkCutter(parameters)
        buffer = .allocate(byteCount: max(1 << 20, 2 * parameters.maximum), alignment: 4096)
    }

    deinit { buffer.deallocate() }

    /// Reads a file from its start.
    ///
    /// - Parameter take: Receives each chunk and its offset; `false` ends the reading.
    mutating func cut(_ file: Int32, size: UInt64, _ take: (ChunkMap.Record, UInt64) -> Bool) {
        var offset: UInt64 = 0
        var held = 0..<0
        while offset < size {
            if held.count < cutter.parameters.maximum, offset + UInt64(held.count) < size {
                buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: buffer[held]))
                let rest = size - offset - UInt64(held.count)
                let end = held.count + Int(min(UInt64(buffer.count - held.count), rest))
                let free = UnsafeMutableRawBufferPointer(rebasing: buffer[held.count..<end])
                guard readFully(file, into: free, at: offset + UInt64(held.count)) == free.count else { return }
                held = 0..<end
            }
            let length = cutter.firstChunk(of: UnsafeRawBufferPointer(rebasing: buffer[held]))
            guard length > 0, let number = UInt32(exactly: length),
                let digest = try? hasher.digest(  // No memory: what was found stays.
                    of: UnsafeRawBufferPointer(rebasing: buffer[held.prefix(length)])),
                take(ChunkMap.Record(digest: digest, number: number), offset)
            else { return }
            held = (held.lowerBound + length)..<held.upperBound
            offset += UInt64(length)
        }
    }
}

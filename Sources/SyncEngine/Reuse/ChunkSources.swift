import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Where wanted chunks are in local files: older versions of the same files, other files, and what an interrupted run
/// left of files no longer wanted.
///
/// ``ChunkMap`` records the chunks of local files. A file that is unchanged since it was verified is trusted until its
/// bytes are read; in any other file each wanted chunk is hashed first. Either way the bytes are hashed again on their
/// way into the new file.
struct ChunkSources: Sendable {
    /// Where a chunk's bytes begin.
    struct Location: Sendable, Equatable {
        /// Index into ``ChunkSources/files``.
        var file: UInt32
        /// First **byte** in that file.
        var offset: UInt64
    }

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

    /// Where a wanted chunk may be. Digests are compared by their first 8 bytes.
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

    /// Looks for the chunks of `wanted` rows.
    ///
    /// - Parameters:
    ///   - isHere: Blobs that an earlier run has put in place.
    ///   - parts: Left-overs of files that are not wanted any more.
    ///   - isStopped: Asked often: files here may be long.
    /// - Complexity: O(records of the map + entries of the index); 32 **bytes** of memory or so a wanted chunk.
    static func find(
        _ manifest: Manifest, wanted: [Int], isHere: (_ row: Int, _ blob: Int) -> Bool, index: StatIndex,
        destination: Destination, staging: Staging?, parts: [Staging.File], isStopped: @escaping @Sendable () -> Bool
    ) -> ChunkSources {
        var sources = ChunkSources(manifest: manifest)
        let search = ChunkSearch(index, destination, staging, isStopped: isStopped)
        guard let search else { return sources }
        let unknown = manifest.chunking == nil ? [] : search.filesWithoutMap(manifest.files, wanted)
        guard index.count > 0 || !parts.isEmpty || !unknown.isEmpty else { return sources }
        for row in wanted {
            let blobs = manifest.files.blobs(row)
            guard blobs.count > 1 else { continue }
            for (position, blob) in blobs.enumerated() where !isHere(row, position) {
                let key = manifest.files.digest(of: blob, in: row).firstWord
                sources.places[key] = Location(file: nowhere, offset: 0)
            }
        }
        guard !sources.places.isEmpty else { return sources }
        sources.look(into: search.mappedFiles(parts), with: search)
        sources.cut(unknown, with: search)
        return sources
    }

    /// Reads the map and picks what is wanted.
    private mutating func look(into mapped: [UInt64: LocalFile], with search: borrowing ChunkSearch) {
        guard var map = ChunkMapReader(search.destination) else { return lookAtWholeFiles(with: search) }
        while let record = map.nextFile() {
            guard let local = mapped[record.digest.firstWord] else { continue }
            var opened: ChunkSearch.Opened?
            var offset: UInt64 = 0
            while !search.isStopped(), let chunk = map.nextChunk() {
                defer { offset &+= UInt64(chunk.number) }
                guard places[chunk.digest.firstWord]?.file == Self.nowhere else { continue }
                if opened == nil { opened = search.open(local, number: files.count) }
                guard let found = opened, search.holds(found, chunk, at: offset) else { break }
                if !found.isTrusted, !search.verify(found, chunk, at: offset) { continue }
                take(chunk.digest, from: found, at: offset)
            }
        }
        lookAtWholeFiles(with: search)
    }

    /// Files that are in no map are cut as the publisher would cut them.
    private mutating func cut(_ unknown: [LocalFile], with search: borrowing ChunkSearch) {
        guard !unknown.isEmpty, var cutter = OldFileCutter(manifest.chunking) else { return }
        for local in unknown where !search.isStopped() {
            guard let found = search.open(local, number: files.count) else { continue }
            search.withDescriptor(found) { raw in
                cutter.cut(raw, size: found.size) { chunk, offset in
                    if places[chunk.digest.firstWord]?.file == Self.nowhere {
                        take(chunk.digest, from: found, at: offset)
                    }
                    return !search.isStopped()
                }
            }
        }
    }

    /// Whole files that are a chunk of a wanted one.
    private mutating func lookAtWholeFiles(with search: borrowing ChunkSearch) {
        for entry in 0..<search.index.count {
            guard let record = search.index.record(entry), record.kind != .link,
                places[record.digest.firstWord]?.file == Self.nowhere, let length = UInt32(exactly: record.status.size),
                let found = search.open(.indexed(entry), number: files.count), found.isTrusted
            else { continue }
            let chunk = ChunkMapReader.Record(digest: record.digest, number: length)
            if search.holds(found, chunk, at: 0) { take(record.digest, from: found, at: 0) }
        }
    }

    private mutating func take(_ digest: SHA256Digest, from found: ChunkSearch.Opened, at offset: UInt64) {
        if files.last !== found.file { files.append(found.file) }
        places[digest.firstWord] = Location(file: UInt32(files.count - 1), offset: offset)
    }

    /// Records the chunks of files: those of this manifest, and those of files in the index. Called before anything is
    /// replaced, so that a killed run leaves a map of both.
    static func remember(_ manifest: Manifest, index: StatIndex, in destination: Destination) {
        let rows = manifest.files.indices.filter { manifest.files.blobs($0).count > 1 }
        var known = Set(rows.map { manifest.files.digest($0).firstWord })
        var old: Set<UInt64> = []
        if let inMap = ChunkMapReader.files(destination) {
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
        if !old.isEmpty, var map = ChunkMapReader(destination) {
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
        writer.append(ChunkMapReader.Record(digest: files.digest(row), number: count))
        for blob in blobs {
            let digest = files.digest(of: blob, in: row)
            writer.append(ChunkMapReader.Record(digest: digest, number: UInt32(blob.rawLength)))
        }
    }
}

/// A local file with wanted chunks. The first ones stay open, so that they can be read after the run has replaced them.
final class ChunkFile: Sendable {
    private let local: ChunkSources.LocalFile
    private let kept: SharedDescriptor?

    /// Most files kept open.
    static let mostKept = 128

    init(_ local: ChunkSources.LocalFile, keeping kept: SharedDescriptor?) { (self.local, self.kept) = (local, kept) }

    /// Calls `body` with a descriptor of the file; `nil` if it cannot be opened.
    func withDescriptor<R>(_ opener: ChunkOpener, _ body: (Int32) -> R) -> R? {
        guard let opened = kept ?? opener.open(local) else { return nil }
        return withExtendedLifetime(opened) { body(opened.raw) }
    }
}

/// Opens files that hold chunks. For one thread.
struct ChunkOpener {
    let index: StatIndex
    let staging: Staging?
    let directories: Directories

    /// Opens a file for reading, never through a link; `nil` on failure.
    func open(_ local: ChunkSources.LocalFile) -> SharedDescriptor? {
        switch local {
        case .indexed(let entry): index.withPath(entry, directories.openFile)
        case .named(let path): (try? directories.withLeaf(of: path, openShared)) ?? nil
        case .staged(let file): SharedDescriptor(staging?.open(file))
        }
    }
}

extension Directories {
    /// Opens a file for reading, never through a link; `nil` on failure. A NUL follows the path.
    func openFile(_ path: UnsafeBufferPointer<UInt8>) -> SharedDescriptor? {
        // Gone: fetched.
        (try? withLeaf(of: path, openShared)) ?? nil
    }
}

private func openShared(_ directory: Int32, _ leaf: UnsafePointer<CChar>) -> SharedDescriptor? {
    SharedDescriptor(openToRead(directory, leaf))
}

import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

extension Survey {
    /// Writes the index after a run: its records of the manifest's rows, and the records of the old index for the rest.
    ///
    /// - Parameters:
    ///   - named: Rows of ``Manifest/directories``, ascending, with their records.
    ///   - isTree: Whether every file counts as installed, whoever put it there: it is in a tree that pulls have made.
    func writeIndex(
        naming named: [(row: Int, record: IndexRecord)], isTree: Bool, owner: String,
        completion: StatIndex.Completion?, durable: Bool
    ) throws(FileError) {
        let manifest = pruning.manifest
        var writer = Writer(
            writer: StatIndexWriter(in: pruning.destination), table: manifest.directories, directories: named[...])
        var walk = IndexWalk(index: index)
        for row in manifest.files.indices {
            manifest.files.withPath(row) { path in
                let position = walk.find(path) { copy($0, to: &writer) }
                let record = inventory.records[row] ?? position.flatMap { gone.contains($0) ? nil : index.record($0) }
                if var record {
                    record.isNamed = true
                    record.installed = record.installed || isTree
                    writer.append(record, path: path)
                }
            }
        }
        for position in walk.rest { copy(position, to: &writer) }
        writer.appendDirectories(before: nil)
        let revision = StatIndex.Revision(number: manifest.revision, manifest: manifest.digest.firstWord)
        try writer.writer.write(owner: owner, completion: completion, revision: revision, durable: durable)
    }

    private func copy(_ position: Int, to writer: inout Writer) {
        guard !gone.contains(position), var record = index.record(position) else { return }
        record.isNamed = false
        index.withPath(position) { writer.append(record, path: $0) }
    }

    /// Inserts directories at their places among the other records.
    private struct Writer: ~Copyable {
        var writer: StatIndexWriter
        let table: FileTable
        var directories: ArraySlice<(row: Int, record: IndexRecord)>

        mutating func append(_ record: IndexRecord, path: UnsafeBufferPointer<UInt8>) {
            // The new record replaces the old one.
            guard !appendDirectories(before: path) else { return }
            writer.append(record, path: path)
        }

        /// - Parameter path: Directories before this path are appended, and one at the path; `nil` for all.
        /// - Returns: Whether the path is that of a directory.
        @discardableResult mutating func appendDirectories(before path: UnsafeBufferPointer<UInt8>?) -> Bool {
            while let (row, record) = directories.first {
                let order = path.map { path in table.withPath(row) { PathOrder.compare($0, path) } } ?? -1
                guard order <= 0 else { return false }
                directories.removeFirst()
                table.withPath(row) { _ = writer.append(record, path: $0) }
                if order == 0 { return true }
            }
            return false
        }
    }
}

/// Walks through an index along with paths that come in its order, ``PathOrder``.
struct IndexWalk {
    let index: StatIndex
    /// The next position.
    var position = 0

    /// Advances to a path.
    ///
    /// - Parameter passing: Called with each position before it: paths that were not looked for.
    /// - Returns: The path's position; `nil` if it is not in the index.
    mutating func find(_ path: UnsafeBufferPointer<UInt8>, passing: (_ position: Int) -> Void = { _ in }) -> Int? {
        while position < index.count {
            let order = index.withPath(position) { PathOrder.compare($0, path) }
            guard order <= 0 else { return nil }
            position += 1
            if order == 0 { return position - 1 }
            passing(position - 1)
        }
        return nil
    }

    /// The positions that are left.
    var rest: Range<Int> { position..<index.count }
}

extension StatIndex {
    /// The completion, if it is for this manifest and selection, every file is unchanged, and there is nothing to
    /// prune: then there is nothing to do.
    func completion(of manifest: SHA256Digest, _ recipe: RunRecipe, in destination: Destination, threads: Int)
        -> Completion?
    {
        guard let completion, completion.manifest == manifest, completion.selection == recipe.selectionMark,
            !recipe.prune || hasNothingToPrune(completion, in: destination),
            isCurrent(in: destination, threads: threads)
        else { return nil }
        return completion
    }

    /// Whether the manifest names every file that is installed, those of a killed run included.
    private func hasNothingToPrune(_ completion: Completion, in destination: Destination) -> Bool {
        guard UInt64(clamping: count - namedDirectories) == completion.files else { return false }
        return (try? IndexLog.load(destination))?.isEmpty == true
    }

    /// Whether every file is unchanged: one lstat(2) per file, nothing is opened.
    func isCurrent(in destination: Destination, threads: Int) -> Bool {
        let slices = Array(0..<count).evenSlices(count < 2048 ? 1 : threads)
        let hasChanged = StopFlag()
        _ = concurrently(slices.count, name: "stat") { number in
            let directories = Directories(destination)
            for position in slices[number] {
                if position % 256 == 0, hasChanged.isSet { return }
                guard isCurrent(position, directories) else { return hasChanged.set() }
            }
        }
        return !hasChanged.isSet
    }

    private func isCurrent(_ position: Int, _ directories: Directories) -> Bool {
        guard let record = record(position), trusts(record) else { return false }
        // A directory of an earlier manifest is not checked: it may have been removed.
        if record.kind == .directory, !record.isNamed { return true }
        // An entry whose status cannot be read has changed.
        return withPath(position, directories.status(of:)).map(record.matches) ?? false
    }
}

/// The record of each row of a manifest, if any: **4 bytes** a row, and 48 more for each record that the index does not
/// have. A row with a record has the content that the manifest says.
struct RecordColumn: Sendable {
    /// By row: 0 for none, an entry's position plus 1, or ``isOld`` and the position in the index.
    private var numbers: [UInt32]
    private var entries: [Entry] = []
    private let files: FileTable
    private let old: StatIndex

    private static let isOld: UInt32 = 1 << 31

    /// A record without the digest, which the manifest has.
    private struct Entry: Sendable {
        var status: IndexRecord.Status
        var kind: FileTable.Kind
        var installed: Bool
    }

    /// Creates a column in which no row has a record.
    ///
    /// - Parameter old: The index that rows may refer to.
    init(_ files: FileTable = FileTable(), old: StatIndex = .empty) {
        numbers = Array(repeating: 0, count: files.count)
        self.files = files
        self.old = old
    }

    subscript(row: Int) -> IndexRecord? {
        let number = numbers[row]
        if number & Self.isOld != 0 { return old.record(Int(number & ~Self.isOld)) }
        guard number != 0, let digest = files.contentDigest(row) else { return nil }
        let entry = entries[Int(number) - 1]
        return IndexRecord(entry.status, digest: digest, kind: entry.kind, installed: entry.installed)
    }

    /// Whether there is a record for a row.
    func has(_ row: Int) -> Bool { numbers[row] != 0 }

    /// The number of rows with a record.
    var count: Int { numbers.count { $0 != 0 } }

    /// The rows that have a record, ascending.
    var rows: some Sequence<Int> { numbers.indices.lazy.filter { numbers[$0] != 0 } }

    /// Adds records of files that match the manifest; later ones replace earlier ones.
    mutating func take(_ more: [(row: Int, record: IndexRecord)]) {
        for (row, record) in more {
            entries.append(Entry(status: record.status, kind: record.kind, installed: record.installed))
            // A manifest has at most five million rows, each with a record or two.
            numbers[row] = UInt32(clamping: entries.count)
        }
    }

    /// Adds all records of another column of the same manifest; those of the first one are shared, not copied.
    mutating func take(_ other: RecordColumn) {
        let first = UInt32(clamping: entries.count)
        if entries.isEmpty { entries = other.entries } else { entries += other.entries }
        for row in other.rows where other.numbers[row] & Self.isOld == 0 { numbers[row] = first + other.numbers[row] }
    }

    /// Adds rows whose record in the index is still true.
    ///
    /// - Parameter more: Rows, and positions in the index, which are at most 2³¹ - 1.
    mutating func take(old more: [(row: Int, position: Int)]) {
        for (row, position) in more { numbers[row] = UInt32(clamping: position) | Self.isOld }
    }
}

extension FileTable {
    /// The digest for a row in the index: of the content or, for a link, of its target. `nil` if out of memory: the row
    /// then has no record.
    func contentDigest(_ row: Int) -> SHA256Digest? {
        guard let target = linkTarget(row), kind(row) == .link else { return digest(row) }
        return try? sha256(target)
    }
}

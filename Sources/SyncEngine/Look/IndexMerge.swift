import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// The index after a run: the run's records for the manifest's rows, and the old index's for the rest.
struct IndexMerge {
    let manifest: Manifest
    /// What the run knows.
    let records: RecordColumn
    let old: StatIndex
    /// Positions of the old index whose files are gone.
    let gone: Set<Int>
    /// Rows of ``Manifest/directories``, ascending, with their records.
    let directories: [(row: Int, record: IndexRecord)]

    func write(to destination: Destination, owner: String, completion: StatIndex.Completion?, durable: Bool)
        throws(FileError)
    {
        var writer = Writer(
            writer: StatIndexWriter(in: destination), table: manifest.directories, directories: directories[...])
        var walk = IndexWalk(index: old)
        for row in manifest.files.indices {
            manifest.files.withPath(row) { path in
                let position = walk.find(path) { copy($0, to: &writer) }
                let record = records[row] ?? position.flatMap { gone.contains($0) ? nil : old.record($0) }
                if var record {
                    record.isNamed = true
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
        guard !gone.contains(position), var record = old.record(position) else { return }
        record.isNamed = false
        old.withPath(position) { writer.append(record, path: $0) }
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

        /// - Parameter path: Directories before it are appended, and one of this very path; all where there is none.
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

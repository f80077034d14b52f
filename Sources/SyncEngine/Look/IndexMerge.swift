import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// The index after a run: what the run knows of the manifest's rows, and what the old index knew of the rest.
struct IndexMerge {
    let manifest: Manifest
    /// What the run knows.
    let records: RecordColumn
    let old: StatIndex
    /// Positions of the old index that are gone.
    let gone: Set<Int>

    func write(
        to destination: Destination,
        owner: String,
        completion: StatIndex.Completion?,
        durable: Bool
    ) throws(FileError) {
        var writer = StatIndexWriter(in: destination)
        var position = 0
        for row in manifest.files.indices {
            manifest.files.withPath(row) { path in
                position = copyOld(from: position, before: path, to: &writer)
                let hasOld =
                    position < old.count && old.withPath(position) { PathOrder.compare($0, path) } == 0
                if let record = records[row] {
                    writer.append(record, path: path)
                } else if hasOld, !gone.contains(position), let record = old.record(position) {
                    writer.append(record, path: path)
                }
                if hasOld { position += 1 }
            }
        }
        while position < old.count {
            copy(position, to: &writer)
            position += 1
        }
        let revision = StatIndex.Revision(number: manifest.revision, manifest: manifest.digest.firstWord)
        try writer.write(owner: owner, completion: completion, revision: revision, durable: durable)
    }

    private func copyOld(
        from start: Int,
        before path: UnsafeBufferPointer<UInt8>,
        to writer: inout StatIndexWriter
    ) -> Int {
        var position = start
        while position < old.count, old.withPath(position, { PathOrder.compare($0, path) }) < 0 {
            copy(position, to: &writer)
            position += 1
        }
        return position
    }

    private func copy(_ position: Int, to writer: inout StatIndexWriter) {
        guard !gone.contains(position), let record = old.record(position) else { return }
        old.withPath(position) { _ = writer.append(record, path: $0) }
    }
}

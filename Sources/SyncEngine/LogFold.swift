import SyncFiles
import SyncManifest
import SyncModel

/// Takes what a killed run of another manifest has put in place into the index: it is ours, so that it can be pruned
/// or removed later (F112). What the manifest at hand names is looked at by the ``InventoryScan`` anyway.
struct LogFold {
    let destination: Destination
    let index: StatIndex
    let isDurable: Bool

    /// - Parameters:
    ///   - log: What the killed run logged.
    ///   - manifest: The manifest at hand; `nil` for none.
    /// - Returns: The index to go on with, on the disk already: the next kill must not forget it.
    /// - Throws: ``FileError``.
    func run(_ log: [IndexLog.Entry], beside manifest: Manifest?) throws(FileError) -> StatIndex {
        var latest: [[UInt8]: IndexLog.Entry] = [:]
        for entry in log where !isNamed(entry.path, manifest) { latest[entry.path] = entry }
        guard !latest.isEmpty else { return index }
        let entries = latest.values.sorted { first, second in
            first.path.withUnsafeBufferPointer { one in
                second.path.withUnsafeBufferPointer { PathOrder.compare(one, $0) < 0 }
            }
        }
        // No memory: the next run does it.
        guard var reader = try? PlaceReader(destination) else { return index }
        var writer = StatIndexWriter(expecting: index.count + entries.count)
        var position = 0
        for entry in entries {
            let record = reader.verify(entry)
            entry.path.withUnsafeBufferPointer { path in
                copy(&position, to: &writer) { PathOrder.compare($0, path) < 0 }
                guard let record else { return }
                writer.append(record, path: path)
                // What was known of the path is of another time.
                let isSame =
                    position < index.count && index.withPath(position) { PathOrder.compare($0, path) } == 0
                if isSame { position += 1 }
            }
        }
        copy(&position, to: &writer) { _ in true }
        try writer.write(to: destination, owner: index.owner, completion: nil, durable: isDurable)
        return StatIndex.read(from: destination)
    }

    private func isNamed(_ path: [UInt8], _ manifest: Manifest?) -> Bool {
        guard let manifest else { return false }
        return path.withUnsafeBufferPointer { path in
            let row = manifest.files.lowerBound(path)
            return row < manifest.files.count
                && manifest.files.withPath(row) { PathOrder.compare($0, path) } == 0
        }
    }

    private func copy(
        _ position: inout Int,
        to writer: inout StatIndexWriter,
        while isBefore: (UnsafeBufferPointer<UInt8>) -> Bool
    ) {
        while position < index.count, index.withPath(position, isBefore) {
            if let record = index.record(position) {
                index.withPath(position) { _ = writer.append(record, path: $0) }
            }
            position += 1
        }
    }
}

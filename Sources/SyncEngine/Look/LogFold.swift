import SyncFiles
import SyncModel
import SyncSystem
import SyncUnpack

/// Adds what a killed run put in place to the index: it is ours whatever the manifest says, so that it can be pruned or
/// removed later (F112). Every file is hashed again first.
struct LogFold {
    let destination: Destination
    let index: StatIndex
    let threads: Int
    let isDurable: Bool
    let isStopped: @Sendable () -> Bool

    /// - Parameter log: What the killed run logged. It stays until the caller has done with it; twice is once.
    /// - Returns: The index to go on with, on the disk already: the next kill must not forget it.
    ///   `nil` when it was stopped: nothing has changed.
    /// - Throws: ``FileError``.
    func run(_ log: [IndexLog.Entry]) throws(FileError) -> StatIndex? {
        guard !log.isEmpty else { return index }
        var latest: [[UInt8]: IndexLog.Entry] = [:]
        for entry in log { latest[entry.path] = entry }
        let entries = latest.values.sorted { first, second in
            first.path.withUnsafeBufferPointer { one in
                second.path.withUnsafeBufferPointer { PathOrder.compare(one, $0) < 0 }
            }
        }
        let records = verified(entries)
        if isStopped() { return nil }
        var writer = StatIndexWriter(in: destination)
        var position = 0
        for (entry, record) in zip(entries, records) {
            entry.path.withUnsafeBufferPointer { path in
                copy(&position, to: &writer) { PathOrder.compare($0, path) < 0 }
                guard let record else { return }
                writer.append(record, path: path)
                // The old record is out of date.
                let isSame =
                    position < index.count && index.withPath(position) { PathOrder.compare($0, path) } == 0
                if isSame { position += 1 }
            }
        }
        copy(&position, to: &writer) { _ in true }
        try writer.write(owner: index.owner, completion: nil, revision: index.revision, durable: isDurable)
        return StatIndex.read(from: destination)
    }

    /// A record for each entry that is still in place, else `nil`.
    private func verified(_ entries: [IndexLog.Entry]) -> [IndexRecord?] {
        let found = concurrently(
            over: entries.count,
            threads: threads,
            name: "fold",
            isStopped: isStopped,
            by: { _ in try PlaceReader(destination, isStopped: isStopped) }
        ) { $0.verify(entries[$1]) }
        var records = [IndexRecord?](repeating: nil, count: entries.count)
        for (position, record) in found { records[position] = record }
        return records
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

extension PullRun {
    /// The index including what a killed run put in place.
    func fold(
        _ log: [IndexLog.Entry],
        into index: StatIndex
    ) throws(EngineError) -> StatIndex {
        let fold = LogFold(
            destination: destination,
            index: index,
            threads: environment.workers,
            isDurable: environment.isDurable,
            isStopped: { [stop = environment.stop] in stop.isStopped }
        )
        do throws(FileError) {
            if let folded = try fold.run(log) { return folded }
        } catch {
            throw EngineError(.ioError, "\(error)", cause: error.cause)
        }
        throw EngineError(.interrupted, "stopped while checking what an earlier run left")
    }
}

import SyncFiles
import SyncModel
import SyncSystem

extension EngineEnvironment {
    /// Adds what a killed run put in place to an index: it is ours whatever the manifest says, so that it can be pruned or
    /// removed later (F112). Every file is hashed again first.
    ///
    /// - Parameter log: What the killed run logged. It stays until the caller has done with it; twice is once.
    /// - Returns: The index to go on with, on the disk already: the next kill must not forget it.
    ///   `nil` when it was stopped: nothing has changed.
    /// - Throws: ``FileError``.
    func fold(
        _ log: [IndexLog.Entry],
        into index: StatIndex,
        in destination: Destination,
        isStopped: @escaping @Sendable () -> Bool
    ) throws(FileError) -> StatIndex? {
        guard !log.isEmpty else { return index }
        var latest: [[UInt8]: IndexLog.Entry] = [:]
        for entry in log { latest[entry.path] = entry }
        let entries = latest.values.sorted { first, second in
            first.path.withUnsafeBufferPointer { one in
                second.path.withUnsafeBufferPointer { PathOrder.precedes(one, $0) }
            }
        }
        let found = concurrently(
            over: entries.count,
            threads: workers,
            name: "fold",
            isStopped: isStopped,
            by: { _ in try PlaceReader(destination, isStopped: isStopped) }
        ) { $0.verify(entries[$1]) }
        if isStopped() { return nil }
        // Those that are still in place.
        var records = [IndexRecord?](repeating: nil, count: entries.count)
        for (position, record) in found { records[position] = record }
        var writer = StatIndexWriter(in: destination)
        var walk = IndexWalk(index: index)
        for (entry, record) in zip(entries, records) {
            entry.path.withUnsafeBufferPointer { path in
                // An old record of the same path is out of date.
                let position = walk.find(path) { writer.append($0, of: index) }
                if let record = record ?? position.flatMap(index.record) { writer.append(record, path: path) }
            }
        }
        for position in walk.rest { writer.append(position, of: index) }
        try writer.write(owner: index.owner, completion: nil, revision: index.revision, durable: isDurable)
        return StatIndex.read(from: destination)
    }
}

extension StatIndexWriter {
    /// Adds a record of another index.
    fileprivate mutating func append(_ position: Int, of index: StatIndex) {
        guard let record = index.record(position) else { return }
        index.withPath(position) { _ = append(record, path: $0) }
    }
}

extension PullRun {
    /// The index including what a killed run put in place.
    func fold(_ log: [IndexLog.Entry], into index: StatIndex) throws(EngineError) -> StatIndex {
        do throws(FileError) {
            let isStopped = environment.isStopped
            if let folded = try environment.fold(log, into: index, in: destination, isStopped: isStopped) {
                return folded
            }
        } catch {
            throw EngineError(.ioError, "\(error)", cause: error.cause)
        }
        throw EngineError(.interrupted, "stopped while checking what an earlier run left")
    }
}

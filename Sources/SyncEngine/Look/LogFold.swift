import SyncFiles
import SyncModel
import SyncSystem

extension EngineEnvironment {
    /// Adds what a killed run put in place to an index: it is ours whatever the manifest says, so that it can be pruned or
    /// removed later. Every file is hashed again first.
    ///
    /// - Parameter log: What the killed run logged. It stays until the caller has done with it; twice is once.
    /// - Returns: The index to go on with, on the disk already: the next kill must not forget it.
    ///   `nil` when it was stopped: nothing has changed.
    /// - Throws: ``FileError``.
    func fold(
        _ log: [IndexLog.Entry], into index: StatIndex, in destination: Destination,
        isStopped: @escaping @Sendable () -> Bool
    ) throws(FileError) -> StatIndex? {
        guard !log.isEmpty else { return index }
        guard let found = verified(log, in: destination, isStopped: isStopped) else { return nil }
        var writer = StatIndexWriter(in: destination)
        index.merge(found) { writer.append($0, path: $1) }
        try writer.write(owner: index.owner, completion: nil, revision: index.revision, durable: isDurable)
        return StatIndex.read(from: destination)
    }

    /// The index that a fold would leave, in memory: nothing is written. `nil` when it was stopped.
    func foldPreview(_ index: StatIndex, in destination: Destination) -> StatIndex? {
        let log = IndexLog.read(destination)
        guard !log.isEmpty else { return index }
        guard let found = verified(log, in: destination, isStopped: isStopped) else { return nil }
        return index.replacingRecords { append in index.merge(found, append) }
    }

    /// The latest entry for each path, in ``PathOrder``, with a record if what it logged is still in place. `nil` when it was
    /// stopped.
    private func verified(
        _ log: [IndexLog.Entry], in destination: Destination, isStopped: @escaping @Sendable () -> Bool
    ) -> [(entry: IndexLog.Entry, record: IndexRecord?)]? {
        var latest: [[UInt8]: IndexLog.Entry] = [:]
        for entry in log { latest[entry.path] = entry }
        let entries = latest.values.sorted { first, second in
            first.path.withUnsafeBufferPointer { one in
                second.path.withUnsafeBufferPointer { PathOrder.precedes(one, $0) }
            }
        }
        let checked = concurrently(
            over: entries.count, threads: workers, name: "fold", isStopped: isStopped,
            by: { _ in try PlaceReader(destination, isStopped: isStopped) }
        ) { $0.verify(entries[$1]) }
        if isStopped() { return nil }
        var found: [(entry: IndexLog.Entry, record: IndexRecord?)] = entries.map { ($0, nil) }
        for (position, record) in checked { found[position].record = record }
        return found
    }
}

extension StatIndex {
    /// Passes on the records of the index and those that were found, in ``PathOrder``; of one path, what was found.
    fileprivate func merge(
        _ found: [(entry: IndexLog.Entry, record: IndexRecord?)],
        _ append: (IndexRecord, UnsafeBufferPointer<UInt8>) -> Void
    ) {
        var walk = IndexWalk(index: self)
        func copy(_ position: Int) {
            guard let record = record(position) else { return }
            withPath(position) { append(record, $0) }
        }
        for (entry, record) in found {
            entry.path.withUnsafeBufferPointer { path in
                // An old record of the same path is out of date.
                let position = walk.find(path, passing: copy)
                if let record = record ?? position.flatMap(self.record) { append(record, path) }
            }
        }
        for position in walk.rest { copy(position) }
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
        } catch { throw EngineError(.ioError, "\(error)", cause: error.cause) }
        throw EngineError(.interrupted, "stopped while checking what an earlier run left")
    }
}

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

    init(
        _ destination: Destination,
        _ index: StatIndex,
        _ environment: EngineEnvironment,
        isStopped: (@Sendable () -> Bool)? = nil
    ) {
        (self.destination, self.index) = (destination, index)
        (threads, isDurable) = (environment.workers, environment.isDurable)
        self.isStopped = isStopped ?? { [stop = environment.stop] in stop.isStopped }
    }

    /// - Parameter log: What the killed run logged. It stays until the caller has done with it; twice is once.
    /// - Returns: The index to go on with, on the disk already: the next kill must not forget it.
    ///   `nil` when it was stopped: nothing has changed.
    /// - Throws: ``FileError``.
    func run(_ log: [IndexLog.Entry]) throws(FileError) -> StatIndex? {
        guard !log.isEmpty else { return index }
        guard let found = verified(log) else { return nil }
        var writer = StatIndexWriter(in: destination)
        merge(found) { writer.append($0, path: $1) }
        try writer.write(owner: index.owner, completion: nil, revision: index.revision, durable: isDurable)
        return StatIndex.read(from: destination)
    }

    /// The index that ``run(_:)`` would leave, in memory: nothing is written. `nil` when it was stopped.
    func preview(_ log: [IndexLog.Entry]) -> StatIndex? {
        guard !log.isEmpty else { return index }
        guard let found = verified(log) else { return nil }
        return index.replacingRecords { append in merge(found, append) }
    }

    private typealias Found = (entry: IndexLog.Entry, record: IndexRecord?)

    /// Passes on the records of the index and those of the log in ``PathOrder``; of one path, the log's.
    private func merge(_ found: [Found], _ append: (IndexRecord, UnsafeBufferPointer<UInt8>) -> Void) {
        var position = 0
        func copy(while isBefore: (UnsafeBufferPointer<UInt8>) -> Bool) {
            while position < index.count, index.withPath(position, isBefore) {
                if let record = index.record(position) { index.withPath(position) { append(record, $0) } }
                position += 1
            }
        }
        for (entry, record) in found {
            entry.path.withUnsafeBufferPointer { path in
                copy { PathOrder.compare($0, path) < 0 }
                guard let record else { return }
                append(record, path)
                // The old record is out of date.
                let isSame =
                    position < index.count && index.withPath(position) { PathOrder.compare($0, path) } == 0
                if isSame { position += 1 }
            }
        }
        copy { _ in true }
    }

    /// The latest entry for each path, in ``PathOrder``, with a record if what it logged is still in place. `nil` when it was
    /// stopped.
    private func verified(_ log: [IndexLog.Entry]) -> [Found]? {
        var latest: [[UInt8]: IndexLog.Entry] = [:]
        for entry in log { latest[entry.path] = entry }
        let entries = latest.values.sorted { first, second in
            first.path.withUnsafeBufferPointer { one in
                second.path.withUnsafeBufferPointer { PathOrder.compare(one, $0) < 0 }
            }
        }
        let checked = concurrently(
            over: entries.count,
            threads: threads,
            name: "fold",
            isStopped: isStopped,
            by: { _ in try PlaceReader(destination, isStopped: isStopped) }
        ) { $0.verify(entries[$1]) }
        if isStopped() { return nil }
        var found: [Found] = entries.map { ($0, nil) }
        for (position, record) in checked { found[position].record = record }
        return found
    }
}

extension PullRun {
    /// The index including what a killed run put in place.
    func fold(
        _ log: [IndexLog.Entry],
        into index: StatIndex
    ) throws(EngineError) -> StatIndex {
        let fold = LogFold(destination, index, environment)
        do throws(FileError) {
            if let folded = try fold.run(log) { return folded }
        } catch {
            throw EngineError(.ioError, "\(error)", cause: error.cause)
        }
        throw EngineError(.interrupted, "stopped while checking what an earlier run left")
    }
}

import CSQLite
import GRDB
import SyncModel

/// What must survive: sessions, runs, groups, hooks, and the events of all of them, in one SQLite file.
///
/// - A run is its manifest: one row names the manifest's digest and the selection. A task has a row only when it
///   deviates. What is installed is known from the destination's own index, so losing the store costs a
///   re-verify, never data.
/// - One serial writer a process; processes wait for each other up to a bound, then get `busy`.
/// - Commands that were acknowledged are synced to the disk before the call returns (``Durability/synced``).
///   What a lost moment only makes us do again is not: a power cut can take the last of it, never the order.
/// - Every call blocks the calling thread for the time of a few page writes.
/// - Times are in **milliseconds** since 1970.
package final class SyncStore: Sendable {
    /// What a power cut may take.
    package enum Durability: Sendable {
        /// Nothing: the write-ahead log is synced before the call returns.
        case synced
        /// The transactions since the last sync, youngest first. A killed process loses nothing.
        case eventual
    }

    /// What opening found.
    package enum Opening: Sendable, Equatable {
        case created
        case opened
        /// The store was damaged and set aside under this path; this one is new.
        case rebuilt(setAside: String)
    }

    let queue: DatabaseQueue
    let compression: EventCompression?
    private let files: StoreFiles?
    /// What opening found.
    package let opening: Opening

    private init(queue: DatabaseQueue, files: StoreFiles?, opening: Opening, compression: EventCompression?) {
        (self.queue, self.files, self.opening, self.compression) = (queue, files, opening, compression)
    }

    /// Opens the store of a state directory, making or creating it where needed.
    ///
    /// - Parameters:
    ///   - directory: Absolute; made, 0700, when it is missing.
    ///   - now: **Milliseconds** since 1970, for the name of a store that is set aside.
    ///   - wait: Most **milliseconds** to wait for another process, here and in every later call.
    ///   - compression: For events.
    package static func open(directory: String, now: Int64, wait: Int = 10_000, compression: EventCompression? = nil)
        throws(StoreError) -> SyncStore
    {
        let files = StoreFiles(directory: directory)
        try files.check()
        var setAside: String?
        if !files.isMarkedDamaged {
            do throws(StoreError) {
                if let queue = try connect(files, wait) {
                    return SyncStore(queue: queue, files: files, opening: .opened, compression: compression)
                }
            } catch {
                guard error.code == .damaged else { throw error }
                files.markDamaged()
            }
        }
        let queue = try files.locked(wait: wait) { () throws(StoreError) in
            // Whoever held the lock before may have done it.
            if files.isMarkedDamaged { setAside = try files.setAside(at: now) }
            try files.create()
            guard let queue = try connect(files, wait, creating: true) else {
                throw StoreError(.internalError, "The state could not be prepared.")
            }
            return queue
        }
        let opening = setAside.map { Opening.rebuilt(setAside: $0) } ?? .created
        return SyncStore(queue: queue, files: files, opening: opening, compression: compression)
    }

    /// A store that lives as long as the value: for tests, and to measure what the file costs.
    package static func inMemory(compression: EventCompression? = nil) throws(StoreError) -> SyncStore {
        do {
            let queue = try DatabaseQueue(configuration: configuration(wait: 0))
            try queue.writeWithoutTransaction { try Schema.create($0) }
            return SyncStore(queue: queue, files: nil, opening: .created, compression: compression)
        } catch { throw StoreError(error) }
    }

    /// A connection to a store of this program's version; `nil` when there is none yet and `creating` is off.
    private static func connect(_ files: StoreFiles, _ wait: Int, creating: Bool = false) throws(StoreError)
        -> DatabaseQueue?
    {
        guard creating || files.hasDatabase else { return nil }
        do {
            let queue = try DatabaseQueue(path: files.database, configuration: configuration(wait: wait))
            let isCurrent = try queue.writeWithoutTransaction { db in
                if creating { try Schema.create(db) }
                return try Schema.isThere(db)
            }
            return isCurrent ? queue : nil
        } catch { throw StoreError(error) }
    }

    private static func configuration(wait: Int) -> Configuration {
        var configuration = Configuration()
        configuration.label = "syncagent.store"
        configuration.busyMode = wait == 0 ? .immediateError : .timeout(Double(wait) / 1_000)
        configuration.prepareDatabase { db in
            // Commits are not synced one by one, only checkpoints, unless ``Durability/synced`` is asked for.
            try db.execute(sql: "PRAGMA synchronous = NORMAL")
            // A run that changes nothing must not pay for copying the log at its end; SQLite copies it every
            // 1,000 pages anyway.
            if let connection = db.sqliteConnection {
                _ = sa_keep_log_on_close(connection)
                _ = sa_distrust_schema(connection)
            }
            // Damage is met as such, before it is followed.
            try db.execute(sql: "PRAGMA cell_size_check = ON")
        }
        return configuration
    }

    /// The state directory, absolute; `nil` for a store in memory.
    package var directory: String? { files?.directory }

    /// Where sessions are taken; `nil` for a store in memory.
    var leaseDirectory: String? { files.map { $0.directory + "/sessions" } }

    // MARK: Transactions

    /// Runs `body` in one transaction: all of it is recorded, or nothing.
    func write<R>(_ durability: Durability, _ body: (Database) throws -> R) throws(StoreError) -> R {
        do {
            return try queue.writeWithoutTransaction { db in
                if durability == .synced { try db.execute(sql: "PRAGMA synchronous = FULL") }
                defer {
                    // Cannot fail outside a transaction; if it did, later commits would only be slower.
                    if durability == .synced { try? db.execute(sql: "PRAGMA synchronous = NORMAL") }
                }
                var result: R?
                try db.inTransaction(.immediate) {
                    result = try body(db)
                    return .commit
                }
                guard let result else { throw StoreError(.internalError, "A transaction without a result.") }
                return result
            }
        } catch { throw note(error) }
    }

    /// Makes durable what has been recorded so far: afterwards a power cut takes none of it.
    package func synchronize() throws(StoreError) { try files?.synchronizeLog() }

    /// Runs `body` on one snapshot.
    func read<R>(_ body: (Database) throws -> R) throws(StoreError) -> R {
        do { return try queue.read(body) } catch { throw note(error) }
    }

    /// Leaves a mark when the store is damaged, so that the next open starts a new one.
    private func note(_ error: any Error) -> StoreError {
        let error = StoreError(error)
        if error.code == .damaged { files?.markDamaged() }
        return error
    }
}

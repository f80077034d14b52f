import CSQLite
import GRDB
import SyncModel

/// The durable state: sessions, runs, groups, hooks, and their events, in one SQLite file.
///
/// - A run is its manifest: one row has the manifest's digest and the selection. A task has a row only if it
///   ended without its file. Installed files are known from the destination's own index, so losing the store costs
///   hashing again, never data.
/// - One serial writer per process; processes wait for each other up to a bound, then get `busy`.
/// - Acknowledged commands are synced to the disk before the call returns (``Durability/synced``).
///   Records that can be restored by repeating work are not: a power cut may lose the latest of them, but never their
///   order.
/// - Every call blocks the calling thread for the time of a few page writes.
/// - Times are in **milliseconds** since 1970.
package final class SyncStore: Sendable {
    /// The changes that a power failure may lose.
    package enum Durability: Sendable {
        /// Nothing: the write-ahead log is synced before the call returns.
        case synced
        /// The transactions since the last sync, latest first. A killed process loses nothing.
        case eventual
    }

    /// The result of opening the store.
    package enum Opening: Sendable, Equatable {
        case created
        case opened
        /// The store was damaged and set aside under this path; this one is new.
        case rebuilt(setAside: String)
    }

    let queue: DatabaseQueue
    let compression: EventCompression?
    private let files: StoreFiles?
    /// The result of opening the store.
    package let opening: Opening

    private init(queue: DatabaseQueue, files: StoreFiles?, opening: Opening, compression: EventCompression?) {
        (self.queue, self.files, self.opening, self.compression) = (queue, files, opening, compression)
    }

    /// Opens the store of a state directory, and creates it if necessary.
    ///
    /// - Parameters:
    ///   - directory: The state directory, absolute; created with mode 0700 if missing.
    ///   - now: **Milliseconds** since 1970, for the name of a store that is set aside.
    ///   - wait: Most **milliseconds** to wait for another process, here and in every later call.
    ///   - compression: The compression of events.
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
            // An earlier holder of the lock may have set it aside already.
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

    /// A store that lives as long as the value: for tests, and for work that records nothing.
    package static func inMemory(compression: EventCompression? = nil) throws(StoreError) -> SyncStore {
        do {
            let queue = try DatabaseQueue(configuration: configuration(wait: 0))
            try queue.writeWithoutTransaction { try Schema.create($0) }
            return SyncStore(queue: queue, files: nil, opening: .created, compression: compression)
        } catch { throw StoreError(error) }
    }

    /// Records a run from its begin to its end in a store in memory. At their first use, the Swift runtime looks for the
    /// coders of each type of record: half of what the record of a short run takes. A caller that waits for something
    /// else meanwhile, or has a processor to spare, saves that.
    ///
    /// - Returns: Whether it came to the end.
    @discardableResult package static func rehearse() -> Bool {
        let session = StoredSession(identifier: "none", project: "none", destination: "/", device: 0, inode: 0)
        let start = RunStart(session: session, run: "none", manifest: .zero, recipe: RunRecipe(manifest: ""))
        let end = CompletedGroup(name: RunRecipe.groupOfAll, result: .ok, changed: 0)
        do throws(StoreError) {
            let store = try inMemory()
            _ = try store.begin(start, now: 0, continuing: true)
            _ = try store.complete([end], of: start.run, events: [[]], counts: RunCounts(), now: 0)
            try store.finish(run: start.run, result: .ok, counts: RunCounts(), work: SessionTotals(), now: 0)
            return true
        } catch { return false }
    }

    /// A connection to a store of this program's version; `nil` if there is none yet and `creating` is off.
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
            // Only checkpoints are synced, not single commits, unless ``Durability/synced`` is requested.
            try db.execute(sql: "PRAGMA synchronous = NORMAL")
            // A run that changes nothing must not pay for copying the log at its end. SQLite copies it when it has so many
            // pages, since the next process reads them all: 2 ms for 1,000, SQLite's own limit.
            try db.execute(sql: "PRAGMA wal_autocheckpoint = 250")
            if let connection = db.sqliteConnection {
                _ = sa_keep_log_on_close(connection)
                _ = sa_distrust_schema(connection)
            }
            // Damaged pages are reported before they are followed.
            try db.execute(sql: "PRAGMA cell_size_check = ON")
        }
        return configuration
    }

    /// The state directory, absolute; `nil` for a store in memory.
    package var directory: String? { files?.directory }

    /// The directory of leases; `nil` for a store in memory.
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

    /// Makes everything recorded so far durable: a power cut no longer loses any of it.
    package func synchronize() throws(StoreError) { try files?.synchronizeLog() }

    /// Runs `body` on one snapshot.
    func read<R>(_ body: (Database) throws -> R) throws(StoreError) -> R {
        do { return try queue.read(body) } catch { throw note(error) }
    }

    /// Marks the store if it is damaged, so that the next open starts a new one.
    private func note(_ error: any Error) -> StoreError {
        let error = StoreError(error)
        if error.code == .damaged { files?.markDamaged() }
        return error
    }
}

import GRDB
import SyncModel

/// A row of `sessions`.
package struct SessionRecord: Codable, Sendable, Equatable {
    private(set) var id: Int64?
    /// The name people use; unique in the store, which belongs to one user.
    package private(set) var identifier: String
    package private(set) var project: String
    /// Absolute.
    package var destination: String
    var device: Int64
    var inode: Int64
    /// Settings as they were when the session was made, JSON.
    package private(set) var policy: String
    /// Counts those who have held the session; a run or hook of a smaller epoch has no owner.
    package var epoch: Int64
    /// **Milliseconds** since 1970.
    package private(set) var created: Int64
    var nextSeq: Int64
    var prunedSeq: Int64
    /// Free text for people.
    package var label: String?
    /// How long the launch limiter holds back the next run that a hook asks for, **milliseconds**.
    package var limiterDelay: Int64
    /// When it was last raised, **milliseconds** since 1970; `nil` when it is at rest.
    package var limiterRaised: Int64?

    fileprivate init(_ request: SessionRequest, now: Int64) {
        (identifier, project, policy) = (request.identifier, request.project, request.policy)
        destination = request.destination
        (device, inode) = (Int64(bitPattern: request.device), Int64(bitPattern: request.inode))
        (epoch, created, nextSeq, prunedSeq) = (1, now, 1, 0)
        (label, limiterDelay) = (request.label, 0)
    }
}

extension SessionRecord: StoreRecord {
    static let databaseTableName = "sessions"

    mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
}

/// A session: one project into one destination, under a fixed name.
@dynamicMemberLookup package struct StoredSession: Sendable, Equatable {
    var record: SessionRecord

    package subscript<Value>(dynamicMember column: KeyPath<SessionRecord, Value>) -> Value { record[keyPath: column] }

    package var device: UInt64 { UInt64(bitPattern: record.device) }
    package var inode: UInt64 { UInt64(bitPattern: record.inode) }
    /// The sequence number of its last event; 0 before the first.
    package var lastSequence: Int64 { record.nextSeq.saturatingSubtract(1) }
    /// Events up to this one have been pruned.
    package var prunedSequence: Int64 { record.prunedSeq }
}

extension StoredSession: FetchableRecord {
    init(row: Row) throws { record = try SessionRecord(row, of: "session \(row.shown("identifier"))") }

    /// The one of a name; `nil` when there is none.
    static func find(_ identifier: String, _ db: Database) throws -> StoredSession? {
        try SQLRequest("SELECT * FROM sessions WHERE identifier = \(identifier)").fetchOne(db)
    }

    /// The one of a name.
    ///
    /// - Throws: ``StoreError`` with code `unknownSession`.
    static func named(_ identifier: String, _ db: Database) throws -> StoredSession {
        guard let session = try find(identifier, db) else { throw StoreError.noSession(identifier) }
        return session
    }

    /// Finds or makes a session, and begins an epoch: whoever held it before holds it no longer.
    ///
    /// - Parameter keepsEpoch: Whether whoever holds it goes on.
    static func enter(_ request: SessionRequest, now: Int64, keepsEpoch: Bool, _ db: Database) throws -> StoredSession {
        guard var session = try find(request.identifier, db) else {
            var record = SessionRecord(request, now: now)
            try record.insert(db)
            return StoredSession(record: record)
        }
        guard session.project == request.project else { throw StoreError.otherProject(session, request) }
        let former = session
        session.record.destination = request.destination
        session.record.device = Int64(bitPattern: request.device)
        session.record.inode = Int64(bitPattern: request.inode)
        session.record.label = request.label ?? session.label
        if keepsEpoch {
            try session.record.updateChanges(db, from: former.record)
        } else {
            try session.beginEpoch(since: former, db)
        }
        return session
    }

    /// Whoever held the session before holds it no longer: hooks that were left running are owed again.
    @discardableResult mutating func beginEpoch(since former: StoredSession? = nil, _ db: Database) throws
        -> [StoredHook]
    {
        let former = former ?? self
        record.epoch = record.epoch.saturatingAdd(1)
        try record.updateChanges(db, from: former.record)
        return try StoredHook.giveBack(of: self, db)
    }
}

/// What a session is asked for.
package struct SessionRequest: Sendable, Equatable {
    package var identifier: String
    package var project: String
    /// Absolute.
    package var destination: String
    /// Which directory that is.
    package var device: UInt64
    package var inode: UInt64
    /// JSON; only kept when the session is made.
    package var policy: String
    /// Free text for people; `nil` leaves what is there.
    package var label: String?

    package init(
        identifier: String, project: String, destination: String, device: UInt64, inode: UInt64, policy: String = "{}"
    ) {
        self.identifier = identifier
        self.project = project
        self.destination = destination
        self.device = device
        self.inode = inode
        self.policy = policy
    }
}

extension SyncStore {
    /// All sessions, by name.
    package func sessions() throws(StoreError) -> [StoredSession] {
        try read { db in try SQLRequest<StoredSession>("SELECT * FROM sessions ORDER BY identifier").fetchAll(db) }
    }

    /// A session by its name; `nil` when there is none.
    package func session(_ identifier: String) throws(StoreError) -> StoredSession? {
        try read { db in try StoredSession.find(identifier, db) }
    }

    /// A session by its name.
    ///
    /// - Throws: ``StoreError`` with code `unknownSession`.
    package func session(named identifier: String) throws(StoreError) -> StoredSession {
        try read { db in try StoredSession.named(identifier, db) }
    }

    /// Forgets a session with its runs, hooks and events. Files stay.
    ///
    /// - Parameter identifier: The session; nothing happens when there is none.
    package func remove(session identifier: String) throws(StoreError) {
        try write(.synced) { db in try db.execute(literal: "DELETE FROM sessions WHERE identifier = \(identifier)") }
        liveFiles(of: identifier)?.remove()
    }

    /// Keeps what the launch limiter of a session came to.
    ///
    /// - Parameters:
    ///   - delay: **Milliseconds**; 0 at rest.
    ///   - raised: When it was raised, **milliseconds** since 1970; `nil` at rest.
    package func keepLimiter(of session: String, delay: Int64, raised: Int64?) throws(StoreError) {
        try write(.eventual) { db in
            var found = try StoredSession.find(session, db)
            try found?.record.updateChanges(db) { ($0.limiterDelay, $0.limiterRaised) = (delay, raised) }
        }
    }
}

/// Everything that a session's runs have ever come to. History is pruned, these are not: they only grow.
package struct SessionTotals: Sendable, Equatable {
    /// Body **bytes**.
    package var received: UInt64 = 0
    package var requests: UInt64 = 0
    /// Files that were put in place.
    package var files: UInt64 = 0
    /// **Milliseconds** of work.
    package var elapsed: Int64 = 0
    /// Runs that came to an end, by result.
    package var ok: Int64 = 0
    package var partial: Int64 = 0
    package var failed: Int64 = 0

    package init() {}

    fileprivate init(_ row: Row) throws {
        received = UInt64(clamping: try row.decode(Int64.self, forColumn: "received"))
        requests = UInt64(clamping: try row.decode(Int64.self, forColumn: "requests"))
        files = UInt64(clamping: try row.decode(Int64.self, forColumn: "files"))
        elapsed = try row.decode(forColumn: "elapsed")
        ok = try row.decode(forColumn: "ok")
        partial = try row.decode(forColumn: "partial")
        failed = try row.decode(forColumn: "failed")
    }

    /// Counts a run that has come to its end.
    static func count(_ result: RunResult, of session: StoredSession, _ db: Database) throws {
        let column = SQL(sql: result.rawValue)
        try db.execute(
            literal: """
                INSERT INTO totals (session, \(column)) VALUES (\(session.record.id), 1)
                ON CONFLICT (session) DO UPDATE SET \(column) = \(column) + 1
                """)
    }

    /// Adds what one process did for a run.
    func add(to session: StoredSession, _ db: Database) throws {
        try db.execute(
            literal: """
                INSERT INTO totals (session, received, requests, files, elapsed)
                VALUES (\(session.record.id), \(Int64(clamping: received)), \(Int64(clamping: requests)),
                    \(Int64(clamping: files)), \(max(0, elapsed)))
                ON CONFLICT (session) DO UPDATE SET received = received + excluded.received,
                    requests = requests + excluded.requests, files = files + excluded.files,
                    elapsed = elapsed + excluded.elapsed
                """)
    }
}

extension SyncStore {
    /// Adds what one process did for a run of a session that goes on. Runs are counted where they end.
    package func add(_ work: SessionTotals, to session: String) throws(StoreError) {
        try write(.eventual) { db in try work.add(to: .named(session, db), db) }
    }

    /// The totals of every session that has some.
    package func totals() throws(StoreError) -> [String: SessionTotals] {
        try read { db in
            let rows = try Row.fetchAll(
                db, sql: "SELECT totals.*, identifier FROM totals JOIN sessions ON sessions.id = totals.session")
            var totals: [String: SessionTotals] = [:]
            for row in rows { totals[try row.decode(forColumn: "identifier")] = try SessionTotals(row) }
            return totals
        }
    }
}

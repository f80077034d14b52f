import GRDB
import SyncModel

/// A session: one project into one destination, under a fixed name.
package struct StoredSession: Codable, Sendable, Equatable {
    /// The name people use; unique in the store, which belongs to one user.
    package var identifier: String
    package var project: String
    /// Absolute.
    package var destination: String
    private(set) var device: Int64
    private(set) var inode: Int64
    /// Free text for people.
    package var label: String?
    /// **Milliseconds** since 1970.
    package private(set) var created: Int64 = 0
    /// Counts those who have held the session; a run or hook of a smaller epoch has no owner.
    package private(set) var epoch: Int64 = 1
    var nextSeq: Int64 = 1
    /// Events up to this one have been pruned.
    package internal(set) var prunedSequence: Int64 = 0
    /// How long the launch limiter holds back the next run that a hook asks for, **milliseconds**.
    package fileprivate(set) var limiterDelay: Int64 = 0
    /// When it was last raised, **milliseconds** since 1970; `nil` when it is at rest.
    package fileprivate(set) var limiterRaised: Int64?
    package internal(set) var totals = SessionTotals()

    /// What a run asks for; the rest is what the store has of it.
    ///
    /// - Parameters:
    ///   - device: With ``inode``, which directory ``destination`` is.
    package init(identifier: String, project: String, destination: String, device: UInt64, inode: UInt64) {
        (self.identifier, self.project, self.destination) = (identifier, project, destination)
        (self.device, self.inode) = (Int64(bitPattern: device), Int64(bitPattern: inode))
    }

    /// Whether its destination was this directory when it was seen last.
    package func isAt(device: UInt64, inode: UInt64) -> Bool {
        (UInt64(bitPattern: self.device), UInt64(bitPattern: self.inode)) == (device, inode)
    }

    /// The sequence number of its last event; 0 before the first.
    package var lastSequence: Int64 { nextSeq.saturatingSubtract(1) }
}

extension StoredSession: StoreRecord {
    static let databaseTableName = "sessions"

    static func all(where condition: SQL = "TRUE", _ db: Database) throws -> [StoredSession] {
        try read("session", by: "identifier", "SELECT * FROM sessions WHERE \(condition) ORDER BY identifier", db)
    }

    /// The one of a name; `nil` when there is none.
    static func find(_ identifier: String, _ db: Database) throws -> StoredSession? {
        try all(where: "identifier = \(identifier)", db).first
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
    static func enter(_ request: StoredSession, now: Int64, keepsEpoch: Bool, _ db: Database) throws -> StoredSession {
        guard var session = try find(request.identifier, db) else {
            var session = request
            session.created = now
            try session.insert(db)
            return session
        }
        guard session.project == request.project else { throw StoreError.otherProject(session, request) }
        try session.updateChanges(db) {
            ($0.destination, $0.device, $0.inode) = (request.destination, request.device, request.inode)
            $0.label = request.label ?? $0.label
        }
        if !keepsEpoch { try session.beginEpoch(db) }
        return session
    }

    /// Whoever held the session before holds it no longer: hooks that were left running are owed again.
    @discardableResult mutating func beginEpoch(_ db: Database) throws -> [StoredHook] {
        try updateChanges(db) { $0.epoch = $0.epoch.saturatingAdd(1) }
        return try StoredHook.giveBack(of: self, db)
    }
}

extension SyncStore {
    /// All sessions, by name.
    package func sessions() throws(StoreError) -> [StoredSession] { try read { db in try StoredSession.all(db) } }

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
            try found?.updateChanges(db) { ($0.limiterDelay, $0.limiterRaised) = (delay, raised) }
        }
    }

    /// Adds what one process did for a run of a session that goes on. Runs are counted where they end.
    package func add(_ work: SessionTotals, to session: String) throws(StoreError) {
        try write(.eventual) { db in
            var found = try StoredSession.named(session, db)
            try found.updateChanges(db) { $0.totals.add(work) }
        }
    }
}

/// Everything that a session's runs have ever come to. History is pruned, these are not: they only grow.
package struct SessionTotals: Codable, Sendable, Equatable {
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

    /// Adds what one process did for a run, and where that came to its end the run.
    mutating func add(_ work: SessionTotals?, _ result: RunResult? = nil) {
        switch result {
        case .ok: ok = ok.saturatingAdd(1)
        case .partial: partial = partial.saturatingAdd(1)
        case .failed: failed = failed.saturatingAdd(1)
        case nil: break
        }
        guard let work else { return }
        received = received.saturatingAdd(work.received)
        requests = requests.saturatingAdd(work.requests)
        files = files.saturatingAdd(work.files)
        elapsed = elapsed.saturatingAdd(max(0, work.elapsed))
    }
}

import GRDB
package import SyncModel

/// A session: one project in one destination, under a fixed name.
package struct StoredSession: Codable, Sendable, Equatable {
    /// The name people use; unique in the store, which belongs to one user.
    package var identifier: String
    package var project: String
    /// The destination, absolute.
    package var destination: String
    private(set) var device: Int64
    private(set) var inode: Int64
    /// The client's own text.
    package var label: String?
    /// **Milliseconds** since 1970.
    package private(set) var created: Int64 = 0
    /// The number of holders that the session has had; a run or hook of an earlier epoch has no owner.
    package private(set) var epoch: Int64 = 1
    var nextSeq: Int64 = 1
    /// Events up to this one have been pruned.
    package internal(set) var prunedSequence: Int64 = 0
    /// How long the launch limiter delays the next run that a hook enqueues, **milliseconds**.
    package fileprivate(set) var limiterDelay: Int64 = 0
    /// When the limiter was last raised, **milliseconds** since 1970; `nil` at rest.
    package fileprivate(set) var limiterRaised: Int64?
    package internal(set) var totals = SessionTotals()

    /// A session as requested by a run; the store fills in the rest.
    ///
    /// - Parameters:
    ///   - device: With `inode`, the identity of `destination`.
    package init(identifier: String, project: String, destination: String, device: UInt64, inode: UInt64) {
        (self.identifier, self.project, self.destination) = (identifier, project, destination)
        (self.device, self.inode) = (Int64(bitPattern: device), Int64(bitPattern: inode))
    }

    /// Names the directory that the destination is now.
    package mutating func move(to destination: String, device: UInt64, inode: UInt64) {
        self.destination = destination
        (self.device, self.inode) = (Int64(bitPattern: device), Int64(bitPattern: inode))
    }

    /// Whether its destination was this directory when it was last used.
    package func isAt(device: UInt64, inode: UInt64) -> Bool {
        (UInt64(bitPattern: self.device), UInt64(bitPattern: self.inode)) == (device, inode)
    }

    /// The limiter that delays the next run that a hook enqueues.
    package var limiter: LaunchLimiter { LaunchLimiter(delay: limiterDelay, raised: limiterRaised) }

    /// The number of its last event; 0 before the first.
    package var lastSequence: Int64 { nextSeq.saturatingSubtract(1) }
}

extension StoredSession: StoreRecord {
    static let databaseTableName = "sessions"

    static func all(where condition: SQL = "TRUE", _ db: Database) throws -> [StoredSession] {
        try read("session", by: "identifier", "SELECT * FROM sessions WHERE \(condition) ORDER BY identifier", db)
    }

    /// The session with a name; `nil` if there is none.
    static func find(_ identifier: String, _ db: Database) throws -> StoredSession? {
        try all(where: "identifier = \(identifier)", db).first
    }

    /// The session with a name.
    ///
    /// - Throws: ``StoreError`` with code `unknownSession`.
    static func named(_ identifier: String, _ db: Database) throws -> StoredSession {
        guard let session = try find(identifier, db) else { throw StoreError.noSession(identifier) }
        return session
    }

    /// Finds or creates a session, and begins an epoch: an earlier holder holds it no longer.
    ///
    /// - Parameter keepsEpoch: Whether the present holder goes on.
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

    /// Begins an epoch: an earlier holder holds the session no longer, and hooks that it left running are owed again.
    @discardableResult mutating func beginEpoch(_ db: Database) throws -> [StoredHook] {
        try updateChanges(db) { $0.epoch = $0.epoch.saturatingAdd(1) }
        return try StoredHook.giveBack(of: self, db)
    }
}

extension SyncStore {
    /// All sessions, by name.
    package func sessions() throws(StoreError) -> [StoredSession] { try read { db in try StoredSession.all(db) } }

    /// The session with a name; `nil` if there is none.
    package func session(_ identifier: String) throws(StoreError) -> StoredSession? {
        try read { db in try StoredSession.find(identifier, db) }
    }

    /// The session with a name.
    ///
    /// - Throws: ``StoreError`` with code `unknownSession`.
    package func session(named identifier: String) throws(StoreError) -> StoredSession {
        try read { db in try StoredSession.named(identifier, db) }
    }

    /// Removes a session with its runs, hooks and events. Files stay.
    ///
    /// - Parameter identifier: The session; nothing happens if there is none.
    package func remove(session identifier: String) throws(StoreError) {
        try write(.synced) { db in try db.execute(literal: "DELETE FROM sessions WHERE identifier = \(identifier)") }
        liveFiles(of: identifier)?.remove()
    }

    /// Records the state of a session's launch limiter.
    package func keep(_ limiter: LaunchLimiter, of session: String) throws(StoreError) {
        try write(.eventual) { db in
            var found = try StoredSession.find(session, db)
            try found?.updateChanges(db) { ($0.limiterDelay, $0.limiterRaised) = (limiter.delay, limiter.raised) }
        }
    }

    /// Adds the work of a process that was lost before it could do so itself: to its session's totals, and as an event.
    func add(lost work: (received: UInt64, requests: UInt64), of run: StoredRun, now: Int64, _ db: Database) throws {
        guard work.received > 0 || work.requests > 0 else { return }
        var session = try StoredSession.named(run.session, db)
        var totals = SessionTotals()
        (totals.received, totals.requests) = (work.received, work.requests)
        try session.updateChanges(db) { $0.totals.add(totals) }
        let summary = JSONLine.event(.runSummary) { line in
            line.time("time", now)
            line.field("session", run.session)
            line.field("run", run.identifier)
            line.field("elapsed_ms", 0)
            line.field("requests", work.requests)
            line.field("received", work.received)
            line.field("reused", 0)
            line.field("stopped", RestReason.agentRestart)
            line.object("files") { files in
                for name in ["installed", "reused", "removed", "failed"] { files.field(name, 0) }
            }
            line.list("origins", [String]()) { _, _ in }
            if work.received > 0 { line.field("other_bytes", work.received) }
            line.list("directories", [String]()) { _, _ in }
        }
        try append([summary.bytes], to: &session, time: now, db)
    }
}

/// The totals of all runs that a session has ever had. History is pruned, totals only grow.
package struct SessionTotals: Codable, Sendable, Equatable {
    /// Body **bytes**.
    package var received: UInt64 = 0
    package var requests: UInt64 = 0
    /// Files that were installed.
    package var files: UInt64 = 0
    /// **Milliseconds** of work.
    package var elapsed: Int64 = 0
    /// Ended runs, by result.
    package var ok: Int64 = 0
    package var partial: Int64 = 0
    package var failed: Int64 = 0

    package init() {}

    /// Adds the work of one process and, if the run has ended, the run.
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

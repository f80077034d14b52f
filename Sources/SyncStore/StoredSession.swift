import GRDB

/// A session: one project into one destination, under a fixed name (S1).
package struct StoredSession: Sendable, Equatable {
    /// The name people use; unique in the store, which belongs to one user (S2).
    package let identifier: String
    package let project: String
    /// Absolute.
    package let destination: String
    package let device: UInt64
    package let inode: UInt64
    /// Settings as they were when the session was made, JSON (S6).
    package let policy: String
    /// Counts those who have held the session; a run or hook of a smaller epoch has no owner (S28).
    package let epoch: Int64
    /// **Milliseconds** since 1970.
    package let created: Int64
    /// The sequence number of its last event; 0 before the first.
    package let lastSequence: Int64
    /// Events up to this one have been pruned.
    package let prunedSequence: Int64
    /// Free text for people (S67).
    package let label: String?
    /// How long the launch limiter holds back the next run that a hook asks for, **milliseconds** (S59).
    package let limiterDelay: Int64
    /// When it was last raised, **milliseconds** since 1970; `nil` when it is at rest.
    package let limiterRaised: Int64?

    let rowID: Int64

    init(_ row: Row) {
        rowID = row["id"]
        identifier = row["identifier"]
        project = row["project"]
        destination = row["destination"]
        device = UInt64(bitPattern: row["device"] as Int64)
        inode = UInt64(bitPattern: row["inode"] as Int64)
        policy = row["policy"]
        epoch = row["epoch"]
        created = row["created"]
        lastSequence = (row["next_seq"] as Int64) - 1
        prunedSequence = row["pruned_seq"]
        label = row["label"]
        limiterDelay = row["limiter_delay"]
        limiterRaised = row["limiter_raised"]
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
        identifier: String,
        project: String,
        destination: String,
        device: UInt64,
        inode: UInt64,
        policy: String = "{}"
    ) {
        self.identifier = identifier
        self.project = project
        self.destination = destination
        self.device = device
        self.inode = inode
        self.policy = policy
    }
}

/// How a session was found.
package enum SessionArrival: Sendable, Equatable {
    /// It is new.
    case created
    /// It was there.
    case attached
    /// It was there and synced into another directory before.
    case moved(from: String)
}

extension SyncStore {
    /// All sessions, by name.
    package func sessions() throws(StoreError) -> [StoredSession] {
        try read { db in
            try Row.fetchAll(db, sql: "SELECT * FROM sessions ORDER BY identifier").map(StoredSession.init)
        }
    }

    /// A session by its name; `nil` when there is none.
    package func session(_ identifier: String) throws(StoreError) -> StoredSession? {
        try read { db in try Self.session(identifier, db) }
    }

    /// Forgets a session with its runs, hooks and events. Files stay.
    ///
    /// - Parameter identifier: The session; nothing happens when there is none.
    /// - Throws: ``StoreError``.
    package func remove(session identifier: String) throws(StoreError) {
        try write(.synced) { db in
            try db.execute(sql: "DELETE FROM sessions WHERE identifier = ?", arguments: [identifier])
        }
        liveFiles(of: identifier)?.remove()
    }

    static func session(_ identifier: String, _ db: Database) throws -> StoredSession? {
        try Row.fetchOne(db, sql: "SELECT * FROM sessions WHERE identifier = ?", arguments: [identifier])
            .map(StoredSession.init)
    }

    static func existing(_ identifier: String, _ db: Database) throws -> StoredSession {
        guard let session = try session(identifier, db) else { throw StoreError.noSession(identifier) }
        return session
    }

    /// Finds or makes a session, and begins an epoch: whoever held it before holds it no longer.
    static func enter(
        _ request: SessionRequest,
        now: Int64,
        _ db: Database
    ) throws -> (session: StoredSession, arrival: SessionArrival) {
        let device = Int64(bitPattern: request.device)
        let inode = Int64(bitPattern: request.inode)
        guard let found = try session(request.identifier, db) else {
            try db.execute(
                sql: """
                    INSERT INTO sessions
                        (identifier, project, destination, device, inode, policy, epoch, created, next_seq, pruned_seq,
                        label)
                    VALUES (?, ?, ?, ?, ?, ?, 1, ?, 1, 0, ?)
                    """,
                arguments: [
                    request.identifier, request.project, request.destination, device, inode, request.policy,
                    now, request.label,
                ]
            )
            return (try existing(request.identifier, db), .created)
        }
        guard found.project == request.project else {
            throw StoreError.otherProject(found, request)
        }
        try db.execute(
            sql: """
                UPDATE sessions SET epoch = epoch + 1, destination = ?, device = ?, inode = ?,
                    label = coalesce(?, label) WHERE id = ?
                """,
            arguments: [request.destination, device, inode, request.label, found.rowID]
        )
        try giveBackHooks(of: found, db)
        // A directory that was renamed is still the same one.
        let isSame =
            found.destination == request.destination
            || found.device == request.device && found.inode == request.inode
        return (try existing(request.identifier, db), isSame ? .attached : .moved(from: found.destination))
    }
}

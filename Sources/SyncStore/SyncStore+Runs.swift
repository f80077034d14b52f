import GRDB
package import SyncModel

extension SyncStore {
    /// Records the end of a run: every group of it is complete. Told twice is told once.
    ///
    /// - Parameters:
    ///   - run: The run.
    ///   - result: What it came to.
    ///   - counts: Its numbers.
    ///   - error: What went wrong, for people.
    ///   - exitStatus: For whoever waits for it.
    ///   - events: The events that tell it, its last ones: they are recorded with it or not at all.
    ///   - now: **Milliseconds** since 1970.
    ///   - durability: See ``Durability``.
    /// - Throws: ``StoreError``; `refused` when it is not running.
    package func finish(
        run: String,
        result: RunResult,
        counts: RunCounts,
        error: String? = nil,
        exitStatus: Int32? = nil,
        events: [[UInt8]] = [],
        now: Int64,
        durability: Durability = .eventual
    ) throws(StoreError) {
        try write(durability) { db in
            let found = try Self.run(run, db)
            guard try Self.move(found, .finished, reason: nil, db) else { return }
            let session = try Self.existing(found.session, db)
            try self.append(events, to: session, time: now, db)
            try Self.countEnd(of: session.rowID, result: result, db)
            try db.execute(
                sql: """
                    UPDATE runs SET result = ?, error = ?, exit_status = ?, finished = ?, \(RunCounts.assignments)
                    WHERE number = ?
                    """,
                arguments: [result.rawValue, error, exitStatus, now] + counts.arguments + [found.number]
            )
            // A group that nothing ever asked about cannot stay open behind a finished run.
            try Self.cancelGroups(of: found.number, now: now, db)
        }
    }

    /// Applies what a person or a policy wants of a run: pause, resume, cancel, release.
    ///
    /// - Parameters:
    ///   - input: `released`, `paused`, `resumed` or `cancelled`.
    ///   - run: The run.
    ///   - reason: Why, for `status`: `user_stop`, `metered` … (S27).
    ///   - events: Recorded in the same transaction when the state changes: JSON lines, UTF-8, without newlines.
    ///   - now: **Milliseconds** since 1970.
    /// - Returns: Whether the run's state changed; a command may be repeated (S106).
    /// - Throws: ``StoreError``; `refused` where the life cycle has no such step.
    @discardableResult
    package func apply(
        _ input: RunInput,
        to run: String,
        reason: RestReason? = nil,
        events: [[UInt8]] = [],
        now: Int64
    ) throws(StoreError) -> Bool {
        try write(.synced) { db in
            let found = try Self.run(run, db)
            guard try Self.move(found, input, reason: reason, db) else { return false }
            if !events.isEmpty {
                try self.append(events, to: Self.existing(found.session, db), time: now, db)
            }
            try Self.keepPause(of: found, input, now: now, db)
            if input == .cancelled || input == .superseded { try Self.closeRun(found.number, now: now, db) }
            if input == .cancelled {
                // Those of a run that is superseded are still owed; of one that a person gives up none is.
                for hook in try Self.hooks(
                    where: "hooks.run = ? AND hooks.state = 'pending'",
                    [found.number],
                    db
                ) {
                    try Self.move(hook, .dropped, db)
                }
            }
            return true
        }
    }

    /// A run by its name.
    ///
    /// - Throws: ``StoreError`` with code `unknown`.
    package func run(_ identifier: String) throws(StoreError) -> StoredRun {
        try read { db in try Self.run(identifier, db) }
    }

    /// The latest runs, newest first.
    ///
    /// - Parameters:
    ///   - session: Only this session's.
    ///   - onlyOpen: Only those that can still come to something.
    ///   - limit: At most so many.
    /// - Returns: The runs.
    /// - Throws: ``StoreError``.
    package func runs(session: String? = nil, onlyOpen: Bool = false, limit: Int = 100) throws(StoreError)
        -> [StoredRun]
    {
        try read { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT \(StoredRun.columns) FROM \(StoredRun.tables)
                    WHERE (?1 IS NULL OR sessions.identifier = ?1)
                        \(onlyOpen ? "AND runs.state IN ('waiting', 'running', 'paused')" : "")
                    ORDER BY runs.number DESC LIMIT ?2
                    """,
                arguments: [session, limit]
            ).map { try StoredRun($0, db) }
        }
    }
}

// MARK: Inside a transaction

extension SyncStore {
    static func run(_ identifier: String, _ db: Database) throws -> StoredRun {
        let row = try Row.fetchOne(
            db,
            sql: "SELECT \(StoredRun.columns) FROM \(StoredRun.tables) WHERE runs.id = ?",
            arguments: [identifier]
        )
        guard let row else { throw StoreError.noRun(identifier) }
        return try StoredRun(row, db)
    }

    /// Time in a pause does not count against the deadline (S108).
    static func keepPause(of run: StoredRun, _ input: RunInput, now: Int64, _ db: Database) throws {
        switch input {
        case .paused:
            try db.execute(
                sql: "UPDATE runs SET paused_at = ? WHERE number = ?",
                arguments: [now, run.number]
            )
        case .resumed:
            try db.execute(
                sql: """
                    UPDATE runs SET deadline = deadline + max(0, ?1 - paused_at), paused_at = NULL, due = NULL
                    WHERE number = ?2
                    """,
                arguments: [now, run.number]
            )
        case .started, .released, .finished, .cancelled, .superseded: break
        }
    }

    /// The one place that changes a run's state (S104).
    ///
    /// - Returns: Whether it changed.
    @discardableResult
    static func move(_ run: StoredRun, _ input: RunInput, reason: RestReason?, _ db: Database) throws -> Bool
    {
        switch run.state.after(input) {
        case .stays: return false
        case .refused:
            throw StoreError(
                .refused,
                "Run \(run.identifier) is \(run.state.rawValue): it cannot be \(input.rawValue)."
            )
        case .to(let next):
            try db.execute(
                sql: "UPDATE runs SET state = ?, reason = ? WHERE number = ?",
                arguments: [next.rawValue, reason?.rawValue, run.number]
            )
            return true
        }
    }

    /// Ends what a run that will not finish leaves open: its groups, the hooks of those, its task rows.
    static func closeRun(_ run: Int64, now: Int64, _ db: Database) throws {
        try cancelGroups(of: run, now: now, db)
        try db.execute(
            sql: "UPDATE runs SET finished = ? WHERE number = ? AND finished IS NULL",
            arguments: [now, run]
        )
    }

    static func cancelGroups(of run: Int64, now: Int64, _ db: Database) throws {
        let open = try String.fetchAll(
            db,
            sql: "SELECT name FROM groups WHERE run = ? AND state = ?",
            arguments: [run, GroupState.open.rawValue]
        )
        for name in open {
            try moveGroup(run, name, .cancelled, db)
            for hook in try hooks(run: run, group: name, db) { try move(hook, .dropped, db) }
        }
    }
}

/// One group of one run.
package struct StoredGroup: Sendable, Equatable {
    package let name: String
    package let state: GroupState
    /// Once it is complete.
    package let result: RunResult?
    /// Files that changed.
    package let changed: Int
}

extension SyncStore {
    /// The groups of a run, by name.
    ///
    /// - Throws: ``StoreError``; `unknown` when there is no such run.
    package func groups(of run: String) throws(StoreError) -> [StoredGroup] {
        try read { db in
            try Row.fetchAll(
                db,
                sql: "SELECT * FROM groups WHERE run = ? ORDER BY name",
                arguments: [Self.run(run, db).number]
            ).map { row in
                guard let state = GroupState(rawValue: row["state"]) else {
                    throw StoreError.unreadable("group \(row["name"] as String)")
                }
                return StoredGroup(
                    name: row["name"],
                    state: state,
                    result: try RunResult(stored: row["result"], of: "a group"),
                    changed: row["changed"]
                )
            }
        }
    }

    /// Keeps the numbers of a run that is not finished yet, for `status` and for whoever finishes it.
    ///
    /// - Throws: ``StoreError``; `unknown` when there is no such run.
    package func keep(_ counts: RunCounts, of run: String) throws(StoreError) {
        try write(.eventual) { db in
            try db.execute(
                sql: "UPDATE runs SET \(RunCounts.assignments) WHERE number = ?",
                arguments: counts.arguments + [Self.run(run, db).number]
            )
        }
    }

    /// Keeps what the launch limiter of a session came to (S59–S62).
    ///
    /// - Parameters:
    ///   - session: The session.
    ///   - delay: **Milliseconds**; 0 at rest.
    ///   - raised: When it was raised, **milliseconds** since 1970; `nil` at rest.
    /// - Throws: ``StoreError``.
    package func keepLimiter(of session: String, delay: Int64, raised: Int64?) throws(StoreError) {
        try write(.eventual) { db in
            try db.execute(
                sql: "UPDATE sessions SET limiter_delay = ?, limiter_raised = ? WHERE identifier = ?",
                arguments: [delay, raised, session]
            )
        }
    }
}

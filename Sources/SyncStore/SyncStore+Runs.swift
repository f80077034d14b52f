import GRDB
package import SyncModel

extension SyncStore {
    /// Records a run with its groups and hooks, in one transaction, and begins an epoch of its session.
    ///
    /// The caller holds the session, so that nobody else works on it. Open runs of the session are superseded.
    ///
    /// - Parameters:
    ///   - start: The run.
    ///   - now: **Milliseconds** since 1970.
    ///   - isHeld: `true` to work on it at once; `false` to leave it `waiting` for the agent.
    ///   - durability: `synced` where the caller acknowledges it; with `eventual` a power cut may forget the run.
    /// - Returns: The session and what was superseded.
    /// - Throws: ``StoreError``; `refused` when the session belongs to another project (S2).
    @discardableResult
    package func begin(
        _ start: RunStart,
        now: Int64,
        isHeld: Bool = true,
        durability: Durability = .synced
    ) throws(StoreError) -> BegunRun {
        try write(durability) { db in
            let (session, arrival) = try Self.enter(start.session, now: now, db)
            let superseded = try Self.supersede(runsOf: session, now: now, db)
            let number = try Self.insert(start, session, isHeld, now, db)
            for group in Set(start.groups).sorted() {
                try db.execute(
                    sql: "INSERT INTO groups (run, name, state) VALUES (?, ?, ?)",
                    arguments: [number, group, GroupState.open.rawValue]
                )
            }
            for hook in start.hooks {
                try db.execute(
                    sql: """
                        INSERT INTO hooks (run, group_name, arguments, timeout, results, state)
                        VALUES (?, ?, ?, ?, ?, ?)
                        """,
                    arguments: [
                        number, hook.group, JSONList.text(hook.arguments), hook.timeout,
                        JSONList.text(hook.results.sorted()), HookRunState.waiting.rawValue,
                    ]
                )
            }
            return BegunRun(session: session, arrival: arrival, superseded: superseded)
        }
    }

    /// Takes a waiting run up, in a new epoch of its session. The caller holds the session.
    ///
    /// - Parameters:
    ///   - run: The run.
    ///   - now: **Milliseconds** since 1970.
    /// - Returns: The run as it is now.
    /// - Throws: ``StoreError``; `refused` when it is not waiting.
    package func take(run: String, now: Int64) throws(StoreError) -> StoredRun {
        try write(.synced) { db in
            let found = try Self.run(run, db)
            try db.execute(
                sql: "UPDATE sessions SET epoch = epoch + 1 WHERE identifier = ?",
                arguments: [found.session]
            )
            try Self.giveBackHooks(of: Self.existing(found.session, db), db)
            try Self.move(found, .started, reason: nil, db)
            try db.execute(
                sql: """
                    UPDATE runs SET started = coalesce(started, ?),
                        epoch = (SELECT epoch FROM sessions WHERE sessions.id = runs.session)
                    WHERE number = ?
                    """,
                arguments: [now, found.number]
            )
            return try Self.run(run, db)
        }
    }

    /// Records the end of a run: every group of it is complete. Told twice is told once.
    ///
    /// - Parameters:
    ///   - run: The run.
    ///   - result: `ok`, `partial` or `failed`.
    ///   - counts: Its numbers.
    ///   - now: **Milliseconds** since 1970.
    ///   - durability: See ``Durability``.
    /// - Throws: ``StoreError``; `refused` when it is not running.
    package func finish(
        run: String,
        result: String,
        counts: RunCounts,
        now: Int64,
        durability: Durability = .eventual
    ) throws(StoreError) {
        try write(durability) { db in
            let found = try Self.run(run, db)
            guard try Self.move(found, .finished, reason: nil, db) else { return }
            try db.execute(
                sql: "UPDATE runs SET result = ?, finished = ?, \(RunCounts.assignments) WHERE number = ?",
                arguments: [result, now] + counts.arguments + [found.number]
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
    ///   - now: **Milliseconds** since 1970.
    /// - Returns: Whether the run's state changed; a command may be repeated (S106).
    /// - Throws: ``StoreError``; `refused` where the life cycle has no such step.
    @discardableResult
    package func apply(
        _ input: RunInput,
        to run: String,
        reason: String? = nil,
        now: Int64
    ) throws(StoreError) -> Bool {
        try write(.synced) { db in
            let found = try Self.run(run, db)
            guard try Self.move(found, input, reason: reason, db) else { return false }
            if input == .cancelled || input == .superseded { try Self.closeRun(found.number, now: now, db) }
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

    private static func insert(
        _ start: RunStart,
        _ session: StoredSession,
        _ isHeld: Bool,
        _ now: Int64,
        _ db: Database
    ) throws -> Int64 {
        try db.execute(
            sql: """
                INSERT INTO runs (id, session, epoch, manifest, location, selection, options, state, created, started,
                    not_before, deadline)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                start.run, session.rowID, session.epoch, start.manifest.blob, start.location,
                JSONList.text(start.selection), start.options,
                (isHeld ? RunState.running : .waiting).rawValue, now, isHeld ? now : nil, start.notBefore,
                start.deadline,
            ]
        )
        return db.lastInsertedRowID
    }

    /// The one place that changes a run's state (S104).
    ///
    /// - Returns: Whether it changed.
    @discardableResult
    static func move(_ run: StoredRun, _ input: RunInput, reason: String?, _ db: Database) throws -> Bool {
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
                arguments: [next.rawValue, reason, run.number]
            )
            return true
        }
    }

    private static func supersede(runsOf session: StoredSession, now: Int64, _ db: Database) throws
        -> [String]
    {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT \(StoredRun.columns) FROM \(StoredRun.tables)
                WHERE runs.session = ? AND runs.state IN ('waiting', 'running', 'paused') ORDER BY runs.number
                """,
            arguments: [session.rowID]
        )
        let open = try rows.map { try StoredRun($0, db) }
        for run in open {
            try move(run, .superseded, reason: "superseded", db)
            try closeRun(run.number, now: now, db)
        }
        return open.map(\.identifier)
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

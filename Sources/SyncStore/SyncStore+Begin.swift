import GRDB
package import SyncModel

extension SyncStore {
    /// Records a run with its groups and hooks, in one transaction, and begins an epoch of its session.
    ///
    /// The caller holds the session, so that nobody else works on it. Other open runs of the session are superseded.
    ///
    /// - Parameters:
    ///   - start: The run.
    ///   - now: **Milliseconds** since 1970.
    ///   - isHeld: `true` to work on it at once; `false` to leave it `waiting` for the agent.
    ///   - continuing: Whether an open run that asks for the same goes on in its place: same manifest, selection,
    ///     options and hooks, and group `all` not complete.
    ///   - durability: `synced` where the caller acknowledges it; with `eventual` a power cut may forget the run.
    /// - Returns: The session, the run to work on, and what was superseded.
    /// - Throws: ``StoreError``; `refused` when the session belongs to another project (S2).
    @discardableResult
    package func begin(
        _ start: RunStart,
        now: Int64,
        isHeld: Bool = true,
        continuing: Bool = false,
        durability: Durability = .synced
    ) throws(StoreError) -> BegunRun {
        try write(durability) { db in
            let (session, arrival) = try Self.enter(start.session, now: now, db)
            var open = try Self.openRuns(of: session, db)
            var same: StoredRun?
            if continuing, let last = open.last, try Self.asksForTheSame(last, start, db) {
                same = open.popLast()
            }
            for run in open {
                try Self.move(run, .superseded, reason: .superseded, db)
                try Self.closeRun(run.number, now: now, db)
            }
            if let same {
                try Self.goOn(same, as: start, isHeld: isHeld, now: now, db)
            } else {
                try Self.insert(start, session, isHeld, now, db)
            }
            return BegunRun(
                session: session,
                arrival: arrival,
                superseded: open.map(\.identifier),
                run: try Self.run(same?.identifier ?? start.run, db),
                isContinued: same != nil
            )
        }
    }

    /// The open run of the session that asks for the very same: what ``begin(_:now:isHeld:continuing:durability:)``
    /// would continue.
    ///
    /// - Throws: ``StoreError``.
    package func openRun(like start: RunStart) throws(StoreError) -> StoredRun? {
        try read { db in
            guard let session = try Self.session(start.session.identifier, db),
                session.destination == start.session.destination,
                let last = try Self.openRuns(of: session, db).last
            else { return nil }
            return try Self.asksForTheSame(last, start, db) ? last : nil
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
            try Self.start(found, now: now, db)
            return try Self.run(run, db)
        }
    }

    /// Records why a run that waits does so, and until when it need not be looked at (S53).
    ///
    /// - Parameters:
    ///   - run: The run; nothing happens unless it waits.
    ///   - reason: `connectivity`, `not_before`, `session_busy` …
    ///   - error: What went wrong, for people.
    ///   - due: **Milliseconds** since 1970; `nil` for at once.
    ///   - since: Since when it waits for that, kept while the reason stays; **milliseconds** since 1970.
    /// - Throws: ``StoreError``.
    package func hold(
        run: String,
        reason: RestReason?,
        error: String? = nil,
        due: Int64?,
        since: Int64? = nil
    ) throws(StoreError) {
        try write(.eventual) { db in
            try db.execute(
                sql: """
                    UPDATE runs SET waiting_since = iif(reason IS ?1, waiting_since, ?2), reason = ?1,
                        error = coalesce(?3, error), due = ?4
                    WHERE id = ?5 AND state = 'waiting'
                    """,
                arguments: [reason?.rawValue, since, error, due, run]
            )
        }
    }

    /// Wants paths of a run before all others; those named last come first (S162).
    ///
    /// - Throws: ``StoreError``.
    package func prioritize(run: String, paths: [String]) throws(StoreError) {
        try write(.synced) { db in
            let found = try Self.run(run, db)
            let all = paths + found.firstPaths.filter { !paths.contains($0) }
            try db.execute(
                sql: "UPDATE runs SET first_paths = ? WHERE number = ?",
                arguments: [JSONList.text(Array(all.prefix(Self.firstPathsLimit))), found.number]
            )
        }
    }

    /// Most paths that can be wanted first.
    package static let firstPathsLimit = 10_000
}

// MARK: Inside a transaction

extension SyncStore {
    static func openRuns(of session: StoredSession, _ db: Database) throws -> [StoredRun] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT \(StoredRun.columns) FROM \(StoredRun.tables)
                WHERE runs.session = ? AND runs.state IN ('waiting', 'running', 'paused') ORDER BY runs.number
                """,
            arguments: [session.rowID]
        ).map { try StoredRun($0, db) }
    }

    private static func asksForTheSame(_ run: StoredRun, _ start: RunStart, _ db: Database) throws -> Bool {
        let kept = KeptRecipe(start)
        guard run.manifest == start.manifest, run.recipe.groups == start.recipe.groups, run.kept == kept
        else {
            return false
        }
        let isOpen = try Bool.fetchOne(
            db,
            sql: "SELECT EXISTS (SELECT 1 FROM groups WHERE run = ? AND name = 'all' AND state = 'open')",
            arguments: [run.number]
        )
        guard isOpen == true else { return false }
        return try hooks(where: "hooks.run = ?", [run.number], db).map(\.hook) == start.recipe.hooks
    }

    /// An open run goes on, whoever worked on it before: the caller holds its session.
    private static func goOn(
        _ run: StoredRun,
        as start: RunStart,
        isHeld: Bool,
        now: Int64,
        _ db: Database
    ) throws {
        var run = run
        // A schedule asks again every night, and then says anew when; it does not overrule a person's pause (S24).
        let isScheduled = start.recipe.origin == .schedule
        try db.execute(
            sql: """
                UPDATE runs SET conditions = ?, not_before = iif(?, ?, not_before),
                    deadline = iif(?, max(coalesce(deadline, 0), ?), deadline) WHERE number = ?
                """,
            arguments: [
                try conditions(of: start), isScheduled, start.recipe.notBefore?.milliseconds,
                isScheduled && start.deadline != nil,
                start.deadline, run.number,
            ]
        )
        if run.state == .running {
            try lose(run, now: now, db)
            run = try self.run(run.identifier, db)
        }
        if run.state == .paused, !start.recipe.paused, !isScheduled {
            try move(run, .resumed, reason: nil, db)
            try keepPause(of: run, .resumed, now: now, db)
            run = try self.run(run.identifier, db)
        }
        if isHeld { try Self.start(run, now: now, db) }
    }

    static func start(_ run: StoredRun, now: Int64, _ db: Database) throws {
        try move(run, .started, reason: nil, db)
        try db.execute(
            sql: """
                UPDATE runs SET started = coalesce(started, ?), due = NULL, error = NULL, waiting_since = NULL,
                    epoch = (SELECT epoch FROM sessions WHERE sessions.id = runs.session)
                WHERE number = ?
                """,
            arguments: [now, run.number]
        )
    }

    /// A run whose worker is gone waits again, and that it was lost is remembered (S28, F087).
    ///
    /// - Returns: Whether it was running.
    @discardableResult
    static func lose(_ run: StoredRun, now: Int64, _ db: Database) throws -> Bool {
        guard try move(run, .released, reason: .agentRestart, db) else { return false }
        let losses = (run.losses + [now]).suffix(10).map { String($0) }
        try db.execute(
            sql: "UPDATE runs SET losses = ? WHERE number = ?",
            arguments: [JSONList.text(losses), run.number]
        )
        return true
    }

    private static func conditions(of start: RunStart) throws -> String? {
        start.recipe.conditions.isEmpty ? nil : try StoredJSON.text(start.recipe.conditions)
    }

    private static func insert(
        _ start: RunStart,
        _ session: StoredSession,
        _ isHeld: Bool,
        _ now: Int64,
        _ db: Database
    ) throws {
        let state: RunState = start.recipe.paused ? .paused : isHeld ? .running : .waiting
        try db.execute(
            sql: """
                INSERT INTO runs (id, session, epoch, manifest, location, selection, options, state, reason, created,
                    started, not_before, deadline, origin, settings, conditions, paused_at)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                start.run, session.rowID, session.epoch, start.manifest.blob,
                start.recipe.manifest, JSONList.text(start.recipe.groups),
                try KeptRecipe(start).text(),
                state.rawValue,
                start.recipe.paused ? RestReason.userStop.rawValue : nil,
                now, state == .running ? now : nil, start.recipe.notBefore?.milliseconds, start.deadline,
                start.recipe.origin.rawValue, start.recipe.settings, try conditions(of: start),
                start.recipe.paused ? now : nil,
            ]
        )
        let number = db.lastInsertedRowID
        for group in Set(start.groups).sorted() {
            try db.execute(
                sql: "INSERT INTO groups (run, name, state) VALUES (?, ?, ?)",
                arguments: [number, group, GroupState.open.rawValue]
            )
        }
        for hook in start.recipe.hooks {
            try db.execute(
                sql: """
                    INSERT INTO hooks (run, group_name, arguments, timeout, results, state, batch)
                    VALUES (?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    number, hook.group, JSONList.text(hook.arguments), hook.timeout,
                    JSONList.text(hook.results.map(\.rawValue).sorted()), HookRunState.waiting.rawValue,
                    hook.batch,
                ]
            )
        }
    }
}

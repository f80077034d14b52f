import CSQLite
import GRDB
package import SyncModel

extension SyncStore {
    /// Begins an epoch of a session and takes back runs and hooks that earlier holders left running. Decided by
    /// ownership, never by age: the caller holds the session's lease, so no other process does. A repetition changes
    /// nothing.
    ///
    /// - Parameter now: **Milliseconds** since 1970; recorded with each run whose worker was lost.
    /// - Returns: The session's new epoch, runs that were `running` and are now `waiting`, and hooks that were
    ///   `running` and are now `pending`.
    @discardableResult package func recover(session identifier: String, now: Int64 = 0) throws(StoreError) -> (
        epoch: Int64, runs: [String], hooks: [Int64]
    ) {
        try write(.synced) { db in
            var session = try StoredSession.named(identifier, db)
            let running: SQL = "session = \(identifier) AND state = \(RunState.running.rawValue)"
            var runs: [String] = []
            for var run in try StoredRun.all(where: running, db) where try run.lose(now: now, in: self, db) {
                runs.append(run.identifier)
            }
            let hooks = try session.beginEpoch(db)
            return (session.epoch, runs, hooks.map(\.identifier))
        }
    }

    package static let keptRuns = 50
    package static let keptEventBytes = 16 << 20

    /// Prunes history beyond the limits. Sequence numbers continue; a reader is told which events it has missed.
    ///
    /// - Parameters:
    ///   - runs: Ended runs of each session to keep, newest first. Runs with owed hooks, and the last one that
    ///     installed everything, are kept in addition.
    ///   - eventBytes: **Bytes** of events of each session to keep, newest first.
    package func prune(runs: Int = keptRuns, eventBytes: Int = keptEventBytes) throws(StoreError) {
        try write(.eventual) { db in
            for session in try StoredSession.all(db) {
                try Self.pruneRuns(of: session.identifier, keeping: runs, db)
                try Self.pruneEvents(of: session, keeping: eventBytes, db)
            }
        }
        do { try queue.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA incremental_vacuum") } } catch {
            throw StoreError(error)
        }
    }

    /// The condition for runs that have ended and owe nothing. The last run of a session that installed everything is
    /// kept, so that the time since then can be determined.
    private static let isOver: SQL = """
        NOT \(StoredRun.isOpen) AND identifier NOT IN (SELECT run FROM hooks WHERE \(StoredHook.isOwed))
            AND number IS NOT (
                SELECT max(good.number) FROM runs AS good
                WHERE good.session = runs.session AND good.result = \(RunResult.ok.rawValue))
        """

    private static func pruneRuns(of session: String, keeping count: Int, _ db: Database) throws {
        try db.execute(
            literal: """
                DELETE FROM runs WHERE session = \(session) AND \(isOver) AND number NOT IN
                    (SELECT number FROM runs WHERE session = \(session) ORDER BY number DESC LIMIT \(max(0, count)))
                """)
    }

    private static func pruneEvents(of session: StoredSession, keeping bytes: Int, _ db: Database) throws {
        // Newest first until the limit; the row that exceeds it is removed, and all before it.
        var session = session
        var kept = 0
        let rows = try SQLRequest<Row>(
            """
            SELECT first, count, length(payload) AS size FROM events WHERE session = \(session.identifier)
            ORDER BY first DESC
            """
        ).fetchCursor(db)
        while let row = try rows.next() {
            kept += try row.decode(Int.self, forColumn: "size")
            guard kept > bytes else { continue }
            let first = try row.decode(Int64.self, forColumn: "first")
            let last = first.saturatingAdd(try row.decode(Int64.self, forColumn: "count")).saturatingSubtract(1)
            try db.execute(literal: "DELETE FROM events WHERE session = \(session.identifier) AND first <= \(first)")
            try session.updateChanges(db) { $0.prunedSequence = max($0.prunedSequence, last) }
            return
        }
    }

    /// Checks for inconsistencies: SQLite's own check, broken references, states that cannot last.
    ///
    /// - Returns: One line per finding; empty if there are none.
    package func findings() throws(StoreError) -> [String] {
        try read { db in
            var found = try String.fetchAll(db, sql: "PRAGMA quick_check(20)")
            if found == ["ok"] { found = [] }
            found += try Row.fetchAll(db, sql: "PRAGMA foreign_key_check").map { row in
                "a row of \(row["table"] as String) refers to a row of \(row["parent"] as String) that is not there"
            }
            for (what, query) in Self.illegal {
                found += try SQLRequest<String>(literal: query).fetchAll(db).map { "\(what): \(escaped($0))" }
            }
            return found
        }
    }

    /// Queries for rows that no sequence of calls may leave behind.
    private static let illegal: [(String, SQL)] = [
        ("run in no known state", "SELECT identifier FROM runs WHERE NOT \(SQL.isAny("state", of: RunState.allCases))"),
        (
            "two runs of one session running",
            """
            SELECT min(identifier) FROM runs WHERE state = \(RunState.running.rawValue)
            GROUP BY session HAVING count(*) > 1
            """
        ),
        (
            "run running in an epoch that is over",
            """
            SELECT runs.identifier FROM runs JOIN sessions ON sessions.identifier = runs.session
            WHERE runs.state = \(RunState.running.rawValue) AND runs.epoch <> sessions.epoch
            """
        ),
        (
            "finished run with an open group",
            """
            SELECT runs.identifier FROM runs JOIN groups ON groups.run = runs.identifier
            WHERE groups.state = \(GroupState.open.rawValue) AND NOT \(StoredRun.isOpen)
            """
        ),
        (
            "finished run without a result",
            "SELECT identifier FROM runs WHERE state = \(RunState.finished.rawValue) AND (result IS NULL OR finished IS NULL)"
        ),
        ("hook in no known state", "SELECT id FROM hooks WHERE NOT \(SQL.isAny("state", of: HookRunState.allCases))"),
        (
            "hook owed before its group is complete",
            """
            SELECT hooks.id FROM hooks JOIN groups ON groups.run = hooks.run AND groups.name = hooks.group_name
            WHERE \(SQL.isAny("hooks.state", of: [HookRunState.pending, .running, .done, .failed]))
                AND groups.state <> \(GroupState.completed.rawValue)
            """
        ),
        (
            "hook waiting for a group that is over",
            """
            SELECT hooks.id FROM hooks JOIN groups ON groups.run = hooks.run AND groups.name = hooks.group_name
            WHERE hooks.state = \(HookRunState.waiting.rawValue) AND groups.state <> \(GroupState.open.rawValue)
            """
        ),
        (
            "task in a state that cannot rest",
            "SELECT path FROM tasks WHERE NOT \(SQL.isAny("state", of: [TaskState.waiting, .paused, .failed, .cancelled]))"
        ),
        (
            "events with a gap",
            """
            SELECT 'session ' || session || ' at ' || first FROM (
                SELECT session, first, lag(first + count) OVER (PARTITION BY session ORDER BY first) AS expected
                FROM events
            ) WHERE expected IS NOT NULL AND expected <> first
            """
        ),
        (
            "events that do not end where the session says",
            """
            SELECT sessions.identifier FROM sessions JOIN events ON events.session = sessions.identifier
            GROUP BY sessions.identifier HAVING max(events.first + events.count) <> sessions.next_seq
            """
        ),
    ]
}

extension SyncStore {
    /// The version of the SQLite in use, such as `3.40.1`.
    package static var sqliteVersion: String { String(cString: sqlite3_libversion()) }

    /// What ``prune(runs:eventBytes:)`` would remove at present: ended runs, and **bytes** of events.
    package func prunable() throws(StoreError) -> (runs: Int, eventBytes: Int) {
        try read { db in
            let runs = try SQLRequest<Int>(
                """
                SELECT count(*) FROM (
                    SELECT *, row_number() OVER (PARTITION BY session ORDER BY number DESC) AS place FROM runs
                ) AS runs WHERE place > \(Self.keptRuns) AND \(Self.isOver)
                """
            ).fetchOne(db)
            let bytes = try SQLRequest<Int>(
                """
                SELECT coalesce(sum(size), 0) FROM (
                    SELECT length(payload) AS size,
                        sum(length(payload)) OVER (PARTITION BY session ORDER BY first DESC) AS total
                    FROM events
                ) WHERE total > \(Self.keptEventBytes)
                """
            ).fetchOne(db)
            return (runs ?? 0, bytes ?? 0)
        }
    }

    /// The manifests that may still be needed: those of open runs, of runs with owed hooks, and of the latest run of
    /// each session.
    package func neededManifests() throws(StoreError) -> Set<SHA256Digest> {
        try read { db in
            let manifests = try SQLRequest<String>(
                """
                SELECT manifest FROM runs WHERE \(StoredRun.isOpen)
                    OR number IN (SELECT max(number) FROM runs GROUP BY session)
                    OR identifier IN (SELECT run FROM hooks WHERE \(StoredHook.isOwed))
                """
            ).fetchAll(db)
            return Set(manifests.compactMap(SHA256Digest.init(hex:)))
        }
    }
}

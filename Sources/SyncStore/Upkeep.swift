import CSQLite
import GRDB
package import SyncModel

/// How much history to keep.
package struct KeepLimits: Sendable, Equatable {
    /// Ended runs of each session, newest first; those with owed hooks are kept besides.
    package var runs = 50
    /// **Bytes** of events of each session, newest first.
    package var eventBytes = 16 << 20
    /// **Milliseconds** that a host or a redirect is remembered without being used.
    package var memoryAge: Int64 = 90 * 86_400_000

    package init() {}
}

/// What was found to belong to no living process, and given back.
package struct Recovery: Sendable, Equatable {
    /// The session's epoch from here on.
    package let epoch: Int64
    /// Runs that were `running` and are `waiting` now.
    package let runs: [String]
    /// Hooks that were `running` and are `pending` now.
    package let hooks: [Int64]
}

extension SyncStore {
    /// Begins an epoch of a session and gives back what its earlier holders left running. By ownership, never by
    /// age: the caller holds the session, so everybody else is gone. Twice is once.
    ///
    /// - Parameter now: **Milliseconds** since 1970; remembered with each run whose worker was lost.
    package func recover(session identifier: String, now: Int64 = 0) throws(StoreError) -> Recovery {
        try write(.synced) { db in
            var session = try StoredSession.named(identifier, db)
            let running = StoredRun.all(
                where: "sessions.identifier = \(identifier) AND runs.state = \(RunState.running.rawValue)")
            var runs: [String] = []
            let live = liveFiles(of: identifier)
            for var run in try running.fetchAll(db) where try run.lose(now: now, live, db) {
                runs.append(run.identifier)
            }
            let hooks = try session.beginEpoch(db)
            return Recovery(epoch: session.epoch, runs: runs, hooks: hooks.map(\.identifier))
        }
    }

    /// Drops history beyond the limits. Sequence numbers go on; a reader is told what it has missed.
    ///
    /// - Parameter limits: What to keep.
    package func prune(_ limits: KeepLimits = KeepLimits(), now: Int64) throws(StoreError) {
        try write(.eventual) { db in
            for session in try StoredSession.fetchAll(db, sql: "SELECT * FROM sessions") {
                try Self.pruneRuns(of: session, keeping: limits.runs, db)
                try Self.pruneEvents(of: session, keeping: limits.eventBytes, db)
            }
            let oldest = now - limits.memoryAge
            try db.execute(literal: "DELETE FROM hosts WHERE updated < \(oldest)")
            try db.execute(literal: "DELETE FROM redirects WHERE updated < \(oldest)")
        }
        do { try queue.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA incremental_vacuum") } } catch {
            throw StoreError(error)
        }
    }

    /// Runs that are over and owe nothing.
    private static let isOver: SQL = """
        NOT \(StoredRun.isOpen) AND number NOT IN (SELECT run FROM hooks WHERE \(StoredHook.isOwed))
        """

    private static func pruneRuns(of session: StoredSession, keeping count: Int, _ db: Database) throws {
        let session = session.record.id
        try db.execute(
            literal: """
                DELETE FROM runs WHERE session = \(session) AND \(isOver) AND number NOT IN
                    (SELECT number FROM runs WHERE session = \(session) ORDER BY number DESC LIMIT \(max(0, count)))
                """)
    }

    private static func pruneEvents(of session: StoredSession, keeping bytes: Int, _ db: Database) throws {
        // Newest first until the bound is reached; the row that crosses it goes, and all before it.
        var session = session
        var kept = 0
        let rows = try SQLRequest<Row>(
            """
            SELECT first, count, length(payload) AS size FROM events WHERE session = \(session.record.id)
            ORDER BY first DESC
            """
        ).fetchCursor(db)
        while let row = try rows.next() {
            kept += try row.decode(Int.self, forColumn: "size")
            guard kept > bytes else { continue }
            let first = try row.decode(Int64.self, forColumn: "first")
            let last = first.saturatingAdd(try row.decode(Int64.self, forColumn: "count")).saturatingSubtract(1)
            try db.execute(literal: "DELETE FROM events WHERE session = \(session.record.id) AND first <= \(first)")
            try session.record.updateChanges(db) { $0.prunedSeq = max($0.prunedSeq, last) }
            return
        }
    }

    /// Looks for what must not be: SQLite's own check, broken references, states that cannot rest.
    ///
    /// - Returns: One line a finding; empty when all is well.
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

    /// Each query names rows that no sequence of calls may leave behind.
    private static let illegal: [(String, SQL)] = [
        ("run in no known state", "SELECT id FROM runs WHERE NOT \(SQL.isAny("state", of: RunState.allCases))"),
        (
            "two runs of one session running",
            """
            SELECT min(id) FROM runs WHERE state = \(RunState.running.rawValue)
            GROUP BY session HAVING count(*) > 1
            """
        ),
        (
            "run running in an epoch that is over",
            """
            SELECT runs.id FROM runs JOIN sessions ON sessions.id = runs.session
            WHERE runs.state = \(RunState.running.rawValue) AND runs.epoch <> sessions.epoch
            """
        ),
        (
            "finished run with an open group",
            """
            SELECT runs.id FROM runs JOIN groups ON groups.run = runs.number
            WHERE groups.state = \(GroupState.open.rawValue) AND NOT \(StoredRun.isOpen)
            """
        ),
        (
            "finished run without a result",
            "SELECT id FROM runs WHERE state = \(RunState.finished.rawValue) AND (result IS NULL OR finished IS NULL)"
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
            SELECT sessions.identifier FROM sessions JOIN events ON events.session = sessions.id
            GROUP BY sessions.id HAVING max(events.first + events.count) <> sessions.next_seq
            """
        ),
    ]
}

/// What pruning would drop.
package struct PrunableHistory: Sendable, Equatable {
    /// Ended runs.
    package let runs: Int
    /// **Bytes** of events.
    package let eventBytes: Int
}

extension SyncStore {
    /// The version of SQLite that is in use, such as `3.40.1`.
    package static var sqliteVersion: String { String(cString: sqlite3_libversion()) }

    /// What ``prune(_:now:)`` would drop at present.
    package func prunable(_ limits: KeepLimits = KeepLimits()) throws(StoreError) -> PrunableHistory {
        try read { db in
            let runs = try SQLRequest<Int>(
                """
                SELECT count(*) FROM (
                    SELECT *, row_number() OVER (PARTITION BY session ORDER BY number DESC) AS place FROM runs
                ) AS runs WHERE place > \(max(0, limits.runs)) AND \(Self.isOver)
                """
            ).fetchOne(db)
            let bytes = try SQLRequest<Int>(
                """
                SELECT coalesce(sum(size), 0) FROM (
                    SELECT length(payload) AS size,
                        sum(length(payload)) OVER (PARTITION BY session ORDER BY first DESC) AS total
                    FROM events
                ) WHERE total > \(limits.eventBytes)
                """
            ).fetchOne(db)
            return PrunableHistory(runs: runs ?? 0, eventBytes: bytes ?? 0)
        }
    }

    /// The manifests that somebody may still ask for: those of open runs, and of the latest run of each session.
    package func neededManifests() throws(StoreError) -> Set<SHA256Digest> {
        try read { db in
            let manifests = try SQLRequest<BlobColumn>(
                """
                SELECT manifest FROM runs WHERE \(StoredRun.isOpen)
                    OR number IN (SELECT max(number) FROM runs GROUP BY session)
                    OR number IN (SELECT run FROM hooks WHERE \(StoredHook.isOwed))
                """
            ).fetchAll(db)
            return Set(manifests.compactMap { SHA256Digest($0) })
        }
    }
}

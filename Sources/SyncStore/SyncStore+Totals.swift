import GRDB
import SyncModel

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
}

extension SyncStore {
    /// Adds what one process did for a run of a session. Its runs are counted where they end.
    ///
    /// - Throws: ``StoreError``.
    package func add(_ work: SessionTotals, to session: String) throws(StoreError) {
        try write(.eventual) { db in
            try db.execute(
                sql: """
                    INSERT INTO totals (session, received, requests, files, elapsed) VALUES (?, ?, ?, ?, ?)
                    ON CONFLICT (session) DO UPDATE SET received = received + excluded.received,
                        requests = requests + excluded.requests, files = files + excluded.files,
                        elapsed = elapsed + excluded.elapsed
                    """,
                arguments: [
                    try Self.existing(session, db).rowID, Int64(clamping: work.received),
                    Int64(clamping: work.requests), Int64(clamping: work.files), max(0, work.elapsed),
                ]
            )
        }
    }

    /// The totals of every session that has some.
    ///
    /// - Throws: ``StoreError``.
    package func totals() throws(StoreError) -> [String: SessionTotals] {
        try read { db in
            let rows = try Row.fetchAll(
                db,
                sql: "SELECT totals.*, identifier FROM totals JOIN sessions ON sessions.id = totals.session"
            )
            return Dictionary(rows.map { ($0["identifier"] as String, SessionTotals($0)) }) { first, _ in
                first
            }
        }
    }

    /// Counts a run that has come to its end.
    static func countEnd(of session: Int64, result: RunResult, _ db: Database) throws {
        let column = result.rawValue
        try db.execute(
            sql: """
                INSERT INTO totals (session, \(column)) VALUES (?, 1)
                ON CONFLICT (session) DO UPDATE SET \(column) = \(column) + 1
                """,
            arguments: [session]
        )
    }
}

extension SessionTotals {
    init(_ row: Row) {
        received = UInt64(clamping: row["received"] as Int64)
        requests = UInt64(clamping: row["requests"] as Int64)
        files = UInt64(clamping: row["files"] as Int64)
        elapsed = row["elapsed"]
        ok = row["ok"]
        partial = row["partial"]
        failed = row["failed"]
    }
}

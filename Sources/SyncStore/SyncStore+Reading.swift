import CSQLite
import GRDB
package import SyncModel

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
    ///
    /// - Throws: ``StoreError``.
    package func prunable(_ limits: KeepLimits = KeepLimits()) throws(StoreError) -> PrunableHistory {
        try read { db in
            let runs = try Int.fetchOne(
                db,
                sql: """
                    SELECT count(*) FROM (
                        SELECT number, state, row_number() OVER (PARTITION BY session ORDER BY number DESC) AS place
                        FROM runs
                    ) WHERE place > ? AND state NOT IN ('waiting', 'running', 'paused')
                        AND number NOT IN (SELECT run FROM hooks WHERE state IN ('pending', 'running'))
                    """,
                arguments: [max(0, limits.runs)]
            )
            let bytes = try Int.fetchOne(
                db,
                sql: """
                    SELECT coalesce(sum(size), 0) FROM (
                        SELECT length(payload) AS size,
                            sum(length(payload)) OVER (PARTITION BY session ORDER BY first DESC) AS total
                        FROM events
                    ) WHERE total > ?
                    """,
                arguments: [limits.eventBytes]
            )
            return PrunableHistory(runs: runs ?? 0, eventBytes: bytes ?? 0)
        }
    }

    /// The manifests that somebody may still ask for: those of open runs, and of the latest run of each session.
    ///
    /// - Throws: ``StoreError``.
    package func neededManifests() throws(StoreError) -> Set<SHA256Digest> {
        try read { db in
            let rows = try Row.fetchAll(
                db,
                sql: """
                    SELECT manifest FROM runs WHERE state IN ('waiting', 'running', 'paused')
                        OR number IN (SELECT max(number) FROM runs GROUP BY session)
                        OR number IN (SELECT run FROM hooks WHERE state IN ('pending', 'running'))
                    """
            )
            return Set(rows.compactMap { SHA256Digest($0["manifest"] as Blob) })
        }
    }
}

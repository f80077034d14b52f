import GRDB
package import SyncModel

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

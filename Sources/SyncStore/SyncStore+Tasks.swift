import GRDB
package import SyncModel

/// Why a task ended without its file. All others have no row: which state each row of a manifest is in stands in
/// ``TaskFile``.
package struct StoredTask: Sendable, Equatable {
    /// With ``digest`` the task's name; never a URL (S66, S72).
    package var path: String
    package var digest: SHA256Digest
    /// `failed` or `cancelled`.
    package var state: TaskState
    /// Why, for people.
    package var reason: String

    package init(path: String, digest: SHA256Digest, state: TaskState, reason: String) {
        self.path = path
        self.digest = digest
        self.state = state
        self.reason = reason
    }

    init(_ row: Row) throws {
        path = row["path"]
        guard let digest = SHA256Digest(row["digest"] as Blob), let state = TaskState(rawValue: row["state"])
        else {
            throw StoreError.unreadable("task \(path)")
        }
        self.digest = digest
        self.state = state
        // Earlier versions had both.
        reason = row["error"] ?? row["reason"] ?? ""
    }
}

extension SyncStore {
    /// Rows of one run at most: who has more failures than that reads them in the events.
    package static let mostTasks = 10_000

    /// Records why tasks ended without their files, in one transaction.
    ///
    /// - Parameters:
    ///   - tasks: The tasks; those beyond ``mostTasks`` are left out.
    ///   - run: Their run.
    ///   - now: **Milliseconds** since 1970.
    /// - Throws: ``StoreError``.
    package func record(_ tasks: [StoredTask], of run: String, now: Int64) throws(StoreError) {
        try write(.eventual) { db in
            let number = try Self.run(run, db).number
            let known =
                try Int.fetchOne(db, sql: "SELECT count(*) FROM tasks WHERE run = ?", arguments: [number])
                ?? 0
            for task in tasks.prefix(max(0, Self.mostTasks - known)) {
                try db.execute(
                    sql: """
                        INSERT OR REPLACE INTO tasks (run, path, digest, state, error, updated)
                        VALUES (?, ?, ?, ?, ?, ?)
                        """,
                    arguments: [number, task.path, task.digest.blob, task.state.rawValue, task.reason, now]
                )
            }
        }
    }

    /// Nothing has failed yet: a process takes the run up and tries again.
    ///
    /// - Throws: ``StoreError``.
    package func forgetTasks(of run: String) throws(StoreError) {
        try write(.eventual) { db in
            try db.execute(
                sql: "DELETE FROM tasks WHERE run = ?",
                arguments: [Self.run(run, db).number]
            )
        }
    }

    /// The tasks of a run that ended without their files, by path.
    ///
    /// - Parameter run: The run.
    /// - Returns: The tasks.
    /// - Throws: ``StoreError``.
    package func tasks(of run: String) throws(StoreError) -> [StoredTask] {
        try read { db in
            try Row.fetchAll(
                db,
                sql: "SELECT * FROM tasks WHERE run = ? ORDER BY path, digest",
                arguments: [Self.run(run, db).number]
            ).map(StoredTask.init)
        }
    }
}

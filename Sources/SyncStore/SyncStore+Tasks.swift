import GRDB
package import SyncModel

/// A task that deviates from what its run says of all: paused, failed, cancelled, waiting for a reason, or wanted
/// sooner. All others have no row: waiting ones are in the manifest, installed ones in the destination's index.
package struct StoredTask: Sendable, Equatable {
    /// With ``digest`` the task's name; never a URL (S66, S72).
    package var path: String
    package var digest: SHA256Digest
    package var state: TaskState
    /// Why it waits or was stopped: `connectivity`, `user_stop`, `metered` … (S27, S51).
    package var reason: String?
    /// What went wrong last, for people.
    package var error: String?
    /// Larger goes first.
    package var priority: Int
    /// Not to be tried earlier, **milliseconds** since 1970 (S53).
    package var due: Int64?
    /// Attempts that have failed.
    package var attempts: Int

    package init(
        path: String,
        digest: SHA256Digest,
        state: TaskState,
        reason: String? = nil,
        error: String? = nil,
        priority: Int = 0,
        due: Int64? = nil,
        attempts: Int = 0
    ) {
        self.path = path
        self.digest = digest
        self.state = state
        self.reason = reason
        self.error = error
        self.priority = priority
        self.due = due
        self.attempts = attempts
    }

    /// Whether there is anything about it that the run, the manifest and the index do not say.
    var deviates: Bool {
        switch state {
        case .installed, .unchanged: false
        case .waiting, .running: reason != nil || error != nil || priority != 0 || due != nil || attempts != 0
        case .paused, .failed, .cancelled: true
        }
    }

    /// What rests of it when its process is gone: a task is never stored as running (S105).
    var atRest: StoredTask {
        var task = self
        if case .be(let state, _) = task.state.after(.agentGone) { task.state = state }
        return task
    }

    init(_ row: Row) throws {
        path = row["path"]
        guard let digest = SHA256Digest(row["digest"] as Blob), let state = TaskState(rawValue: row["state"])
        else {
            throw StoreError.unreadable("task \(path)")
        }
        self.digest = digest
        self.state = state
        reason = row["reason"]
        error = row["error"]
        priority = row["priority"]
        due = row["due"]
        attempts = row["attempts"]
    }
}

extension SyncStore {
    /// Records where tasks stand, in one transaction; those that no longer deviate lose their row.
    ///
    /// - Parameters:
    ///   - tasks: The tasks.
    ///   - run: Their run.
    ///   - now: **Milliseconds** since 1970.
    ///   - durability: `synced` for what a person was promised.
    /// - Throws: ``StoreError``.
    package func record(
        _ tasks: [StoredTask],
        of run: String,
        now: Int64,
        durability: Durability = .eventual
    ) throws(StoreError) {
        try write(durability) { db in
            let number = try Self.run(run, db).number
            for task in tasks.lazy.map(\.atRest) {
                if task.deviates {
                    try db.execute(
                        sql: """
                            INSERT OR REPLACE INTO tasks
                                (run, path, digest, state, reason, error, priority, due, attempts, updated)
                            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                            """,
                        arguments: [
                            number, task.path, task.digest.blob, task.state.rawValue, task.reason, task.error,
                            task.priority, task.due, task.attempts, now,
                        ]
                    )
                } else {
                    try db.execute(
                        sql: "DELETE FROM tasks WHERE run = ? AND path = ? AND digest = ?",
                        arguments: [number, task.path, task.digest.blob]
                    )
                }
            }
        }
    }

    /// The tasks of a run that deviate, most wanted first.
    ///
    /// - Parameter run: The run.
    /// - Returns: The tasks.
    /// - Throws: ``StoreError``.
    package func deviatingTasks(of run: String) throws(StoreError) -> [StoredTask] {
        try read { db in
            try Row.fetchAll(
                db,
                sql: "SELECT * FROM tasks WHERE run = ? ORDER BY priority DESC, path, digest",
                arguments: [Self.run(run, db).number]
            ).map(StoredTask.init)
        }
    }
}

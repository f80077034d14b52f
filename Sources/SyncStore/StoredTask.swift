import GRDB
package import SyncModel

/// The reason why a task ended without its file. Other tasks have no row; the states of all rows of a manifest are in
/// ``TaskFile``.
package struct StoredTask: Decodable, FetchableRecord, Sendable, Equatable {
    /// Identifies the task together with ``digest``; never a URL.
    package var path: String
    package var digest: SHA256Digest
    /// `failed` or `cancelled`.
    package var state: TaskState
    /// The reason, for people.
    package var reason: String

    package init(path: String, digest: SHA256Digest, state: TaskState, reason: String) {
        (self.path, self.digest, self.state, self.reason) = (path, digest, state, reason)
    }
}

extension SyncStore {
    /// The most rows that one run keeps. Any failures beyond these are in the events only.
    package static let mostTasks = 10_000

    /// Records tasks that ended without their files, in one transaction.
    ///
    /// - Parameter tasks: The tasks; those beyond ``mostTasks`` are left out.
    package func record(_ tasks: [StoredTask], of run: String) throws(StoreError) {
        try write(.eventual) { db in
            let run = try StoredRun.named(run, db).identifier
            let known = try SQLRequest<Int>("SELECT count(*) FROM tasks WHERE run = \(run)").fetchOne(db) ?? 0
            for task in tasks.prefix(max(0, Self.mostTasks - known)) {
                try db.execute(
                    literal: """
                        INSERT OR REPLACE INTO tasks (run, path, digest, state, reason)
                        VALUES (\(run), \(task.path), \(task.digest.hex), \(task.state.rawValue), \(task.reason))
                        """)
            }
        }
    }

    /// Removes the records of failed tasks, when a process starts the run again.
    package func forgetTasks(of run: String) throws(StoreError) {
        try write(.eventual) { db in try db.execute(literal: "DELETE FROM tasks WHERE run = \(run)") }
    }

    /// The tasks of a run that ended without their files, by path.
    package func tasks(of run: String) throws(StoreError) -> [StoredTask] {
        try read { db in
            try StoredTask.read("task", by: "path", "SELECT * FROM tasks WHERE run = \(run) ORDER BY path, digest", db)
        }
    }
}

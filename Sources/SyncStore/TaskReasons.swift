import GRDB
package import SyncModel

// The reasons why tasks ended without their files. Other tasks have no row; the states of all rows of a manifest are in
// the file of a ``TaskTracker``.
extension SyncStore {
    /// The most rows that one run keeps. Any failures beyond these are in the events only.
    package static let mostTasks = 10_000

    /// Records tasks that ended without their files, in one transaction.
    ///
    /// - Parameter tasks: Failed or cancelled ones, each known by its path and digest, never by a URL; those beyond
    ///   ``mostTasks`` are left out.
    package func record(_ tasks: [TaskStatus], of run: String) throws(StoreError) {
        try write(.eventual) { db in
            let run = try StoredRun.named(run, db).identifier
            let known = try SQLRequest<Int>("SELECT count(*) FROM tasks WHERE run = \(run)").fetchOne(db) ?? 0
            for task in tasks.prefix(max(0, Self.mostTasks - known)) {
                try db.execute(
                    literal: """
                        INSERT OR REPLACE INTO tasks (run, path, digest, state, reason)
                        VALUES (\(run), \(task.path), \(task.sha256 ?? SHA256Digest.zero.hex), \(task.state.rawValue),
                        \(task.reason ?? ""))
                        """)
            }
        }
    }

    /// Removes the records of failed tasks, when a process starts the run again.
    package func forgetTasks(of run: String) throws(StoreError) {
        try write(.eventual) { db in try db.execute(literal: "DELETE FROM tasks WHERE run = \(run)") }
    }

    /// Why tasks of a run ended without their files, by path.
    package func reasons(of run: String) throws(StoreError) -> [(path: String, reason: String)] {
        try read { db in
            try SQLRequest<Row>("SELECT path, reason FROM tasks WHERE run = \(run) ORDER BY path, digest").fetchAll(db)
                .map { row in
                    guard let path = String.fromDatabaseValue(row["path"]),
                        let reason = String.fromDatabaseValue(row["reason"])
                    else { throw StoreError.unreadable("task \(row["path"] ?? "")") }
                    return (path, reason)
                }
        }
    }
}

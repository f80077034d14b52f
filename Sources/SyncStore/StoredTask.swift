import GRDB
package import SyncModel

/// Why a task ended without its file. All others have no row: which state each row of a manifest is in stands in
/// ``TaskFile``.
package struct StoredTask: Sendable, Equatable {
    /// With ``digest`` the task's name; never a URL.
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

    fileprivate init(_ record: TaskRecord) throws {
        guard let digest = SHA256Digest(record.digest) else { throw StoreError.unreadable("task \(record.path)") }
        (path, self.digest, state) = (record.path, digest, record.state)
        // Earlier versions had both.
        reason = record.error ?? record.reason ?? ""
    }
}

private struct TaskRecord: StoreRecord {
    static let databaseTableName = "tasks"

    var run: Int64
    var path: String
    var digest: BlobColumn
    var state: TaskState
    var reason: String?
    var error: String?
    var updated: Int64
}

extension SyncStore {
    /// The most rows that one run keeps. Any failures beyond these are in the events only.
    package static let mostTasks = 10_000

    /// Records why tasks ended without their files, in one transaction.
    ///
    /// - Parameter tasks: The tasks; those beyond ``mostTasks`` are left out.
    package func record(_ tasks: [StoredTask], of run: String, now: Int64) throws(StoreError) {
        try write(.eventual) { db in
            let run = try StoredRun.named(run, db).number
            let known = try SQLRequest<Int>("SELECT count(*) FROM tasks WHERE run = \(run)").fetchOne(db) ?? 0
            for task in tasks.prefix(max(0, Self.mostTasks - known)) {
                var record = TaskRecord(
                    run: run, path: task.path, digest: task.digest.blob, state: task.state, error: task.reason,
                    updated: now)
                try record.insert(db, onConflict: .replace)
            }
        }
    }

    /// Nothing has failed yet: a process takes the run up and tries again.
    package func forgetTasks(of run: String) throws(StoreError) {
        try write(.eventual) { db in
            try db.execute(literal: "DELETE FROM tasks WHERE run = \(StoredRun.named(run, db).number)")
        }
    }

    /// The tasks of a run that ended without their files, by path.
    package func tasks(of run: String) throws(StoreError) -> [StoredTask] {
        try read { db in
            let run = try StoredRun.named(run, db).number
            let rows = try SQLRequest<Row>("SELECT * FROM tasks WHERE run = \(run) ORDER BY path, digest").fetchAll(db)
            return try rows.map { try StoredTask(TaskRecord($0, of: "task \($0.shown("path"))")) }
        }
    }
}

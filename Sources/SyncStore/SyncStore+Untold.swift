import GRDB
package import SyncModel

/// The work of a session of which a file hook has not yet accepted the files.
package struct UntoldWork: Sendable, Equatable {
    /// When the first of it began, **milliseconds** since 1970.
    package let since: Int64
    /// It begins behind the first `group.completed` that comes after this event; `nil` for the very first event …
    package let after: Int64?
    /// … and ends at the first `group.completed` after this one; `nil` where that has not been told.
    package let through: Int64?
    /// Whether none of them has been dropped.
    package let isOnRecord: Bool
}

extension SyncStore {
    /// What a hook that gets files has to be handed besides what its own run changes: everything since the last run
    /// after which a hook of the same kind did its work, or had nothing to do. A run in which it failed, or that was cut
    /// short, or ended with a result it is not asked for, leaves its files to the next.
    ///
    /// - Parameters:
    ///   - hook: A hook of a run.
    ///   - includingOwn: Whether what its own run has put in place counts, too: another process has done it.
    /// - Returns: `nil` when there is nothing.
    /// - Throws: ``StoreError``.
    package func untold(_ hook: StoredHook, includingOwn: Bool) throws(StoreError) -> UntoldWork? {
        try read { db in
            let run = try Self.run(hook.run, db)
            let session = try Self.existing(hook.session, db)
            let told = try Self.lastAccepted(hook, before: run.number, session.rowID, db)
            let since = try Int64.fetchOne(
                db,
                sql: "SELECT min(started) FROM runs WHERE session = ? AND number > ? AND number <= ?",
                arguments: [session.rowID, told, includingOwn ? run.number : run.number - 1]
            )
            guard let since else { return nil }
            let after = try Self.lastEvent(of: hook.group, in: told, db)
            return UntoldWork(
                since: since,
                after: after,
                through: try Self.lastEvent(of: hook.group, in: run.number, db),
                isOnRecord: session.prunedSequence <= after ?? 0
            )
        }
    }

    /// The run up to which a hook of this kind has been told everything; 0 for none.
    private static func lastAccepted(
        _ hook: StoredHook,
        before run: Int64,
        _ session: Int64,
        _ db: Database
    ) throws -> Int64 {
        let kind: StatementArguments = [session, run, hook.group, JSONList.text(hook.arguments)]
        let same = """
            FROM hooks JOIN runs ON runs.number = hooks.run
            WHERE runs.session = ? AND runs.number < ? AND hooks.group_name = ? AND hooks.arguments = ?
                AND hooks.batch IS NOT NULL
            """
        let accepted = try Int64.fetchOne(
            db,
            sql: "SELECT max(runs.number) \(same) AND (hooks.state = 'done' OR hooks.ended = ?)",
            arguments: kind + [StoredHook.nothingChanged]
        )
        if let accepted { return accepted }
        // A new hook gets what changes from its first run on, with what was cut short before that.
        let first = try Int64.fetchOne(db, sql: "SELECT min(runs.number) \(same)", arguments: kind) ?? run
        let results = hook.results.map(\.rawValue).sorted()
        let marks = Array(repeating: "?", count: results.count).joined(separator: ", ")
        return try Int64.fetchOne(
            db,
            sql: """
                SELECT max(runs.number) FROM runs JOIN groups ON groups.run = runs.number
                WHERE runs.session = ? AND runs.number < ? AND groups.name = ?
                    AND groups.state = 'completed' AND groups.result IN (\(marks))
                """,
            arguments: [session, first, hook.group] + StatementArguments(results)
        ) ?? 0
    }

    /// The last event that was on record when a group of a run was complete; `nil` when it was not.
    private static func lastEvent(of group: String, in run: Int64, _ db: Database) throws -> Int64? {
        try Int64.fetchOne(
            db,
            sql: "SELECT last_seq FROM groups WHERE run = ? AND name = ?",
            arguments: [run, group]
        )
    }

    /// Whether a run of a manifest is open, or hooks of one are owed.
    ///
    /// - Throws: ``StoreError``.
    package func isNeeded(_ manifest: SHA256Digest) throws(StoreError) -> Bool {
        try read { db in
            try Bool.fetchOne(
                db,
                sql: """
                    SELECT EXISTS (
                        SELECT 1 FROM runs WHERE manifest = ? AND (state IN ('waiting', 'running', 'paused')
                            OR number IN (SELECT run FROM hooks WHERE state IN ('pending', 'running'))))
                    """,
                arguments: [manifest.blob]
            ) ?? false
        }
    }
}

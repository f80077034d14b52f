import GRDB
package import SyncModel

extension SyncStore {
    /// Since when files may have been put in place that a hook of this kind has not been told of, because the work did
    /// not come to its group's end, or came to one the hook is not asked for.
    ///
    /// - Parameters:
    ///   - hook: A hook of the run that is worked on.
    ///   - takenUp: Whether another process has worked on that run before.
    /// - Returns: When the first such work began, **milliseconds** since 1970; `nil` when there was none.
    /// - Throws: ``StoreError``.
    package func untoldSince(_ hook: StoredHook, takenUp: Bool) throws(StoreError) -> Int64? {
        try read { db in
            let run = try Self.run(hook.run, db)
            let told = hook.results.map(\.rawValue).sorted()
            let marks = Array(repeating: "?", count: told.count).joined(separator: ", ")
            return try Int64.fetchOne(
                db,
                sql: """
                    SELECT min(started) FROM runs
                    WHERE session = (SELECT session FROM runs WHERE number = ?) AND number <= ? AND number > coalesce(
                        (SELECT max(others.number) FROM runs AS others JOIN groups ON groups.run = others.number
                        WHERE others.session = runs.session AND others.number < ? AND groups.name = ?
                            AND groups.state = 'completed' AND groups.result IN (\(marks))),
                        0)
                    """,
                arguments: [run.number, takenUp ? run.number : run.number - 1, run.number, hook.group]
                    + StatementArguments(told)
            )
        }
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

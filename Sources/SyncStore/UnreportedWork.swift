import GRDB
package import SyncModel

/// The work of a session whose files a file hook has not accepted yet.
package struct UnreportedWork: Sendable, Equatable {
    /// When the first of it began, **milliseconds** since 1970.
    package let since: Int64
    /// The work begins after the first `group.completed` that comes after this event; `nil` for the very first event …
    package let after: Int64?
    /// … and ends at the first `group.completed` after this one; `nil` if there is none yet.
    package let through: Int64?
    /// Whether none of its events has been pruned.
    package let isOnRecord: Bool
}

extension SyncStore {
    /// The work that a file hook has to be given besides the changes of its own run: everything since the last run
    /// after which a hook of the same kind succeeded, or had nothing to do. A run in which it failed, or that was
    /// interrupted, or ended with a result for which the hook does not run, leaves its files to the next.
    /// - Parameters:
    ///   - hook: A hook of a run.
    ///   - includingOwn: Whether files installed by its own run count, too, since another process installed them.
    /// - Returns: `nil` if there is none.
    package func unreported(_ hook: StoredHook, includingOwn: Bool) throws(StoreError) -> UnreportedWork? {
        try read { db in
            let number = try StoredRun.named(hook.run, db).number ?? 0
            let session = try StoredSession.named(hook.session, db)
            let told = try Self.lastAccepted(hook, before: number, of: session, db)
            let last = number.saturatingSubtract(includingOwn ? 0 : 1)
            let since =
                try SQLRequest<Int64?>(
                    """
                    SELECT min(started) FROM runs
                    WHERE session = \(session.identifier) AND number > \(told) AND number <= \(last)
                    """
                ).fetchOne(db) ?? nil
            guard let since else { return nil }
            let after =
                try SQLRequest<Int64?>(
                    """
                    SELECT last_seq FROM groups JOIN runs ON runs.identifier = groups.run
                    WHERE runs.number = \(told) AND groups.name = \(hook.group)
                    """
                ).fetchOne(db) ?? nil
            return UnreportedWork(
                since: since, after: after, through: try StoredGroup.lastEvent(of: hook.group, in: hook.run, db),
                isOnRecord: session.prunedSequence <= after ?? 0)
        }
    }

    /// The run up to which a hook of this kind has accepted everything; 0 for none.
    private static func lastAccepted(_ hook: StoredHook, before run: Int64, of session: StoredSession, _ db: Database)
        throws -> Int64
    {
        let same: SQL = """
            FROM hooks JOIN runs ON runs.identifier = hooks.run
            WHERE runs.session = \(session.identifier) AND runs.number < \(run) AND hooks.group_name = \(hook.group)
                AND hooks.arguments = (SELECT arguments FROM hooks WHERE id = \(hook.identifier))
                AND hooks.batch IS NOT NULL
            """
        let isAccepted: SQL =
            "(hooks.state = \(HookRunState.done.rawValue) OR hooks.ended = \(StoredHook.nothingChanged))"
        func number(_ query: SQL) throws -> Int64? { try SQLRequest<Int64?>(literal: query).fetchOne(db) ?? nil }
        if let accepted = try number("SELECT max(runs.number) \(same) AND \(isAccepted)") { return accepted }
        // A new hook gets the changes from its first run on, with those of interrupted runs before that.
        let first = try number("SELECT min(runs.number) \(same)") ?? run
        return try number(
            """
            SELECT max(runs.number) FROM runs JOIN groups ON groups.run = runs.identifier
            WHERE runs.session = \(session.identifier) AND runs.number < \(first) AND groups.name = \(hook.group)
                AND groups.state = \(GroupState.completed.rawValue) AND groups.result IN \(hook.results.map(\.rawValue))
            """) ?? 0
    }

    /// Whether a run of a manifest is open, or owes hooks.
    package func isNeeded(_ manifest: SHA256Digest) throws(StoreError) -> Bool {
        try read { db in
            try SQLRequest<Bool>(
                """
                SELECT EXISTS (
                    SELECT 1 FROM runs WHERE manifest = \(manifest.hex) AND (\(StoredRun.isOpen)
                        OR identifier IN (SELECT run FROM hooks WHERE \(StoredHook.isOwed))))
                """
            ).fetchOne(db) ?? false
        }
    }
}

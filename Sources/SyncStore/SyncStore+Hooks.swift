import GRDB
package import SyncModel

/// A group whose every task is terminal.
package struct CompletedGroup: Sendable, Equatable {
    package var name: String
    package var result: RunResult
    /// Files of the group that changed.
    package var changed: Int

    package init(name: String, result: RunResult, changed: Int) {
        self.name = name
        self.result = result
        self.changed = changed
    }
}

extension SyncStore {
    /// Records that groups are complete, with their last events, in one transaction; their hooks are owed from here.
    ///
    /// - Parameters:
    ///   - groups: Groups of the run.
    ///   - run: The run.
    ///   - events: The events that tell it; they come after every task event of the groups (S30).
    ///   - counts: The run's numbers so far, for whoever finishes it.
    ///   - now: **Milliseconds** since 1970.
    /// - Returns: The hooks that are owed now, in the order they were given.
    /// - Throws: ``StoreError``.
    package func complete(
        _ groups: [CompletedGroup],
        of run: String,
        events: [[UInt8]] = [],
        counts: RunCounts? = nil,
        now: Int64
    ) throws(StoreError) -> [StoredHook] {
        let hasHooks = try read { db in
            let found = try Self.run(run, db)
            return try Bool.fetchOne(
                db,
                sql: "SELECT EXISTS (SELECT 1 FROM hooks WHERE run = ?)",
                arguments: [found.number]
            ) ?? false
        }
        return try write(hasHooks ? .synced : .eventual) { db in
            let found = try Self.run(run, db)
            let session = try Self.existing(found.session, db)
            let last = session.lastSequence
            for group in groups {
                guard try Self.moveGroup(found.number, group.name, .settled, db) else { continue }
                try db.execute(
                    sql: """
                        UPDATE groups SET result = ?, changed = ?, last_seq = ?, completed = ?
                        WHERE run = ? AND name = ?
                        """,
                    arguments: [group.result.rawValue, group.changed, last, now, found.number, group.name]
                )
                for hook in try Self.hooks(run: found.number, group: group.name, db) {
                    try Self.move(hook, hook.results.contains(group.result) ? .groupCompleted : .dropped, db)
                }
            }
            if let counts {
                try db.execute(
                    sql: "UPDATE runs SET \(RunCounts.assignments) WHERE number = ?",
                    arguments: counts.arguments + [found.number]
                )
            }
            try self.append(events, to: session, time: now, db)
            return try Self.hooks(where: "hooks.run = ? AND hooks.state = 'pending'", [found.number], db)
        }
    }

    /// The hooks that are owed: their group is complete and they have not ended, whoever began them (S19).
    ///
    /// - Parameter session: Only this session's.
    /// - Returns: Oldest first. A `running` one belongs to a process that holds the session, or to none.
    /// - Throws: ``StoreError``.
    package func owedHooks(session: String? = nil) throws(StoreError) -> [StoredHook] {
        try read { db in
            try Self.hooks(
                where: "hooks.state IN ('pending', 'running') AND (?1 IS NULL OR sessions.identifier = ?1)",
                [session],
                db
            )
        }
    }

    /// Hooks, newest first.
    ///
    /// - Parameters:
    ///   - run: Only this run's.
    ///   - session: Only this session's.
    ///   - limit: At most so many.
    /// - Returns: The hooks.
    /// - Throws: ``StoreError``.
    package func hooks(run: String? = nil, session: String? = nil, limit: Int = 100) throws(StoreError)
        -> [StoredHook]
    {
        try read { db in
            try Row.fetchAll(
                db,
                sql: StoredHook.query + """
                     WHERE (?1 IS NULL OR runs.id = ?1) AND (?2 IS NULL OR sessions.identifier = ?2)
                    ORDER BY hooks.id DESC LIMIT ?3
                    """,
                arguments: [run, session, limit]
            ).map { try StoredHook($0, db) }
        }
    }

    /// A hook by its number.
    ///
    /// - Throws: ``StoreError`` with code `unknown`.
    package func hook(_ identifier: Int64) throws(StoreError) -> StoredHook {
        try read { db in try Self.hook(identifier, db) }
    }

    /// Records that an attempt begins, before it does: a crash inside it gives the next one a higher number.
    ///
    /// - Parameters:
    ///   - identifier: The hook.
    ///   - now: **Milliseconds** since 1970.
    /// - Returns: The attempt, from 1.
    /// - Throws: ``StoreError``; `refused` when it is not owed, or running.
    package func started(hook identifier: Int64, now: Int64) throws(StoreError) -> Int {
        try write(.synced) { db in
            let hook = try Self.hook(identifier, db)
            try Self.move(hook, .started, db)
            try db.execute(
                sql:
                    "UPDATE hooks SET attempt = attempt + 1, started = ?, finished = NULL, due = NULL WHERE id = ?",
                arguments: [now, identifier]
            )
            return hook.attempt + 1
        }
    }

    /// Records how an attempt ended.
    ///
    /// - Parameters:
    ///   - identifier: The hook.
    ///   - input: `succeeded`, `failed`, `askedForRetry` or `interrupted`.
    ///   - ended: For people: `exit 3`, `timeout` …
    ///   - output: What it wrote; the end of it is kept.
    ///   - due: When to try again, **milliseconds** since 1970.
    ///   - now: **Milliseconds** since 1970.
    /// - Throws: ``StoreError``; `refused` when it is not running.
    package func finished(
        hook identifier: Int64,
        _ input: HookRunInput,
        ended: String,
        output: String = "",
        due: Int64? = nil,
        now: Int64
    ) throws(StoreError) {
        try write(.synced) { db in
            let hook = try Self.hook(identifier, db)
            guard try Self.move(hook, input, db) else { return }
            try db.execute(
                sql: "UPDATE hooks SET ended = ?, output = ?, due = ?, finished = ? WHERE id = ?",
                arguments: [ended, Self.tail(output), due, now, identifier]
            )
        }
    }

    /// Records that an owed hook need not be called.
    ///
    /// - Parameters:
    ///   - identifier: The hook.
    ///   - reason: For people, in the place of how an attempt ended.
    ///   - now: **Milliseconds** since 1970.
    /// - Throws: ``StoreError``; `refused` when it is running.
    package func skip(hook identifier: Int64, reason: String, now: Int64) throws(StoreError) {
        try write(.eventual) { db in
            guard try Self.move(Self.hook(identifier, db), .dropped, db) else { return }
            try db.execute(
                sql: "UPDATE hooks SET ended = ?, finished = ? WHERE id = ?",
                arguments: [reason, now, identifier]
            )
        }
    }

    /// Makes an ended hook owed once more, because a person asks (S33).
    ///
    /// - Throws: ``StoreError``; `refused` when it has not ended.
    package func replay(hook identifier: Int64) throws(StoreError) {
        try write(.synced) { db in
            guard try Self.move(Self.hook(identifier, db), .replayed, db) else { return }
            try db.execute(
                sql: "UPDATE hooks SET ended = ? WHERE id = ?",
                arguments: [StoredHook.replayed, identifier]
            )
        }
    }

    /// Most **bytes** of a hook's output in the store.
    package static let hookOutputLimit = 64 << 10

    private static func tail(_ output: String) -> String {
        guard output.utf8.count > hookOutputLimit else { return output }
        return "…" + String(decoding: output.utf8.suffix(hookOutputLimit - 3), as: UTF8.self)
    }
}

// MARK: Inside a transaction

extension SyncStore {
    static func hook(_ identifier: Int64, _ db: Database) throws -> StoredHook {
        guard let hook = try hooks(where: "hooks.id = ?", [identifier], db).first else {
            throw StoreError(.unknown, "There is no hook \(identifier). 'syncagent hooks list' lists them.")
        }
        return hook
    }

    static func hooks(run: Int64, group: String, _ db: Database) throws -> [StoredHook] {
        try hooks(where: "hooks.run = ? AND hooks.group_name = ?", [run, group], db)
    }

    static func hooks(where condition: String, _ arguments: StatementArguments, _ db: Database) throws
        -> [StoredHook]
    {
        try Row.fetchAll(
            db,
            sql: "\(StoredHook.query) WHERE \(condition) ORDER BY hooks.id",
            arguments: arguments
        )
        .map { try StoredHook($0, db) }
    }

    /// The one place that changes a hook's state (S104).
    ///
    /// - Returns: Whether it changed.
    @discardableResult
    static func move(_ hook: StoredHook, _ input: HookRunInput, _ db: Database) throws -> Bool {
        switch hook.state.after(input) {
        case .stays: return false
        case .refused:
            throw StoreError(
                .refused,
                "Hook \(hook.identifier) of run \(hook.run) is \(hook.state.rawValue): it cannot be \(input.rawValue)."
            )
        case .to(let next):
            try db.execute(
                sql: "UPDATE hooks SET state = ? WHERE id = ?",
                arguments: [next.rawValue, hook.identifier]
            )
            return true
        }
    }

    /// The one place that changes a group's state (S104).
    ///
    /// - Returns: Whether it changed.
    @discardableResult
    static func moveGroup(_ run: Int64, _ name: String, _ input: GroupInput, _ db: Database) throws -> Bool {
        let text = try String.fetchOne(
            db,
            sql: "SELECT state FROM groups WHERE run = ? AND name = ?",
            arguments: [run, name]
        )
        guard let text else { throw StoreError(.unknown, "The run has no group '\(escaped(name))'.") }
        guard let state = GroupState(rawValue: text) else { throw StoreError.unreadable("group \(name)") }
        switch state.after(input) {
        case .stays: return false
        case .refused:
            throw StoreError(.refused, "Group '\(escaped(name))' is \(text): it cannot be \(input.rawValue).")
        case .to(let next):
            try db.execute(
                sql: "UPDATE groups SET state = ? WHERE run = ? AND name = ?",
                arguments: [next.rawValue, run, name]
            )
            return true
        }
    }
}

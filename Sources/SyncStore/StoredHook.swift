import GRDB
package import SyncModel

/// A row of `hooks`.
package struct HookRecord: Codable, Sendable, Equatable {
    private(set) var id: Int64?
    private(set) var run: Int64
    private(set) var groupName: String
    private(set) var arguments: TextList
    /// Most **seconds** it may run.
    package private(set) var timeout: Int
    /// The results it is wanted for.
    package private(set) var results: [RunResult]
    package private(set) var state = HookRunState.waiting
    /// Attempts started so far.
    package var attempt = 0
    /// Not to be tried earlier, **milliseconds** since 1970.
    package var due: Int64?
    /// How the last attempt ended: `exit 3`, `signal 9`, `timeout` …, or ``StoredHook/replayed``.
    package var ended: String?
    /// What the last attempt wrote.
    package var output: String?
    package var started: Int64?
    package var finished: Int64?
    /// Most files a call, for a hook that gets the files that changed.
    package private(set) var batch: Int?

    init(_ hook: RunHook, run: Int64) {
        (self.run, groupName, arguments) = (run, hook.group, TextList(hook.arguments))
        (timeout, batch) = (hook.timeout, hook.batch)
        results = hook.results.sorted { $0.rawValue < $1.rawValue }
    }

    /// The one place that changes a hook's state.
    ///
    /// - Returns: Whether it changed.
    /// - Throws: ``StoreError`` with code `refused`.
    fileprivate mutating func move(_ input: HookRunInput, of run: String) throws -> Bool {
        try state.move(input, state.after(input), "Hook \(id ?? 0) of run \(run)")
    }
}

extension HookRecord: StoreRecord { static let databaseTableName = "hooks" }

@dynamicMemberLookup package struct StoredHook: Sendable, Equatable {
    /// Names it in ``SyncStore``; never used again.
    package let identifier: Int64
    package let run: String
    package let session: String
    package let destination: String
    /// What its group came to, once complete.
    package let result: RunResult?
    /// Files of the group that changed.
    package let changed: Int
    var record: HookRecord

    package subscript<Value>(dynamicMember column: KeyPath<HookRecord, Value>) -> Value { record[keyPath: column] }

    package var group: String { record.groupName }
    package var arguments: [String] { record.arguments.strings }

    /// What is called when, as the recipe says.
    package var hook: RunHook {
        RunHook(
            group: group, arguments: arguments, timeout: record.timeout, results: record.results, batch: record.batch)
    }

    /// ``HookRecord/ended`` of a hook that a person wants once more: what it left behind earlier does not count.
    package static let replayed = "replay"

    /// ``HookRecord/ended`` of a hook that could not even be started begins with it; why comes after a colon.
    package static let notStarted = "not started"

    /// ``HookRecord/ended`` of a hook that gets files and was not called, since there were none.
    package static let nothingChanged = "nothing changed"
}

extension StoredHook: FetchableRecord {
    /// What an owed hook is: its group is complete, and it has not ended; for rows of `hooks`.
    static let isOwed = SQL.isAny("hooks.state", of: [HookRunState.pending, .running])

    init(row: Row) throws {
        identifier = try row.decode(forColumn: "id")
        record = try HookRecord(row, of: "hook \(row.shown("id"))")
        run = try row.decode(forColumn: "run_name")
        session = try row.decode(forColumn: "session_name")
        destination = try row.decode(forColumn: "destination")
        let word: String? = try row.decode(forColumn: "result")
        result = word.flatMap(RunResult.init(rawValue:))
        if word != nil, result == nil { throw StoreError.unreadable("hook \(identifier)") }
        changed = try row.decode(forColumn: "changed")
    }

    /// Hooks, joined with the names of their runs and what their groups came to, as they were given unless it is said.
    static func all(where condition: SQL, order: SQL = "hooks.id") -> SQLRequest<StoredHook> {
        """
        SELECT hooks.*, runs.id AS run_name, sessions.identifier AS session_name, sessions.destination,
            groups.result, groups.changed
        FROM hooks JOIN groups ON groups.run = hooks.run AND groups.name = hooks.group_name
            JOIN runs ON runs.number = hooks.run JOIN sessions ON sessions.id = runs.session
        WHERE \(condition) ORDER BY \(order)
        """
    }

    static func all(of run: Int64, group: String, _ db: Database) throws -> [StoredHook] {
        try all(where: "hooks.run = \(run) AND hooks.group_name = \(group)").fetchAll(db)
    }

    static func numbered(_ identifier: Int64, _ db: Database) throws -> StoredHook {
        guard let hook = try all(where: "hooks.id = \(identifier)").fetchOne(db) else {
            throw StoreError(.unknown, "There is no hook \(identifier). 'syncagent hooks list' lists them.")
        }
        return hook
    }

    /// Makes hooks that an earlier holder of the session left running owed again; the next attempt has a higher
    /// number.
    static func giveBack(of session: StoredSession, _ db: Database) throws -> [StoredHook] {
        var hooks = try all(
            where: "sessions.id = \(session.record.id) AND hooks.state = \(HookRunState.running.rawValue)"
        ).fetchAll(db)
        for index in hooks.indices { try hooks[index].move(.interrupted, db) }
        return hooks
    }

    /// Most hooks that are looked at, and most runs that could have called them.
    private static let mostPromised = 200

    /// A run that is to begin, with the hooks that earlier ones were to call and that nobody has called since: a newer run
    /// took their place before the group was complete. Whoever completes it owes them. One that is asked for anew has the
    /// new form.
    ///
    /// - Returns: Hooks for each file before the others, as they are called.
    static func promised(to start: RunStart, in session: StoredSession, _ db: Database) throws -> RunStart {
        let groups = Set(start.groups)
        let hooks = try promised(to: start.recipe, in: session, db).filter { groups.contains($0.group) }
        guard !hooks.isEmpty else { return start }
        var start = start
        let all = start.recipe.hooks + hooks
        start.recipe.hooks = all.filter { $0.batch != nil } + all.filter { $0.batch == nil }
        return start
    }

    /// The hooks alone, as ``promised(to:in:_:)`` finds them, whatever groups there are.
    fileprivate static func promised(to recipe: RunRecipe, in session: StoredSession, _ db: Database) throws
        -> [RunHook]
    {
        let uncalled = SQL.isAny("hooks.state", of: [HookRunState.waiting, .skipped])
        let replaced = SQL.isAny("runs.state", of: [.superseded] + RunState.allCases.filter(\.isOpen))
        let candidates = try all(
            where: "runs.session = \(session.record.id) AND \(uncalled) AND \(replaced) AND groups.result IS NULL",
            order: "runs.number DESC, hooks.id LIMIT \(mostPromised)"
        ).fetchAll(db)
        guard !candidates.isEmpty else { return [] }
        let runs = try StoredRun.all(
            where: "runs.session = \(session.record.id) ORDER BY runs.number DESC LIMIT \(mostPromised)"
        ).fetchAll(db)
        var seen = Set(recipe.hooks.map(\.call))
        var (promised, settled): ([RunHook], [RunRecipe]) = ([], [])
        for run in runs where !run.isTry {
            guard run.state == .superseded || run.state.isOpen else {
                // Whoever ended has called them, or has given them up.
                settled.append(run.recipe)
                continue
            }
            guard recipe.includes(run.recipe), !settled.contains(where: { $0.includes(run.recipe) }) else { continue }
            let left = candidates.filter { $0.run == run.identifier }.map(\.hook)
            promised += left.filter { !seen.contains($0.call) }
            seen.formUnion(left.map(\.call))
        }
        return promised
    }

    /// - Parameters:
    ///   - input: What has happened to it.
    ///   - change: What else changes with its state, where that does.
    /// - Throws: ``StoreError`` with code `refused`.
    mutating func move(_ input: HookRunInput, _ db: Database, _ change: (inout HookRecord) -> Void = { _ in }) throws {
        try record.updateChanges(db) { [run] record in if try record.move(input, of: run) { change(&record) } }
    }
}

extension SyncStore {
    /// The hooks that are owed: their group is complete and they have not ended, whoever began them.
    ///
    /// - Parameter session: Only this session's.
    /// - Returns: Oldest first. A `running` one belongs to a process that holds the session, or to none.
    package func owedHooks(session: String? = nil) throws(StoreError) -> [StoredHook] {
        try read { db in try StoredHook.all(where: "\(StoredHook.isOwed) AND \(Self.isOf(session))").fetchAll(db) }
    }

    /// The hooks that a run of a session owes besides those that it is asked for: what earlier runs were to call, and
    /// nobody has called since.
    package func promisedHooks(of session: String, to recipe: RunRecipe) throws(StoreError) -> [RunHook] {
        try read { db in
            guard let found = try StoredSession.find(session, db) else { return [] }
            return try StoredHook.promised(to: recipe, in: found, db)
        }
    }

    /// Hooks, newest first.
    package func hooks(run: String? = nil, session: String? = nil, limit: Int = 100) throws(StoreError) -> [StoredHook]
    {
        let isOfRun: SQL = run.map { "runs.id = \($0)" } ?? "TRUE"
        return try read { db in
            try StoredHook.all(where: "\(isOfRun) AND \(Self.isOf(session))", order: "hooks.id DESC LIMIT \(limit)")
                .fetchAll(db)
        }
    }

    /// A hook by its number.
    ///
    /// - Throws: ``StoreError`` with code `unknown`.
    package func hook(_ identifier: Int64) throws(StoreError) -> StoredHook {
        try read { db in try StoredHook.numbered(identifier, db) }
    }

    /// Records that an attempt begins, before it does: a crash inside it gives the next one a higher number.
    ///
    /// - Returns: The attempt, from 1.
    /// - Throws: ``StoreError``; `refused` when it is not owed, or running.
    package func started(hook identifier: Int64, now: Int64) throws(StoreError) -> Int {
        try write(.synced) { db in
            var hook = try StoredHook.numbered(identifier, db)
            try hook.move(.started, db) { record in
                record.attempt = record.attempt.saturatingAdd(1)
                (record.started, record.finished, record.due) = (now, nil, nil)
            }
            return hook.attempt
        }
    }

    /// Records how an attempt ended.
    ///
    /// - Parameters:
    ///   - input: `succeeded`, `failed`, `askedForRetry` or `interrupted`.
    ///   - ended: For people: `exit 3`, `timeout` …
    ///   - output: What it wrote; the end of it is kept.
    ///   - due: When to try again, **milliseconds** since 1970.
    /// - Throws: ``StoreError``; `refused` when it is not running.
    package func finished(
        hook identifier: Int64, _ input: HookRunInput, ended: String, output: String = "", due: Int64? = nil, now: Int64
    ) throws(StoreError) {
        try write(.synced) { db in
            var hook = try StoredHook.numbered(identifier, db)
            try hook.move(input, db) { record in
                (record.ended, record.output) = (ended, Self.tail(output))
                (record.due, record.finished) = (due, now)
            }
        }
    }

    /// Records that an owed hook need not be called.
    ///
    /// - Parameter reason: For people, in the place of how an attempt ended.
    /// - Throws: ``StoreError``; `refused` when it is running.
    package func skip(hook identifier: Int64, reason: String, now: Int64) throws(StoreError) {
        try write(.eventual) { db in
            var hook = try StoredHook.numbered(identifier, db)
            try hook.move(.dropped, db) { ($0.ended, $0.finished) = (reason, now) }
        }
    }

    /// Makes an ended hook owed once more, because a person asks.
    ///
    /// - Throws: ``StoreError``; `refused` when it has not ended.
    package func replay(hook identifier: Int64) throws(StoreError) {
        try write(.synced) { db in
            var hook = try StoredHook.numbered(identifier, db)
            try hook.move(.replayed, db) { $0.ended = StoredHook.replayed }
        }
    }

    /// Most **bytes** of a hook's output in the store.
    package static let hookOutputLimit = 64 << 10

    private static func tail(_ output: String) -> String {
        guard output.utf8.count > hookOutputLimit else { return output }
        return "…" + String(decoding: output.utf8.suffix(hookOutputLimit - 3), as: UTF8.self)
    }

    static func isOf(_ session: String?) -> SQL { session.map { "sessions.identifier = \($0)" } ?? "TRUE" }
}

extension RunHook {
    /// Which program is called for which group. Where two requests have the same, the later one says how it is called.
    fileprivate var call: [String] { [group] + arguments.prefix(1) }
}

extension RunRecipe {
    /// Whether a run of it completes all that a run of another does.
    fileprivate func includes(_ other: RunRecipe) -> Bool {
        groups.isEmpty && !hasPatterns || (groups, include, exclude) == (other.groups, other.include, other.exclude)
    }
}

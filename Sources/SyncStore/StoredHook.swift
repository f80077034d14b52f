import GRDB
package import SyncModel

/// A hook of a run, with the result of its group.
package struct StoredHook: Decodable, FetchableRecord, Sendable, Equatable {
    private let id: Int64
    package let run: String
    package let session: String
    package let destination: String
    private let groupName: String
    package let arguments: [String]
    /// Most **seconds** that it may run.
    package let timeout: Int
    /// The results after which it runs.
    package let results: [RunResult]
    /// Most files per call, for a hook that gets the changed files.
    package let batch: Int?
    /// The result of its group, once complete.
    package let result: RunResult?
    /// The number of the group's changed files.
    package let changed: Int
    package private(set) var state: HookRunState
    /// Attempts started so far.
    package fileprivate(set) var attempt: Int
    /// The earliest time of the next attempt, **milliseconds** since 1970.
    package fileprivate(set) var due: Int64?
    /// How the last attempt ended: `exit 3`, `signal 9`, `timeout` …, or ``replayed``.
    package fileprivate(set) var ended: String?
    /// The output of the last attempt.
    package fileprivate(set) var output: String?
    package fileprivate(set) var started: Int64?
    package fileprivate(set) var finished: Int64?

    static var databaseColumnDecodingStrategy: DatabaseColumnDecodingStrategy { .convertFromSnakeCase }

    /// The hook's number in ``SyncStore``; never used again.
    package var identifier: Int64 { id }
    package var group: String { groupName }

    /// The hook as in the recipe.
    package var hook: RunHook {
        RunHook(group: group, arguments: arguments, timeout: timeout, results: results, batch: batch)
    }

    /// ``ended`` of a hook that a person wants to run again: receipts of earlier attempts do not count.
    package static let replayed = "replay"

    /// The beginning of ``ended`` for a hook that could not be started; the reason follows after a colon.
    package static let notStarted = "not started"

    /// ``ended`` of a hook that was not called again, since its receipt shows that an earlier attempt did its work.
    package static let receipt = "receipt"

    /// ``ended`` of a hook that was stopped: to be tried again or, if it has failed, because a person cancelled it.
    package static let stopped = "stopped"

    /// Whether it failed. A hook cancelled by a person did not.
    package var hasFailed: Bool { state == .failed && ended != Self.stopped }

    /// ``ended`` of a hook that gets files and was not called, since there were none.
    package static let nothingChanged = "nothing changed"
}

extension StoredHook {
    /// The condition for an owed hook: its group is complete, and it has not ended. For rows of `hooks`.
    static let isOwed = SQL.isAny("hooks.state", of: [HookRunState.pending, .running])

    /// Hooks with the results of their groups, in the order of the request unless another order is given.
    static func all(where condition: SQL, order: SQL = "hooks.id", _ db: Database) throws -> [StoredHook] {
        let query: SQL = """
            SELECT hooks.*, runs.session, sessions.destination, groups.result, groups.changed
            FROM hooks JOIN groups ON groups.run = hooks.run AND groups.name = hooks.group_name
                JOIN runs ON runs.identifier = hooks.run JOIN sessions ON sessions.identifier = runs.session
            WHERE \(condition) ORDER BY \(order)
            """
        return try read("hook", by: "id", query, db)
    }

    static func all(of run: String, group: String, _ db: Database) throws -> [StoredHook] {
        try all(where: "hooks.run = \(run) AND hooks.group_name = \(group)", db)
    }

    static func numbered(_ identifier: Int64, _ db: Database) throws -> StoredHook {
        guard let hook = try all(where: "hooks.id = \(identifier)", db).first else {
            throw StoreError(.unknown, "There is no hook \(identifier). 'syncagent hooks list' lists them.")
        }
        return hook
    }

    static func insert(_ hook: RunHook, of run: String, _ db: Database) throws {
        func json(_ texts: [String]) -> String {
            var line = JSONLine()
            line.array { array in for text in texts { array.value(text) } }
            return line.text
        }
        try db.execute(
            literal: """
                INSERT INTO hooks (run, group_name, arguments, timeout, results, batch, state)
                VALUES (\(run), \(hook.group), \(json(hook.arguments)), \(hook.timeout),
                    \(json(hook.results.map(\.rawValue).sorted())), \(hook.batch), \(HookRunState.waiting.rawValue))
                """)
    }

    /// Makes hooks owed again that an earlier holder of the session left running. The next attempt has a higher
    /// number.
    static func giveBack(of session: StoredSession, _ db: Database) throws -> [StoredHook] {
        let running: SQL = "runs.session = \(session.identifier) AND hooks.state = \(HookRunState.running.rawValue)"
        var hooks = try all(where: running, db)
        for index in hooks.indices { try hooks[index].move(.interrupted, db) }
        return hooks
    }

    /// Ends the owed hooks of a run that a person cancels. A hook that was called and interrupted, by the cancellation
    /// or with its process, counts as stopped; the others will not be called.
    static func giveUp(of run: String, now: Int64, _ db: Database) throws {
        for var hook in try all(where: "hooks.run = \(run) AND \(isOwed)", db) {
            let isCutShort = hook.attempt > 0 && (hook.finished == nil || hook.ended == stopped)
            guard isCutShort else {
                try hook.move(.dropped, db)
                continue
            }
            try hook.move(.givenUp, db) { ($0.ended, $0.due, $0.finished) = (stopped, nil, now) }
        }
    }

    /// Most promised hooks to examine, and most runs that could have called them.
    private static let mostPromised = 200

    /// The run to begin, with hooks that earlier runs promised and that have not been called since, because a newer run
    /// replaced them before the group was complete. The run that completes the group owes them. A hook that is
    /// requested anew has its new form.
    ///
    /// - Returns: The run, with hooks for files before the others, as they are called.
    static func promised(to start: RunStart, in session: StoredSession, _ db: Database) throws -> RunStart {
        let groups = Set(start.groups)
        let hooks = try promised(to: start.recipe, in: session, db).filter { groups.contains($0.group) }
        guard !hooks.isEmpty else { return start }
        var start = start
        let all = start.recipe.hooks + hooks
        start.recipe.hooks = all.filter { $0.batch != nil } + all.filter { $0.batch == nil }
        return start
    }

    /// The promised hooks alone, as for ``promised(to:in:_:)``, for any group.
    fileprivate static func promised(to recipe: RunRecipe, in session: StoredSession, _ db: Database) throws
        -> [RunHook]
    {
        let uncalled = SQL.isAny("hooks.state", of: [HookRunState.waiting, .skipped])
        let replaced = SQL.isAny("runs.state", of: [.superseded] + RunState.allCases.filter(\.isOpen))
        let candidates = try all(
            where: "runs.session = \(session.identifier) AND \(uncalled) AND \(replaced) AND groups.result IS NULL",
            order: "runs.number DESC, hooks.id LIMIT \(mostPromised)", db)
        guard !candidates.isEmpty else { return [] }
        let runs = try StoredRun.all(
            where: "session = \(session.identifier) ORDER BY number DESC LIMIT \(mostPromised)", db)
        var seen = Set(recipe.hooks.map(\.call))
        var (promised, settled): ([RunHook], [RunRecipe]) = ([], [])
        for run in runs where !run.isTry {
            guard run.state == .superseded || run.state.isOpen else {
                // A run that has ended has called its hooks, or has dropped them.
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

    /// Changes a hook; nothing else does.
    ///
    /// - Parameters:
    ///   - input: What has happened to the hook.
    ///   - change: Further changes, made only if the state changes.
    /// - Throws: ``StoreError`` with code `refused`.
    mutating func move(_ input: HookRunInput, _ db: Database, _ change: (inout StoredHook) -> Void = { _ in }) throws {
        guard try state.move(input, state.after(input), "Hook \(id) of run \(run)") else { return }
        change(&self)
        try db.execute(
            literal: """
                UPDATE hooks SET state = \(state.rawValue), attempt = \(attempt), due = \(due), ended = \(ended),
                    output = \(output), started = \(started), finished = \(finished) WHERE id = \(id)
                """)
    }
}

extension SyncStore {
    /// The owed hooks: their group is complete and they have not ended, whatever process began them.
    ///
    /// - Parameter session: Only this session's.
    /// - Returns: Oldest first. A `running` hook belongs to the process that holds the session, or to none.
    package func owedHooks(session: String? = nil) throws(StoreError) -> [StoredHook] {
        try read { db in try StoredHook.all(where: "\(StoredHook.isOwed) AND \(Self.isOf(session))", db) }
    }

    /// The hooks that a run of a session owes in addition to those of its request: hooks that earlier runs promised and
    /// that have not been called since.
    package func promisedHooks(of session: String, to recipe: RunRecipe) throws(StoreError) -> [RunHook] {
        try read { db in
            guard let found = try StoredSession.find(session, db) else { return [] }
            return try StoredHook.promised(to: recipe, in: found, db)
        }
    }

    /// Hooks, newest first.
    package func hooks(run: String? = nil, session: String? = nil, limit: Int = 100) throws(StoreError) -> [StoredHook]
    {
        let isOfRun: SQL = run.map { "hooks.run = \($0)" } ?? "TRUE"
        return try read { db in
            try StoredHook.all(where: "\(isOfRun) AND \(Self.isOf(session))", order: "hooks.id DESC LIMIT \(limit)", db)
        }
    }

    /// A hook by its number.
    ///
    /// - Throws: ``StoreError`` with code `unknown`.
    package func hook(_ identifier: Int64) throws(StoreError) -> StoredHook {
        try read { db in try StoredHook.numbered(identifier, db) }
    }

    /// Records the beginning of an attempt, before it begins: after a crash inside it, the next one has a higher
    /// number.
    ///
    /// - Returns: The attempt, from 1.
    /// - Throws: ``StoreError``; `refused` if the hook is not owed, or is running.
    package func started(hook identifier: Int64, now: Int64) throws(StoreError) -> Int {
        try write(.synced) { db in
            var hook = try StoredHook.numbered(identifier, db)
            try hook.move(.started, db) { hook in
                hook.attempt = hook.attempt.saturatingAdd(1)
                (hook.started, hook.finished, hook.due) = (now, nil, nil)
            }
            return hook.attempt
        }
    }

    /// Records the end of an attempt.
    ///
    /// - Parameters:
    ///   - input: `succeeded`, `failed`, `askedForRetry` or `interrupted`.
    ///   - ended: How it ended, for people: `exit 3`, `timeout` …
    ///   - output: Its output, of which the end is kept.
    ///   - due: When to try again, **milliseconds** since 1970.
    /// - Throws: ``StoreError``; `refused` if it is not running.
    package func finished(
        hook identifier: Int64, _ input: HookRunInput, ended: String, output: String = "", due: Int64? = nil, now: Int64
    ) throws(StoreError) {
        try write(.synced) { db in
            var hook = try StoredHook.numbered(identifier, db)
            try hook.move(input, db) { hook in
                (hook.ended, hook.output, hook.due, hook.finished) = (ended, Self.tail(output), due, now)
            }
        }
    }

    /// Records that an owed hook need not be called.
    ///
    /// - Parameter reason: For people, in place of how an attempt ended.
    /// - Throws: ``StoreError``; `refused` if it is running.
    package func skip(hook identifier: Int64, reason: String, now: Int64) throws(StoreError) {
        try write(.eventual) { db in
            var hook = try StoredHook.numbered(identifier, db)
            try hook.move(.dropped, db) { ($0.ended, $0.finished) = (reason, now) }
        }
    }

    /// Makes an ended hook owed once more, on a person's request.
    ///
    /// - Throws: ``StoreError``; `refused` if it has not ended.
    package func replay(hook identifier: Int64) throws(StoreError) {
        try write(.synced) { db in
            var hook = try StoredHook.numbered(identifier, db)
            try hook.move(.replayed, db) { $0.ended = StoredHook.replayed }
        }
    }

    /// Most **bytes** of a hook's output in the store. The agent sends those of 200 hooks in one response, in which a byte
    /// may take six, and its clients accept 64 MiB.
    package static let hookOutputLimit = 32 << 10

    private static func tail(_ output: String) -> String {
        let isShort = output.utf8.count <= hookOutputLimit
        let kept = isShort ? output : "…" + String(decoding: output.utf8.suffix(hookOutputLimit - 3), as: UTF8.self)
        // SQLite's text ends at a NUL.
        return kept.utf8.contains(0) ? String(decoding: kept.utf8.map { $0 == 0 ? 0x20 : $0 }, as: UTF8.self) : kept
    }

    static func isOf(_ session: String?) -> SQL { session.map { "runs.session = \($0)" } ?? "TRUE" }
}

extension RunHook {
    /// The group and the program. If two requests have the same, the later one determines how the program is called.
    fileprivate var call: [String] { [group] + arguments.prefix(1) }
}

extension RunRecipe {
    /// Whether a run of this recipe completes everything that a run of another does.
    fileprivate func includes(_ other: RunRecipe) -> Bool {
        groups.isEmpty && !hasPatterns || (groups, include, exclude) == (other.groups, other.include, other.exclude)
    }
}

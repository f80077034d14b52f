import GRDB
package import SyncModel

/// A hook of a run, with what its group came to.
package struct StoredHook: Decodable, FetchableRecord, Sendable, Equatable {
    private let id: Int64
    package let run: String
    package let session: String
    package let destination: String
    private let groupName: String
    package let arguments: [String]
    /// Most **seconds** it may run.
    package let timeout: Int
    /// The results it is wanted for.
    package let results: [RunResult]
    /// Most files a call, for a hook that gets the files that changed.
    package let batch: Int?
    /// What its group came to, once complete.
    package let result: RunResult?
    /// Files of the group that changed.
    package let changed: Int
    package private(set) var state: HookRunState
    /// Attempts started so far.
    package fileprivate(set) var attempt: Int
    /// Not to be tried earlier, **milliseconds** since 1970.
    package fileprivate(set) var due: Int64?
    /// How the last attempt ended: `exit 3`, `signal 9`, `timeout` …, or ``replayed``.
    package fileprivate(set) var ended: String?
    /// What the last attempt wrote.
    package fileprivate(set) var output: String?
    package fileprivate(set) var started: Int64?
    package fileprivate(set) var finished: Int64?

    static var databaseColumnDecodingStrategy: DatabaseColumnDecodingStrategy { .convertFromSnakeCase }

    /// Names it in ``SyncStore``; never used again.
    package var identifier: Int64 { id }
    package var group: String { groupName }

    /// What is called when, as the recipe says.
    package var hook: RunHook {
        RunHook(group: group, arguments: arguments, timeout: timeout, results: results, batch: batch)
    }

    /// ``ended`` of a hook that a person wants once more: what it left behind earlier does not count.
    package static let replayed = "replay"

    /// ``ended`` of a hook that could not even be started begins with it; why comes after a colon.
    package static let notStarted = "not started"

    /// ``ended`` of a hook that was stopped: before the next attempt, or, where it has failed, because a person gave it up.
    package static let stopped = "stopped"

    /// Whether it came to a bad end. That a person gave it up is none.
    package var hasFailed: Bool { state == .failed && ended != Self.stopped }

    /// ``ended`` of a hook that gets files and was not called, since there were none.
    package static let nothingChanged = "nothing changed"
}

extension StoredHook {
    /// What an owed hook is: its group is complete, and it has not ended; for rows of `hooks`.
    static let isOwed = SQL.isAny("hooks.state", of: [HookRunState.pending, .running])

    /// Hooks, joined with what their groups came to, as they were given unless it is said.
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

    /// Makes hooks that an earlier holder of the session left running owed again; the next attempt has a higher
    /// number.
    static func giveBack(of session: StoredSession, _ db: Database) throws -> [StoredHook] {
        let running: SQL = "runs.session = \(session.identifier) AND hooks.state = \(HookRunState.running.rawValue)"
        var hooks = try all(where: running, db)
        for index in hooks.indices { try hooks[index].move(.interrupted, db) }
        return hooks
    }

    /// Ends the owed hooks of a run that a person gives up. One that was called and cut short, by that or with its process, has
    /// been stopped; the others will not be called.
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
            where: "runs.session = \(session.identifier) AND \(uncalled) AND \(replaced) AND groups.result IS NULL",
            order: "runs.number DESC, hooks.id LIMIT \(mostPromised)", db)
        guard !candidates.isEmpty else { return [] }
        let runs = try StoredRun.all(
            where: "session = \(session.identifier) ORDER BY number DESC LIMIT \(mostPromised)", db)
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

    /// The one place that changes a hook.
    ///
    /// - Parameters:
    ///   - input: What has happened to it.
    ///   - change: What else changes with its state, where that does.
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
    /// The hooks that are owed: their group is complete and they have not ended, whoever began them.
    ///
    /// - Parameter session: Only this session's.
    /// - Returns: Oldest first. A `running` one belongs to a process that holds the session, or to none.
    package func owedHooks(session: String? = nil) throws(StoreError) -> [StoredHook] {
        try read { db in try StoredHook.all(where: "\(StoredHook.isOwed) AND \(Self.isOf(session))", db) }
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

    /// Records that an attempt begins, before it does: a crash inside it gives the next one a higher number.
    ///
    /// - Returns: The attempt, from 1.
    /// - Throws: ``StoreError``; `refused` when it is not owed, or running.
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
            try hook.move(input, db) { hook in
                (hook.ended, hook.output, hook.due, hook.finished) = (ended, Self.tail(output), due, now)
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
        let isShort = output.utf8.count <= hookOutputLimit
        let kept = isShort ? output : "…" + String(decoding: output.utf8.suffix(hookOutputLimit - 3), as: UTF8.self)
        // SQLite's text ends at a NUL.
        return kept.utf8.contains(0) ? String(decoding: kept.utf8.map { $0 == 0 ? 0x20 : $0 }, as: UTF8.self) : kept
    }

    static func isOf(_ session: String?) -> SQL { session.map { "runs.session = \($0)" } ?? "TRUE" }
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

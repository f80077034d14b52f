import GRDB
package import SyncModel

/// One hook of one run.
package struct StoredHook: Sendable, Equatable {
    /// Names it in ``SyncStore``; never used again.
    package let identifier: Int64
    package let run: String
    package let session: String
    package let destination: String
    /// What is called when, as the recipe says.
    package let hook: RunHook
    package let state: HookRunState
    /// Attempts begun so far.
    package let attempt: Int
    /// Not to be tried earlier, **milliseconds** since 1970.
    package let due: Int64?
    /// How the last attempt ended: `exit 3`, `signal 9`, `timeout` …, or ``replayed``.
    package let ended: String?
    /// What the last attempt wrote.
    package let output: String?
    package let started: Int64?
    package let finished: Int64?
    /// What its group came to, once complete.
    package let result: RunResult?
    /// Files of the group that changed.
    package let changed: Int

    /// ``ended`` of a hook that a person wants once more: what it left behind earlier does not count.
    package static let replayed = "replay"

    /// ``ended`` of a hook that gets files and was not called, since there were none.
    package static let nothingChanged = "nothing changed"

    static let query = """
        SELECT hooks.*, runs.id AS run_name, sessions.identifier AS session_name, sessions.destination,
            groups.result, groups.changed
        FROM hooks JOIN groups ON groups.run = hooks.run AND groups.name = hooks.group_name
            JOIN runs ON runs.number = hooks.run JOIN sessions ON sessions.id = runs.session
        """

    init(_ row: Row, _ db: Database) throws {
        identifier = row["id"]
        run = row["run_name"]
        session = row["session_name"]
        destination = row["destination"]
        hook = RunHook(
            group: row["group_name"],
            arguments: try JSONList.strings(row["arguments"], db),
            timeout: row["timeout"],
            results: try JSONList.strings(row["results"], db).compactMap {
                try RunResult(stored: $0, of: "a hook's results")
            },
            batch: row["batch"]
        )
        guard let state = HookRunState(rawValue: row["state"]) else {
            throw StoreError.unreadable("hook \(identifier)")
        }
        self.state = state
        attempt = row["attempt"]
        due = row["due"]
        ended = row["ended"]
        output = row["output"]
        started = row["started"]
        finished = row["finished"]
        result = try RunResult(stored: row["result"], of: "hook \(identifier)")
        changed = row["changed"]
    }

    package var group: String { hook.group }
    package var arguments: [String] { hook.arguments }
    package var timeout: Int { hook.timeout }
    package var results: [RunResult] { hook.results }
    package var batch: Int? { hook.batch }
}

import GRDB
package import SyncModel

/// A run, as the store knows it.
package struct StoredRun: Sendable, Equatable {
    package let identifier: String
    package let session: String
    /// The epoch of its session in which it was last started.
    package let epoch: Int64
    package let manifest: SHA256Digest
    /// What it was asked for, but for its hooks, which have records of their own.
    package let recipe: RunRecipe
    package let state: RunState
    /// Why it is paused, cancelled or superseded (S27).
    package let reason: RestReason?
    /// Once it is finished.
    package let result: RunResult?
    package let counts: RunCounts
    /// **Milliseconds** since 1970, as all its times.
    package let created: Int64
    package let started: Int64?
    package let finished: Int64?
    package let deadline: Int64?
    /// Who asked: `interactive`, `hook` or `schedule` (S50).
    package let origin: String
    /// What went wrong last, for people.
    package let error: String?
    /// Not to be tried again earlier.
    package let due: Int64?
    /// Since when it waits for ``reason``.
    package let waitingSince: Int64?
    /// The exit status of whoever waits for it, once it is finished; `nil` when an older program finished it.
    package let exitStatus: Int32?
    /// Since when it is paused.
    package let pausedAt: Int64?
    /// When a process that worked on it was lost (F087), oldest first.
    package let losses: [Int64]
    /// Paths that are wanted before all others (S162).
    package let firstPaths: [String]

    let number: Int64
    let kept: KeptRecipe

    static let columns = "runs.*, sessions.identifier AS session_name"
    static let tables = "runs JOIN sessions ON sessions.id = runs.session"

    init(_ row: Row, _ db: Database) throws {
        number = row["number"]
        identifier = row["id"]
        session = row["session_name"]
        epoch = row["epoch"]
        guard let digest = SHA256Digest(row["manifest"] as Blob), let state = RunState(rawValue: row["state"])
        else {
            throw StoreError.unreadable("run \(identifier)")
        }
        manifest = digest
        self.state = state
        reason = (row["reason"] as String?).map(RestReason.init(rawValue:))
        result = try RunResult(stored: row["result"], of: "run \(identifier)")
        counts = RunCounts(row)
        created = row["created"]
        started = row["started"]
        finished = row["finished"]
        deadline = row["deadline"]
        origin = row["origin"]
        error = row["error"]
        due = row["due"]
        waitingSince = row["waiting_since"]
        exitStatus = row["exit_status"]
        pausedAt = row["paused_at"]
        losses = try JSONList.strings(row["losses"], db).compactMap { Int64($0) }
        firstPaths = try JSONList.strings(row["first_paths"], db)
        let conditions: RunConditions
        do {
            kept = try KeptRecipe(stored: row["options"])
            conditions =
                try (row["conditions"] as String?).map { try StoredJSON.decode(RunConditions.self, $0) }
                ?? RunConditions()
        } catch {
            throw StoreError.unreadable("run \(identifier)")
        }
        var recipe = kept.recipe
        recipe.conditions = conditions
        recipe.manifest = row["location"]
        recipe.session = session
        recipe.groups = try JSONList.strings(row["selection"], db)
        recipe.notBefore = (row["not_before"] as Int64?).map(WallTime.init)
        recipe.origin = RunRecipe.Origin(rawValue: origin) ?? .interactive
        recipe.settings = row["settings"]
        recipe.userData = kept.facts.userData.flatMap(JSONValue.init(text:))
        self.recipe = recipe
    }

    /// What it has found out about the manifest.
    package var facts: ManifestFacts { kept.facts }
    /// The path or URL the manifest came from.
    package var location: String { recipe.manifest }
    /// Not to start earlier.
    package var notBefore: Int64? { recipe.notBefore?.milliseconds }
}

extension RunCounts {
    init(_ row: Row) {
        self.init()
        files.total = row["files_total"]
        files.installed = row["files_installed"]
        files.unchanged = row["files_unchanged"]
        files.reused = row["files_reused"]
        files.removed = row["files_removed"]
        files.failed = row["files_failed"]
        bytes.total = UInt64(clamping: row["bytes_total"] as Int64)
        bytes.received = UInt64(clamping: row["bytes_received"] as Int64)
        bytes.reused = UInt64(clamping: row["bytes_reused"] as Int64)
        requests = UInt64(clamping: row["requests"] as Int64)
    }

    static let assignments = """
        files_total = ?, files_installed = ?, files_unchanged = ?, files_reused = ?, files_removed = ?,
        files_failed = ?, bytes_total = ?, bytes_received = ?, bytes_reused = ?, requests = ?
        """

    var arguments: StatementArguments {
        [
            files.total, files.installed, files.unchanged, files.reused, files.removed, files.failed,
            Int64(clamping: bytes.total), Int64(clamping: bytes.received), Int64(clamping: bytes.reused),
            Int64(clamping: requests),
        ]
    }
}

extension RunResult {
    /// A column; `nil` for none.
    ///
    /// - Throws: ``StoreError`` with code `damaged` for a word that has no meaning.
    init?(stored word: String?, of what: String) throws {
        guard let word else { return nil }
        guard let result = RunResult(rawValue: word) else { throw StoreError.unreadable(what) }
        self = result
    }
}

extension SHA256Digest {
    /// The 32 bytes of a column.
    init?(_ blob: Blob) {
        let read = blob.bytes.withUnsafeBytes { SHA256Digest(bytes: $0) }
        guard let read else { return nil }
        self = read
    }

    var blob: Blob { Blob((0..<Self.byteCount).map { self[byte: $0] }) }
}

extension StoreError {
    static func unreadable(_ what: String) -> StoreError {
        StoreError(.damaged, "The state's record of \(escaped(what)) cannot be read.")
    }
}

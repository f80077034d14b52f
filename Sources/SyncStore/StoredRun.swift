import GRDB
package import SyncModel

/// A row of `runs`.
package struct RunRecord: Codable, Sendable, Equatable {
    private(set) var number: Int64?
    private(set) var id: String
    private(set) var session: Int64
    /// The epoch of its session in which it was last started.
    package var epoch: Int64
    private(set) var manifest: BlobColumn
    private(set) var location: String
    private(set) var selection: TextList
    private(set) var options: KeptRecipe
    package private(set) var state: RunState
    /// Why it is paused, cancelled or superseded.
    package var reason: RestReason?
    /// Once it is finished.
    package var result: RunResult?
    private var filesTotal = 0
    private var filesInstalled = 0
    private var filesUnchanged = 0
    private var filesReused = 0
    private var filesRemoved = 0
    private var filesFailed = 0
    private var bytesTotal: Int64 = 0
    private var bytesReceived: Int64 = 0
    private var bytesReused: Int64 = 0
    private var requests: Int64 = 0
    /// **Milliseconds** since 1970, as all its times.
    package private(set) var created: Int64
    package var started: Int64?
    package var finished: Int64?
    var notBefore: Int64?
    package var deadline: Int64?
    /// Who asked: `interactive`, `hook` or `schedule`.
    package private(set) var origin: String
    private(set) var settings: String?
    /// What went wrong last, for people.
    package var error: String?
    /// What that was, for reports; `nil` where an older program wrote it.
    package var cause: FailureCause?
    /// Not to be tried again earlier.
    package var due: Int64?
    /// Since when it is paused.
    package var pausedAt: Int64?
    var losses = TextList([])
    var firstPaths = TextList([])
    var conditions: RunConditions?
    /// Since when it waits for ``reason``.
    package var waitingSince: Int64?
    /// The exit status of whoever waits for it, once it is finished; `nil` when an older program finished it.
    package var exitStatus: Int32?

    init(_ start: RunStart, of session: StoredSession, isHeld: Bool, now: Int64) throws {
        let recipe = start.recipe
        state = recipe.paused ? .paused : isHeld ? .running : .waiting
        (id, self.session, epoch) = (start.run, session.record.id ?? 0, session.epoch)
        (manifest, location) = (start.manifest.blob, recipe.manifest)
        (selection, options) = (TextList(recipe.groups), KeptRecipe(start))
        (created, started) = (now, state == .running ? now : nil)
        (notBefore, deadline) = (recipe.notBefore?.milliseconds, start.deadline)
        (origin, conditions) = (recipe.origin.rawValue, Self.conditions(recipe))
        if recipe.paused { (reason, pausedAt) = (.userStop, now) }
    }

    /// What the column keeps of conditions: nothing where there are none.
    static func conditions(_ recipe: RunRecipe) -> RunConditions? {
        recipe.conditions.isEmpty ? nil : recipe.conditions
    }

    package var counts: RunCounts {
        get {
            var counts = RunCounts()
            (counts.files.total, counts.files.installed) = (sane(filesTotal), sane(filesInstalled))
            (counts.files.unchanged, counts.files.reused) = (sane(filesUnchanged), sane(filesReused))
            (counts.files.removed, counts.files.failed) = (sane(filesRemoved), sane(filesFailed))
            counts.bytes.total = UInt64(clamping: bytesTotal)
            counts.bytes.received = UInt64(clamping: bytesReceived)
            counts.bytes.reused = UInt64(clamping: bytesReused)
            counts.requests = UInt64(clamping: requests)
            return counts
        }
        set {
            (filesTotal, filesInstalled) = (newValue.files.total, newValue.files.installed)
            (filesUnchanged, filesReused) = (newValue.files.unchanged, newValue.files.reused)
            (filesRemoved, filesFailed) = (newValue.files.removed, newValue.files.failed)
            bytesTotal = Int64(clamping: newValue.bytes.total)
            bytesReceived = Int64(clamping: newValue.bytes.received)
            bytesReused = Int64(clamping: newValue.bytes.reused)
            requests = Int64(clamping: newValue.requests)
        }
    }

    /// A number of files that can be added to others: no manifest has more.
    private func sane(_ files: Int) -> Int { min(max(0, files), 1 << 40) }

    /// Time in a pause does not count against the deadline, nor do losses before it set the run aside again.
    mutating func endPause(now: Int64) {
        if let since = pausedAt { deadline = deadline?.saturatingAdd(max(0, now.saturatingSubtract(since))) }
        (pausedAt, due, losses) = (nil, nil, TextList([]))
    }

    /// The one place that changes a run's state.
    ///
    /// - Returns: Whether it changed.
    /// - Throws: ``StoreError`` with code `refused`.
    mutating func move(_ input: RunInput, reason: RestReason? = nil) throws -> Bool {
        let hasMoved = try state.move(input, state.after(input), "Run \(id)")
        if hasMoved { self.reason = reason }
        return hasMoved
    }
}

extension RunRecord: StoreRecord {
    static let databaseTableName = "runs"

    mutating func didInsert(_ inserted: InsertionSuccess) { number = inserted.rowID }
}

/// A run, as the store knows it.
@dynamicMemberLookup package struct StoredRun: Sendable, Equatable {
    /// The session's name.
    package let session: String
    package let manifest: SHA256Digest
    /// What it was asked for, but for its hooks, which have records of their own.
    package let recipe: RunRecipe
    let number: Int64
    var record: RunRecord

    package subscript<Value>(dynamicMember column: KeyPath<RunRecord, Value>) -> Value { record[keyPath: column] }

    package var identifier: String { record.id }
    /// What it has found out about the manifest.
    package var facts: ManifestFacts { record.options.facts }
    /// The path or URL the manifest came from.
    package var location: String { recipe.manifest }
    /// Not to start earlier.
    package var notBefore: Int64? { record.notBefore }
    /// When a process that worked on it was lost, oldest first.
    package var losses: [Int64] { record.losses.strings.compactMap { Int64($0) } }
    /// Whether it is only the record of a try that came to nothing: see ``SyncStore/recordTry``.
    package var isTry: Bool { record.state == .finished && record.started == nil }
    /// Paths that are wanted before all others.
    package var firstPaths: [String] { record.firstPaths.strings }
}

extension StoredRun: FetchableRecord {
    /// What an open run is, one that can still come to something; for rows of `runs`.
    static let isOpen = SQL.isAny("runs.state", of: RunState.allCases.filter(\.isOpen))

    init(row: Row) throws {
        record = try RunRecord(row, of: "run \(row.shown("id"))")
        guard let digest = SHA256Digest(record.manifest) else { throw StoreError.unreadable("run \(record.id)") }
        (manifest, number, session) = (digest, record.number ?? 0, try row.decode(forColumn: "session_name"))
        var recipe = record.options.recipe
        recipe.conditions = record.conditions ?? RunConditions()
        recipe.manifest = record.location
        recipe.session = session
        recipe.groups = record.selection.strings
        recipe.notBefore = record.notBefore.map(WallTime.init)
        recipe.origin = RunRecipe.Origin(rawValue: record.origin) ?? .interactive
        recipe.userData = record.options.facts.userData.flatMap(JSONValue.init(text:))
        self.recipe = recipe
    }

    /// Runs, joined with the names of their sessions.
    static func all(where condition: SQL) -> SQLRequest<StoredRun> {
        """
        SELECT runs.*, sessions.identifier AS session_name FROM runs JOIN sessions ON sessions.id = runs.session
        WHERE \(condition)
        """
    }

    /// A run by its name.
    ///
    /// - Throws: ``StoreError`` with code `unknown`.
    static func named(_ identifier: String, _ db: Database) throws -> StoredRun {
        guard let run = try all(where: "runs.id = \(identifier)").fetchOne(db) else {
            throw StoreError.noRun(identifier)
        }
        return run
    }

    /// The run of a session that was asked for last; `nil` where there is none.
    static func latest(of session: StoredSession, _ db: Database) throws -> StoredRun? {
        try all(where: "runs.session = \(session.record.id) ORDER BY runs.number DESC LIMIT 1").fetchOne(db)
    }

    /// The open runs of a session, oldest first.
    static func open(of session: StoredSession, _ db: Database) throws -> [StoredRun] {
        try all(where: "runs.session = \(session.record.id) AND \(isOpen) ORDER BY runs.number").fetchAll(db)
    }

    /// Whether its groups are all complete.
    func hasOnlyHooksLeft(_ db: Database) throws -> Bool {
        try StoredGroup.all(of: number, db).allSatisfy { $0.state == .completed }
    }

    /// Somebody begins to work on it.
    mutating func start(in session: StoredSession, now: Int64, _ db: Database) throws {
        try record.updateChanges(db) { run in
            _ = try run.move(.started)
            run.started = run.started ?? now
            (run.due, run.error, run.cause, run.waitingSince) = (nil, nil, nil, nil)
            run.epoch = session.epoch
        }
    }

    /// Its worker is gone: it waits again, and that it was lost is remembered, and what the worker wrote last of
    /// what it had received: a budget is for all attempts. Once the groups are complete, the record has that.
    ///
    /// - Returns: Whether it was running.
    mutating func lose(now: Int64, _ live: LiveFiles?, _ db: Database) throws -> Bool {
        let lost = try hasOnlyHooksLeft(db) ? nil : live?.work(of: identifier, epoch: record.epoch)
        var wasRunning = false
        try record.updateChanges(db) { run in
            wasRunning = try run.move(.released, reason: .agentRestart)
            guard wasRunning else { return }
            run.losses = TextList((run.losses.strings + [String(now)]).suffix(10))
            guard let lost else { return }
            run.counts.bytes.received = run.counts.bytes.received.saturatingAdd(lost.received)
            run.counts.requests = run.counts.requests.saturatingAdd(lost.requests)
        }
        return wasRunning
    }

    /// It will not finish: what it leaves open ends with it, its groups and the hooks of those.
    mutating func close(now: Int64, _ db: Database) throws {
        try StoredGroup.cancelOpen(of: number, db)
        try record.updateChanges(db) { $0.finished = $0.finished ?? now }
    }
}

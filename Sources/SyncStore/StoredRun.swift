import GRDB
package import SyncModel

/// What a run has found out about its manifest.
package struct ManifestFacts: Codable, Sendable, Equatable {
    /// Its revision; `nil` before it was decoded, and 0 when it has none.
    package var revision: UInt64?
    /// Whether it came from a public address; `nil` when nobody knows.
    package var isPublic: Bool?
    /// Whether those who are believed have signed it.
    package var isSigned = false
    /// What is handed on to hooks, observers and reports: what whoever asked says, else the manifest; JSON text on one line.
    package var userData: String?
    /// The listing that it was derived from; `nil` for one that was published.
    package var source: SourceOrigin?

    package init(revision: UInt64? = nil, isPublic: Bool? = nil, isSigned: Bool = false, source: SourceOrigin? = nil) {
        (self.revision, self.isPublic, self.isSigned, self.source) = (revision, isPublic, isSigned, source)
    }
}

/// A run, as the store has it. Times are in **milliseconds** since 1970.
package struct StoredRun: Codable, Sendable, Equatable {
    private(set) var number: Int64?
    package private(set) var identifier: String
    /// The session's name.
    package private(set) var session: String
    /// The epoch of its session in which it was last started.
    package private(set) var epoch: Int64
    package internal(set) var manifest: SHA256Digest
    /// What it was asked for, but for its hooks, which have records of their own.
    package internal(set) var recipe: RunRecipe
    /// What it has found out about the manifest.
    package private(set) var facts: ManifestFacts
    /// Paths that are wanted before all others.
    package internal(set) var firstPaths: [String] = []
    package private(set) var state: RunState
    /// Why it is paused, cancelled or superseded, or what it waits for.
    package internal(set) var reason: RestReason?
    /// Since when it waits for ``reason``.
    package internal(set) var waitingSince: Int64?
    /// Once it is finished.
    package internal(set) var result: RunResult?
    package internal(set) var counts = RunCounts()
    /// What went wrong last, for people.
    package internal(set) var error: String?
    /// What that was, for reports.
    package internal(set) var cause: FailureCause?
    /// The exit status of whoever waits for it, once it is finished.
    package internal(set) var exitStatus: Int32?
    package private(set) var created: Int64
    package private(set) var started: Int64?
    package internal(set) var finished: Int64?
    /// Not to be tried again earlier.
    package internal(set) var due: Int64?
    package internal(set) var deadline: Int64?
    /// Since when it is paused.
    package internal(set) var pausedAt: Int64?
    /// When a process that worked on it was lost, oldest first.
    package private(set) var losses: [Int64] = []

    init(_ start: RunStart, of session: StoredSession, isHeld: Bool, now: Int64) {
        recipe = start.recipe
        state = recipe.paused ? .paused : isHeld ? .running : .waiting
        (identifier, self.session, epoch) = (start.run, session.identifier, session.epoch)
        (manifest, facts, deadline) = (start.manifest, start.facts, start.deadline)
        facts.userData = facts.userData ?? recipe.userData?.text
        (created, started) = (now, state == .running ? now : nil)
        if recipe.paused { (reason, pausedAt) = (.userStop, now) }
        // What came of these has a place of its own: pin, session, deadline, groups, facts.
        (recipe.trust, recipe.staleSeconds, recipe.destination, recipe.label) = (nil, nil, nil, nil)
        (recipe.session, recipe.deadlineSeconds, recipe.originRun) = (session.identifier, nil, nil)
        (recipe.hooks, recipe.paused, recipe.userData) = ([], false, nil)
    }

    /// The path or URL the manifest came from.
    package var location: String { recipe.manifest }
    /// Not to start earlier.
    package var notBefore: Int64? { recipe.notBefore?.milliseconds }
    /// Whether it is only the record of a try that came to nothing: see ``SyncStore/recordTry``.
    package var isTry: Bool { state == .finished && started == nil }

    /// Whether another run would do the very same, apart from its hooks.
    func isSame(as other: StoredRun) -> Bool {
        func work(_ run: StoredRun) -> RunRecipe {
            var work = run.recipe
            // Only what bounds the run itself is its work; how it transfers is not.
            var settings = TransferSettings()
            (settings.connections, settings.limitRate) = (work.settings.connections, work.settings.limitRate)
            (work.manifest, work.settings, work.configuration) = ("", settings, nil)
            work.conditions = RunConditions()
            (work.notBefore, work.origin, work.userData) = (nil, .interactive, nil)
            return work
        }
        return manifest == other.manifest && facts == other.facts && work(self) == work(other)
    }

    /// Time in a pause does not count against the deadline, nor do losses before it set the run aside again.
    mutating func endPause(now: Int64) {
        if let since = pausedAt { deadline = deadline?.saturatingAdd(max(0, now.saturatingSubtract(since))) }
        (pausedAt, due, losses) = (nil, nil, [])
    }

    /// The one place that changes a run's state.
    ///
    /// - Returns: Whether it changed.
    /// - Throws: ``StoreError`` with code `refused`.
    mutating func move(_ input: RunInput, reason: RestReason? = nil) throws -> Bool {
        let hasMoved = try state.move(input, state.after(input), "Run \(identifier)")
        if hasMoved { self.reason = reason }
        return hasMoved
    }
}

extension StoredRun: StoreRecord {
    static let databaseTableName = "runs"

    mutating func didInsert(_ inserted: InsertionSuccess) { number = inserted.rowID }

    /// What an open run is, one that can still come to something; for rows of `runs`.
    static let isOpen = SQL.isAny("runs.state", of: RunState.allCases.filter(\.isOpen))

    static func all(where condition: SQL, _ db: Database) throws -> [StoredRun] {
        try read("run", by: "identifier", "SELECT * FROM runs WHERE \(condition)", db).map { run in
            var run = run
            run.counts.files.limit()
            run.recipe.userData = run.facts.userData.flatMap(JSONValue.init(text:))
            return run
        }
    }

    /// A run by its name.
    ///
    /// - Throws: ``StoreError`` with code `unknown`.
    static func named(_ identifier: String, _ db: Database) throws -> StoredRun {
        guard let run = try all(where: "identifier = \(identifier)", db).first else {
            throw StoreError.noRun(identifier)
        }
        return run
    }

    /// The run of a session that was asked for last; `nil` where there is none.
    static func latest(of session: StoredSession, _ db: Database) throws -> StoredRun? {
        try all(where: "session = \(session.identifier) ORDER BY number DESC LIMIT 1", db).first
    }

    /// The open runs of a session, oldest first.
    static func open(of session: StoredSession, _ db: Database) throws -> [StoredRun] {
        try all(where: "session = \(session.identifier) AND \(isOpen) ORDER BY number", db)
    }

    /// Whether its groups are all complete.
    func hasOnlyHooksLeft(_ db: Database) throws -> Bool {
        try StoredGroup.all(of: identifier, db).allSatisfy { $0.state == .completed }
    }

    /// Somebody begins to work on it.
    mutating func start(in session: StoredSession, now: Int64, _ db: Database) throws {
        try updateChanges(db) { run in
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
        let lost = try hasOnlyHooksLeft(db) ? nil : live?.work(of: identifier, epoch: epoch)
        var wasRunning = false
        try updateChanges(db) { run in
            wasRunning = try run.move(.released, reason: .agentRestart)
            guard wasRunning else { return }
            run.losses = (run.losses + [now]).suffix(10)
            guard let lost else { return }
            run.counts.bytes.received = run.counts.bytes.received.saturatingAdd(lost.received)
            run.counts.requests = run.counts.requests.saturatingAdd(lost.requests)
        }
        return wasRunning
    }

    /// It will not finish: what it leaves open ends with it, its groups and the hooks of those.
    mutating func close(now: Int64, _ db: Database) throws {
        try StoredGroup.cancelOpen(of: identifier, db)
        try updateChanges(db) { $0.finished = $0.finished ?? now }
    }
}

extension FileCounts {
    /// Numbers that can be added to others: no manifest has more files.
    fileprivate mutating func limit() {
        func sane(_ files: Int) -> Int { min(max(0, files), 1 << 40) }
        (total, installed, unchanged) = (sane(total), sane(installed), sane(unchanged))
        (reused, removed, failed) = (sane(reused), sane(removed), sane(failed))
    }
}

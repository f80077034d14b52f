import GRDB
package import SyncModel

/// The facts that a run has recorded about its manifest.
package struct ManifestFacts: Codable, Sendable, Equatable {
    /// The manifest's revision; `nil` before it was decoded, and 0 if it has none.
    package var revision: UInt64?
    /// Whether it came from a public address; `nil` if that is not known.
    package var isPublic: Bool?
    /// Whether it is signed with trusted keys.
    package var isSigned = false
    /// Data for hooks, observers and reports, from the client or else from the manifest; JSON text on one line.
    package var userData: String?
    /// `true` if that is the client's: another manifest does not replace it.
    var isUserDataGiven = false
    /// The listing that it was derived from; `nil` for a published manifest.
    package var source: SourceOrigin?
    /// The hooks that it names and the client has not requested, so that another manifest need not have them; `nil` for
    /// none.
    package var namedHooks: [RunHook]?

    package init(revision: UInt64? = nil, isPublic: Bool? = nil, isSigned: Bool = false, source: SourceOrigin? = nil) {
        (self.revision, self.isPublic, self.isSigned, self.source) = (revision, isPublic, isSigned, source)
    }
}

/// A stored run. Times are in **milliseconds** since 1970.
package struct StoredRun: Codable, Sendable, Equatable {
    private(set) var number: Int64?
    package private(set) var identifier: String
    /// The session's name.
    package private(set) var session: String
    /// The session's epoch in which the run was last started.
    package private(set) var epoch: Int64
    package internal(set) var manifest: SHA256Digest
    /// The request without its hooks, which have records of their own.
    package internal(set) var recipe: RunRecipe
    /// The facts that the run has recorded about its manifest.
    package private(set) var facts: ManifestFacts
    /// Paths that are fetched before all others.
    package internal(set) var firstPaths: [String] = []
    package private(set) var state: RunState
    /// Why it is paused, cancelled or superseded, or what it waits for.
    package internal(set) var reason: RestReason?
    /// When the wait for ``reason`` began.
    package internal(set) var waitingSince: Int64?
    /// The result, once the run has finished.
    package internal(set) var result: RunResult?
    package internal(set) var counts = RunCounts()
    /// The last error, for people.
    package internal(set) var error: String?
    /// The cause of that error, for reports.
    package internal(set) var cause: FailureCause?
    /// The exit status of a command that waits for the run, once it has finished.
    package internal(set) var exitStatus: Int32?
    package private(set) var created: Int64
    package private(set) var started: Int64?
    package internal(set) var finished: Int64?
    /// The earliest time of the next attempt.
    package internal(set) var due: Int64?
    package internal(set) var deadline: Int64?
    /// When the pause began.
    package internal(set) var pausedAt: Int64?
    /// When processes that worked on the run were lost, oldest first.
    package private(set) var losses: [Int64] = []

    init(_ start: RunStart, of session: StoredSession, isHeld: Bool, now: Int64) {
        recipe = start.recipe
        state = recipe.paused ? .paused : isHeld ? .running : .waiting
        (identifier, self.session, epoch) = (start.run, session.identifier, session.epoch)
        (manifest, facts, deadline) = (start.manifest, start.facts, start.deadline)
        facts.userData = facts.userData ?? recipe.userData?.text
        facts.isUserDataGiven = recipe.userData != nil
        (created, started) = (now, state == .running ? now : nil)
        if recipe.paused { (reason, pausedAt) = (.userStop, now) }
        // These values are stored elsewhere: pin, session, deadline, groups, facts.
        (recipe.trust, recipe.staleSeconds, recipe.destination, recipe.label) = (nil, nil, nil, nil)
        (recipe.session, recipe.deadlineSeconds, recipe.originRun) = (session.identifier, nil, nil)
        (recipe.hooks, recipe.paused, recipe.userData) = ([], false, nil)
    }

    /// The path or URL the manifest came from.
    package var location: String { recipe.manifest }
    /// The earliest start.
    package var notBefore: Int64? { recipe.notBefore?.milliseconds }
    /// Whether it only records a failed attempt: see ``SyncStore/recordTry``.
    package var isTry: Bool { state == .finished && started == nil }

    /// Whether another run would do the same, apart from its hooks.
    func isSame(as other: StoredRun) -> Bool {
        func work(_ run: StoredRun) -> RunRecipe {
            var work = run.recipe
            // Only limits of the run itself belong to its work; how it transfers does not.
            var settings = TransferSettings()
            (settings.connections, settings.limitRate) = (work.settings.connections, work.settings.limitRate)
            (work.manifest, work.settings, work.configuration) = ("", settings, nil)
            work.conditions = RunConditions()
            (work.notBefore, work.origin, work.userData) = (nil, .interactive, nil)
            return work
        }
        func facts(_ run: StoredRun) -> ManifestFacts {
            var facts = run.facts
            facts.namedHooks = nil
            return facts
        }
        return manifest == other.manifest && facts(self) == facts(other) && work(self) == work(other)
    }

    /// Ends a pause. Its time does not count against the deadline, and earlier losses no longer set the run aside.
    mutating func endPause(now: Int64) {
        if let since = pausedAt { deadline = deadline?.saturatingAdd(max(0, now.saturatingSubtract(since))) }
        (pausedAt, due, losses) = (nil, nil, [])
    }

    /// Changes the run's state; nothing else does.
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

    /// The condition for an open run. For rows of `runs`.
    static let isOpen = SQL.isAny("runs.state", of: RunState.allCases.filter(\.isOpen))

    static func all(where condition: SQL, _ db: Database) throws -> [StoredRun] {
        try read("run", by: "identifier", "SELECT * FROM runs WHERE \(condition)", db).map { run in
            var run = run.withUserData
            run.counts.files.limit()
            return run
        }
    }

    /// The same run with the client's data for hooks in the recipe, where it is not stored.
    var withUserData: StoredRun {
        var run = self
        if facts.isUserDataGiven { run.recipe.userData = facts.userData.flatMap(JSONValue.init(text:)) }
        return run
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

    /// The latest run of a session; `nil` if there is none.
    static func latest(of session: StoredSession, _ db: Database) throws -> StoredRun? {
        try all(where: "session = \(session.identifier) ORDER BY number DESC LIMIT 1", db).first
    }

    /// The open runs of a session, oldest first.
    static func open(of session: StoredSession, _ db: Database) throws -> [StoredRun] {
        try all(where: "session = \(session.identifier) AND \(isOpen) ORDER BY number", db)
    }

    /// Whether all its groups are complete.
    func hasOnlyHooksLeft(_ db: Database) throws -> Bool {
        try StoredGroup.all(of: identifier, db).allSatisfy { $0.state == .completed }
    }

    /// Notes that a process begins to work on the run.
    mutating func start(in session: StoredSession, now: Int64, _ db: Database) throws {
        try updateChanges(db) { run in
            _ = try run.move(.started)
            run.started = run.started ?? now
            (run.due, run.error, run.cause, run.waitingSince) = (nil, nil, nil, nil)
            run.epoch = session.epoch
        }
    }

    /// Notes that the run's worker is gone: the run waits again, and the loss is recorded. So is the work of which its
    /// live file tells, since a budget and reports are for all attempts. Once the groups are complete, the record has
    /// that already.
    ///
    /// - Returns: Whether it was running.
    mutating func lose(now: Int64, in store: SyncStore, _ db: Database) throws -> Bool {
        let live = store.liveFiles(of: session)
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
        if wasRunning, let lost { try store.add(lost: lost, of: self, now: now, db) }
        return wasRunning
    }

    /// Closes a run that will not finish: its open groups are cancelled, and their hooks dropped.
    mutating func close(now: Int64, _ db: Database) throws {
        try StoredGroup.cancelOpen(of: identifier, db)
        try updateChanges(db) { $0.finished = $0.finished ?? now }
    }
}

extension FileCounts {
    /// Bounds numbers so that they can be added: no manifest has more files.
    fileprivate mutating func limit() {
        func sane(_ files: Int) -> Int { min(max(0, files), 1 << 40) }
        (total, installed, unchanged) = (sane(total), sane(installed), sane(unchanged))
        (reused, removed, failed) = (sane(reused), sane(removed), sane(failed))
    }
}

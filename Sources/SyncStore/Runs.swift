import GRDB
package import SyncModel

/// A run to begin or to enqueue: all of it that must outlive this process, in one transaction.
package struct RunStart: Sendable, Equatable {
    package var session: StoredSession
    /// Unique for ever; its text order is the order of time. Empty before the run begins.
    package var run: String
    /// The digest of the manifest's bytes. The manifest is the list of tasks: no row is written for each.
    package var manifest: SHA256Digest
    /// The request. Its manifest is the path or URL where it was found; each hook's group is one of ``groups``.
    package var recipe: RunRecipe
    /// The known facts about the manifest.
    package var facts = ManifestFacts()
    /// Every group that will be complete, `all` among them.
    package var groups: [String] = [RunRecipe.groupOfAll]
    /// The deadline, **milliseconds** since 1970.
    package var deadline: Int64?

    package init(session: StoredSession, run: String = "", manifest: SHA256Digest, recipe: RunRecipe) {
        (self.session, self.run, self.manifest, self.recipe) = (session, run, manifest, recipe)
    }
}

extension SyncStore {
    /// Records a run with its groups and hooks, in one transaction, and begins an epoch of its session.
    ///
    /// The caller holds the session's lease, so that no other process works on it. Other open runs of the session are
    /// superseded.
    ///
    /// - Parameters:
    ///   - start: The run.
    ///   - isHeld: `true` to work on it at once; `false` to leave it `waiting` for the agent.
    ///   - continuing: Whether an open run with the same request continues instead: same manifest, selection,
    ///     options and hooks, and group `all` not complete. Hooks promised by earlier runs count as requested.
    ///   - isBehind: Whether this process, which holds the session, is calling hooks. No epoch begins then, and runs
    ///     that have only hooks left end by themselves. The new run waits for them.
    ///   - durability: `synced` if the caller acknowledges the run; with `eventual` a power cut may lose it.
    /// - Returns: The run to work on: the requested one, or an open run that is the same and continues; and the earlier
    ///   runs that it replaces, whose hooks of complete groups are still owed.
    /// - Throws: ``StoreError``; `refused` if the session belongs to another project.
    @discardableResult package func begin(
        _ start: RunStart, now: Int64, isHeld: Bool = true, continuing: Bool = false, isBehind: Bool = false,
        durability: Durability = .synced
    ) throws(StoreError) -> (run: StoredRun, isContinued: Bool, superseded: [String]) {
        try write(durability) { db in
            let session = try StoredSession.enter(start.session, now: now, keepsEpoch: isBehind, db)
            var open = try StoredRun.open(of: session, db)
            var start = try StoredHook.promised(to: start, in: session, db)
            if !isHeld, start.recipe.origin != .interactive,
                open.contains(where: { $0.state == .paused && $0.reason == .userStop })
            {
                // Only a person overrules a person's pause.
                start.recipe.paused = true
            }
            // The process that works on such a run also ends it.
            if isBehind { try open.removeAll { try $0.state == .running || $0.hasOnlyHooksLeft(db) } }
            var same: StoredRun?
            if continuing, let last = open.last, try Self.asksForTheSame(last, start, db) { same = open.popLast() }
            for index in open.indices {
                // Its process is gone: the caller holds the session.
                if open[index].state == .running { _ = try open[index].lose(now: now, in: self, db) }
                try open[index].updateChanges(db) { _ = try $0.move(.superseded, reason: .superseded) }
                try open[index].close(now: now, db)
            }
            let isContinued = same != nil
            var run = try same ?? Self.insert(start, session, isHeld, now, db)
            if isContinued { try continueRun(&run, in: session, as: start, isHeld: isHeld, now: now, db) }
            return (run, isContinued, open.map(\.identifier))
        }
    }

    /// The open run of the session with the same request, which ``begin(_:now:isHeld:continuing:isBehind:durability:)``
    /// would continue.
    package func openRun(like start: RunStart) throws(StoreError) -> StoredRun? {
        try read { db in
            guard let session = try StoredSession.find(start.session.identifier, db),
                session.destination == start.session.destination, let last = try StoredRun.open(of: session, db).last
            else { return nil }
            let start = try StoredHook.promised(to: start, in: session, db)
            return try Self.asksForTheSame(last, start, db) ? last : nil
        }
    }

    private static func asksForTheSame(_ run: StoredRun, _ start: RunStart, _ db: Database) throws -> Bool {
        let asked = StoredRun(start, of: start.session, isHeld: false, now: 0)
        let all = try StoredGroup.named(RunRecipe.groupOfAll, of: run.identifier, db)
        guard all?.state == .open, run.isSame(as: asked) else { return false }
        return try StoredHook.all(where: "hooks.run = \(run.identifier)", db).map(\.hook) == start.recipe.hooks
    }

    /// Continues an open run, whatever process worked on it before: the caller holds its session's lease.
    private func continueRun(
        _ run: inout StoredRun, in session: StoredSession, as start: RunStart, isHeld: Bool, now: Int64, _ db: Database
    ) throws {
        let recipe = start.recipe
        try run.updateChanges(db) { run in
            run.recipe.conditions = recipe.conditions
            // A new request replaces the start time; a hook's run waits for the launch limiter.
            guard recipe.origin != .hook else { return }
            run.recipe.notBefore = recipe.notBefore
            (run.recipe.settings, run.recipe.configuration) = (recipe.settings, recipe.configuration)
            if let deadline = start.deadline { run.deadline = max(run.deadline ?? 0, deadline) }
            if run.state == .waiting { run.due = nil }
        }
        if run.state == .running { _ = try run.lose(now: now, in: self, db) }
        try run.updateChanges(db) { run in
            if recipe.paused {
                if run.state == .waiting, try run.move(.paused, reason: .userStop) { run.pausedAt = now }
            } else if run.state == .paused,
                // A pull that ended because its terminal closed was not stopped on purpose.
                isHeld || recipe.origin == .interactive || run.reason == .terminalClosed
            {
                _ = try run.move(.resumed)
                run.endPause(now: now)
            }
        }
        if isHeld { try run.start(in: session, now: now, db) }
    }

    private static func insert(
        _ start: RunStart, _ session: StoredSession, _ isHeld: Bool, _ now: Int64, _ db: Database
    ) throws -> StoredRun {
        var run = StoredRun(start, of: session, isHeld: isHeld, now: now)
        try run.insert(db)
        for name in Set(start.groups).sorted() {
            var group = StoredGroup(run: start.run, name: name)
            try group.insert(db)
        }
        for hook in start.recipe.hooks { try StoredHook.insert(hook, of: start.run, db) }
        return run.withUserData
    }

    /// Starts a waiting run, in a new epoch of its session. The caller holds the session's lease.
    ///
    /// - Throws: ``StoreError``; `refused` if it is not waiting.
    package func take(run: String, now: Int64) throws(StoreError) -> StoredRun {
        try write(.synced) { db in
            var found = try StoredRun.named(run, db)
            var session = try StoredSession.named(found.session, db)
            try session.beginEpoch(db)
            try found.start(in: session, now: now, db)
            return found
        }
    }

    /// Records a run's manifest, once everything that its source did not state is known.
    package func change(manifest: SHA256Digest, of run: String) throws(StoreError) {
        try write(.eventual) { db in
            var found = try StoredRun.named(run, db)
            try found.updateChanges(db) { $0.manifest = manifest }
        }
    }

    /// Records why a run waits, and until when it need not be checked.
    ///
    /// - Parameters:
    ///   - run: The run; nothing happens unless it waits.
    ///   - reason: `connectivity`, `not_before`, `session_busy` …
    ///   - error: The error, for people.
    ///   - cause: The cause, for reports.
    ///   - due: **Milliseconds** since 1970; `nil` for at once.
    ///   - since: When that wait began, kept while the reason stays the same; **milliseconds** since 1970.
    package func hold(
        run: String, reason: RestReason?, error: String? = nil, cause: FailureCause? = nil, due: Int64?,
        since: Int64? = nil
    ) throws(StoreError) {
        try write(.eventual) { db in
            let waiting: SQL = "identifier = \(run) AND state = \(RunState.waiting.rawValue)"
            var found = try StoredRun.all(where: waiting, db).first
            try found?.updateChanges(db) { run in
                if run.reason != reason { (run.reason, run.waitingSince) = (reason, since) }
                if let error { (run.error, run.cause) = (error, cause) }
                run.due = due
            }
        }
    }

    /// Makes a waiting run be checked again at once, on a person's request. The delay of a hook's run ends, too.
    package func expedite(run: String) throws(StoreError) {
        try write(.eventual) { db in
            var found = try StoredRun.named(run, db)
            guard found.state == .waiting else { return }
            try found.updateChanges(db) { run in
                run.due = nil
                if run.recipe.origin == .hook { run.recipe.notBefore = nil }
            }
        }
    }

    /// Puts paths of a run before all others; those named last come first.
    package func prioritize(run: String, paths: [String]) throws(StoreError) {
        try write(.synced) { db in
            var found = try StoredRun.named(run, db)
            let wanted = Set(paths)
            let all = paths + found.firstPaths.filter { !wanted.contains($0) }
            try found.updateChanges(db) { $0.firstPaths = Array(all.prefix(Self.firstPathsLimit)) }
        }
    }

    /// Most paths that can be put first.
    package static let firstPathsLimit = 10_000

    /// Records the end of a run, all of whose groups are complete. A repetition changes nothing.
    ///
    /// - Parameters:
    ///   - result: The result.
    ///   - error: The error, for people.
    ///   - cause: The cause, for reports.
    ///   - exitStatus: The exit status of a command that waits for it.
    ///   - work: The work to add to the session's totals.
    ///   - events: The run's last events, which are recorded in the same transaction.
    /// - Throws: ``StoreError``; `refused` if it is not running.
    package func finish(
        run: String, result: RunResult, counts: RunCounts, error: String? = nil, cause: FailureCause? = nil,
        exitStatus: Int32? = nil, work: SessionTotals? = nil, events: [[UInt8]] = [], now: Int64
    ) throws(StoreError) {
        try write(.eventual) { db in
            var found = try StoredRun.named(run, db)
            var isNew = false
            try found.updateChanges(db) { run in
                isNew = try run.move(.finished)
                guard isNew else { return }
                (run.result, run.error, run.cause, run.exitStatus) = (result, error, cause, exitStatus)
                (run.finished, run.counts) = (now, counts)
            }
            guard isNew else { return }
            var session = try StoredSession.named(found.session, db)
            try self.append(events, to: &session, time: now, db)
            try session.updateChanges(db) { $0.totals.add(work, result) }
            // A group without any request cannot stay open after its run has finished.
            try StoredGroup.cancelOpen(of: run, db)
        }
    }

    /// **Milliseconds** within which the same failure counts as the same attempt, so that attempts every few minutes do
    /// not push everything else out of the record.
    private static let tryInterval: Int64 = 3_600_000

    /// Records an attempt of a known session that led to no run, such as for an unreachable manifest: as a run that has
    /// ended and was never started, with the manifest of the session's latest run. An open run continues instead and
    /// gets the error.
    ///
    /// - Parameters:
    ///   - run: The name of the new run.
    ///   - recipe: The request.
    ///   - error: The error, for people.
    ///   - cause: The cause, for reports.
    ///   - exitStatus: The exit status of the command.
    ///   - work: The attempt's work, without files.
    ///   - event: The line for its last event, given the name of its run.
    ///   - began: The time of the request, **milliseconds** since 1970.
    /// - Returns: The run with the error; `nil` if there is no such session, or another process works on it.
    package func recordTry(
        of session: String, run: String, _ recipe: RunRecipe, error: String, cause: FailureCause, exitStatus: Int32,
        work: SessionTotals, event: (_ run: String) -> [UInt8], began: Int64, now: Int64
    ) throws(StoreError) -> StoredRun? {
        try write(.eventual) { db in
            guard var session = try StoredSession.find(session, db), var last = try StoredRun.latest(of: session, db)
            else { return nil }
            if var open = try StoredRun.open(of: session, db).last {
                if open.state == .running, isHeld(session.identifier) { return nil }
                try open.updateChanges(db) { ($0.error, $0.cause) = (error, cause) }
                return open
            }
            if last.isTry, last.error == error, last.cause == cause, let end = last.finished,
                (0..<Self.tryInterval).contains(now.saturatingSubtract(end))
            {
                try last.updateChanges(db) { $0.finished = now }
                return last
            }
            var start = RunStart(session: session, run: run, manifest: last.manifest, recipe: recipe)
            start.recipe.paused = false
            start.groups += recipe.hooks.map(\.group)
            var made = try Self.insert(start, session, false, min(began, now), db)
            try made.updateChanges(db) { run in
                _ = try run.move(.started)
                _ = try run.move(.finished)
                (run.result, run.error, run.cause, run.exitStatus) = (.failed, error, cause, exitStatus)
                run.finished = now
                (run.counts.bytes.received, run.counts.requests) = (work.received, work.requests)
            }
            try self.append([event(run)], to: &session, time: now, db)
            try session.updateChanges(db) { $0.totals.add(work, .failed) }
            try StoredGroup.cancelOpen(of: run, db)
            return made
        }
    }

    /// Applies the wish of a person or a policy to a run: pause, resume, cancel, release.
    ///
    /// - Parameters:
    ///   - input: `released`, `paused`, `resumed` or `cancelled`.
    ///   - reason: The reason, for `status`: `user_stop`, `metered` ….
    ///   - counts: The counts so far, from the process that works on the run. Without them, a run that is `running` has
    ///     lost its process, and the process's last record counts.
    ///   - work: That process's work, to add to the session's totals if the state changes.
    ///   - events: Recorded in the same transaction if the state changes: JSON lines, UTF-8, without newlines.
    /// - Returns: Whether the run's state changed; a command may be repeated.
    /// - Throws: ``StoreError``; `refused` if the life cycle has no such step.
    @discardableResult package func apply(
        _ input: RunInput, to run: String, reason: RestReason? = nil, counts: RunCounts? = nil,
        work: SessionTotals? = nil, events: [[UInt8]] = [], now: Int64
    ) throws(StoreError) -> Bool {
        try write(.synced) { db in
            var found = try StoredRun.named(run, db)
            if counts == nil, found.state == .running, input != .resumed {
                _ = try found.lose(now: now, in: self, db)
            }
            var hasMoved = false
            try found.updateChanges(db) { run in
                if let counts { run.counts = counts }
                hasMoved = try run.move(input, reason: reason)
                guard hasMoved else { return }
                // Time in a pause does not count against the deadline.
                if input == .paused { run.pausedAt = now }
                if input == .resumed { run.endPause(now: now) }
            }
            guard hasMoved else { return false }
            if work != nil || !events.isEmpty {
                var session = try StoredSession.named(found.session, db)
                try self.append(events, to: &session, time: now, db)
                try session.updateChanges(db) { $0.totals.add(work) }
            }
            if input == .cancelled || input == .superseded { try found.close(now: now, db) }
            // Hooks of a superseded run are still owed; those of a run that a person cancels are not.
            if input == .cancelled { try StoredHook.giveUp(of: run, now: now, db) }
            return true
        }
    }

    /// A run by its name.
    ///
    /// - Throws: ``StoreError`` with code `unknown`.
    package func run(_ identifier: String) throws(StoreError) -> StoredRun {
        try read { db in try StoredRun.named(identifier, db) }
    }

    /// The latest runs, newest first.
    ///
    /// - Parameter onlyOpen: Whether to list only open runs.
    package func runs(session: String? = nil, onlyOpen: Bool = false, limit: Int = 100) throws(StoreError)
        -> [StoredRun]
    {
        let isWanted = onlyOpen ? StoredRun.isOpen : "TRUE"
        return try read { db in
            try StoredRun.all(where: "\(Self.isOf(session)) AND \(isWanted) ORDER BY number DESC LIMIT \(limit)", db)
        }
    }

    /// The last run of a session that installed everything, however many have failed since; `nil` if there is none.
    package func lastSuccess(of session: String) throws(StoreError) -> StoredRun? {
        try read { db in
            let isWanted: SQL = "session = \(session) AND result = \(RunResult.ok.rawValue)"
            return try StoredRun.all(where: "\(isWanted) ORDER BY number DESC LIMIT 1", db).first
        }
    }
}

package import SyncControl
import SyncEngine
import SyncModel
import SyncReport
import SyncStore

extension Agent: AgentControl {
    package func status() -> AgentStatus {
        AgentStatus(
            version: environment.version,
            process: environment.process,
            started: WallTime(milliseconds: started),
            state: stopMode == nil ? "running" : "stopping",
            stateDirectory: environment.stateDirectory,
            running: jobs.count,
            maximumRuns: environment.maximumRuns,
            sessions: (try? store.sessions().count) ?? 0,
            onDemand: environment.isOnDemand
        )
    }

    package func metrics() throws(ControlError) -> String {
        let facts = Metrics.AgentFacts(
            started: started,
            runningRuns: jobs.count,
            maximumRuns: environment.maximumRuns
        )
        let metrics = Metrics(store: store, version: environment.version, agent: facts)
        return try asking { () throws(StoreError) in try metrics.text() }
    }

    package func sessions() throws(ControlError) -> [SessionStatus] {
        var all = try reader.sessions()
        for index in all.indices { addLive(&all[index]) }
        return all
    }

    package func session(_ identifier: String) throws(ControlError) -> SessionStatus {
        var status = try reader.session(identifier)
        addLive(&status)
        return status
    }

    /// What only the process that does the work knows.
    private func addLive(_ status: inout SessionStatus) {
        if let job = jobs[status.session] {
            status.run?.progress = job.progress
            status.run?.waits = job.waits
            if !job.waits.isEmpty { status.reason = "connectivity" }
        } else if status.state == "waiting", status.reason == nil || status.reason == "agent_restart",
            jobs.count >= environment.maximumRuns
        {
            status.reason = "queue"
        }
    }

    // MARK: Commands

    package func pause(_ session: String) async throws(ControlError) -> SessionStatus {
        try await atRest(session, .user) { store, run, now throws(StoreError) in
            try store.apply(.paused, to: run, reason: StopReason.user.rawValue, now: now)
        }
    }

    package func cancel(_ session: String) async throws(ControlError) -> SessionStatus {
        let status = try await atRest(session, .cancelled) { store, run, now throws(StoreError) in
            try store.apply(.cancelled, to: run, reason: StopReason.cancelled.rawValue, now: now)
        }
        // What was fetched for it and not placed goes.
        _ = try await clear(session, files: false)
        return status
    }

    package func resume(_ session: String) async throws(ControlError) -> SessionStatus {
        resetLimiter(session)
        await turns.enter(session)
        let failure = failure { () throws(ControlError) in
            try asking { () throws(StoreError) in
                guard try store.session(session) != nil else { throw StoreError.noSession(session) }
                guard let run = try store.runs(session: session, onlyOpen: true, limit: 1).first else {
                    return
                }
                setbacks[run.identifier] = nil
                if run.state == .paused {
                    try store.apply(.resumed, to: run.identifier, now: environment.now())
                } else if run.state == .waiting {
                    try store.hold(run: run.identifier, reason: run.reason, due: nil)
                }
            }
        }
        await turns.leave(session)
        if let failure { throw failure }
        wake()
        return try self.session(session)
    }

    package func prioritize(_ session: String, paths: [String]) async throws(ControlError) -> SessionStatus {
        await turns.enter(session)
        let failure = failure { () throws(ControlError) in
            try asking { () throws(StoreError) in
                guard try store.session(session) != nil else { throw StoreError.noSession(session) }
                guard let run = try store.runs(session: session, onlyOpen: true, limit: 1).first else {
                    throw StoreError.noOpenRun(session)
                }
                try store.prioritize(run: run.identifier, paths: paths)
            }
        }
        if failure == nil, let job = jobs[session] {
            // It plans again with the new order; what has come stays.
            job.stop.stop(.released)
            await job.untilEnd()
        }
        await turns.leave(session)
        if let failure { throw failure }
        wake()
        return try self.session(session)
    }

    package func remove(_ session: String, files: Bool) async throws(ControlError) {
        _ = try await cancel(session)
        if files { _ = try await clear(session, files: true) }
        await turns.enter(session)
        let failure = failure { () throws(ControlError) in
            try asking { () throws(StoreError) in try store.remove(session: session) }
        }
        await turns.leave(session)
        if let failure { throw failure }
    }

    package func hooks(session: String?) throws(ControlError) -> [HookStatus] {
        try reader.hooks(session: session)
    }

    package func replay(hook: Int64) throws(ControlError) -> HookStatus {
        let found = try asking { () throws(StoreError) in
            try store.replay(hook: hook)
            return try store.hook(hook)
        }
        wake()
        return HookStatus(found)
    }

    package func stop(_ mode: AgentStop) {
        guard stopMode == nil else { return }
        stopMode = mode
        environment.log("stopping (\(mode.rawValue))")
        for job in jobs.values { job.stop.stop(mode == .pause ? .user : .released) }
        if mode == .pause { pauseAll() }
        wake()
    }

    /// A person stops everything: nothing moves until it is resumed (S24).
    private func pauseAll() {
        do throws(StoreError) {
            for run in try store.runs(onlyOpen: true, limit: 10_000) where run.state == .waiting {
                let reason = StopReason.user
                let now = environment.now()
                if try store.apply(.paused, to: run.identifier, reason: reason.rawValue, now: now) {
                    try tellStopped(run, reason)
                }
            }
        } catch {
            environment.log("\(error)")
        }
    }

    // MARK: Events

    package func events(
        of session: String,
        since: Int64,
        follow: Bool,
        progress: Bool
    ) throws(ControlError) -> AsyncThrowingStream<String, any Error> {
        _ = try reader.session(session)
        var ask: (@Sendable () -> RunStatus.Progress?)?
        if progress { ask = { [board] in board.progress(of: session) } }
        let lines = EventLines(
            store: store,
            session: session,
            follows: follow,
            progress: ask,
            sleep: environment.sleep,
            isOver: { [board] in board.isOver }
        )
        if follow { board.follow(session) }
        let reading = Reading(lines: lines, since: since) { [board] in
            if follow { board.unfollow(session) }
        }
        return AsyncThrowingStream { try await reading.next() }
    }

    // MARK: Parts

    /// Brings a session's open run to rest, then changes it.
    private func atRest(
        _ session: String,
        _ reason: StopReason,
        _ change: (SyncStore, String, Int64) throws(StoreError) -> Bool
    ) async throws(ControlError) -> SessionStatus {
        await turns.enter(session)
        if let job = jobs[session] {
            job.stop.stop(reason)
            await job.untilEnd()
        }
        let failure = failure { () throws(ControlError) in
            try asking { () throws(StoreError) in
                guard try store.session(session) != nil else { throw StoreError.noSession(session) }
                guard let run = try store.runs(session: session, onlyOpen: true, limit: 1).first else {
                    return
                }
                // A command in the foreground has it; its own terminal stops it.
                let lease = try store.lease(of: session, process: environment.process, now: environment.now())
                if try change(store, run.identifier, environment.now()) { try tellStopped(run, reason) }
                withExtendedLifetime(lease) {}
            }
        }
        await turns.leave(session)
        if let failure { throw failure }
        wake()
        return try self.session(session)
    }

    /// A run that nobody works on is stopped: its readers hear it in the words of one that is worked on.
    private func tellStopped(_ run: StoredRun, _ reason: StopReason) throws(StoreError) {
        let now = environment.now()
        let event = SyncEvent("run.stopped", time: now) { $0.field("reason", reason.rawValue) }
        let line = event.of(session: run.session, run: run.identifier).json.bytes
        try store.append([line], to: run.session, time: now)
    }

    private func clear(_ session: String, files: Bool) async throws(ControlError) -> Int {
        let found = try reader.session(session)
        let needs = EngineNeeds(deadline: .seconds(60), patience: .seconds(1), stop: StopRequest())
        let handle = try environment.engine(needs).get()
        let result = await onThread { () -> Result<Int, EngineError> in
            defer { handle.end() }
            do throws(EngineError) {
                return .success(try handle.engine.clear(found.destination, files: files))
            } catch {
                return .failure(error)
            }
        }
        switch result {
        case .success(let count): return count
        case .failure(let error): throw ControlError(error)
        }
    }

    /// A person is here (S60).
    func resetLimiter(_ session: String) {
        // A limiter that cannot be reset runs out by itself.
        try? store.keepLimiter(of: session, delay: 0, raised: nil)
    }

    /// The error of `body`, to be thrown after what must happen in any case.
    func failure(_ body: () throws(ControlError) -> Void) -> ControlError? {
        do throws(ControlError) {
            try body()
            return nil
        } catch {
            return error
        }
    }
}

/// One reader of events: asked for one line at a time.
private actor Reading {
    private let lines: EventLines
    private var cursor: EventLines.Cursor
    private let end: @Sendable () -> Void

    init(lines: EventLines, since: Int64, end: @escaping @Sendable () -> Void) {
        self.lines = lines
        cursor = EventLines.Cursor(seen: max(0, since))
        self.end = end
    }

    deinit { end() }

    func next() async throws -> String? {
        var cursor = cursor
        let line = try await lines.next(&cursor)
        self.cursor = cursor
        return line
    }
}

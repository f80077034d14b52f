package import SyncAgent
import SyncAssembly
import SyncEngine
package import SyncModel
import SyncReport
import SyncStore
import SyncSystem

extension Agent: AgentControl {
    package func status() -> AgentStatus {
        AgentStatus(
            version: environment.version, process: environment.process, started: WallTime(milliseconds: started),
            state: stopMode == nil ? .running : .stopping, stateDirectory: environment.stateDirectory,
            running: transferring, maximumRuns: environment.maximumRuns, sessions: (try? store.sessions().count) ?? 0,
            onDemand: environment.isOnDemand)
    }

    package func metrics() throws(ControlError) -> String {
        let scheduled = environment.scheduled()
        return try stored(
            metricsText(
                store, version: environment.version, agent: (started, transferring, environment.maximumRuns),
                next: scheduled.next, failingSchedules: scheduled.failing))
    }

    package func sessions() throws(ControlError) -> [SessionStatus] {
        var all = try store.sessionStatuses(now: environment.now())
        for index in all.indices { addLive(&all[index]) }
        return all
    }

    package func session(_ identifier: String) throws(ControlError) -> SessionStatus {
        var status = try store.sessionStatus(identifier, now: environment.now())
        addLive(&status)
        // A foreground pull may have been killed since the last check, which is up to a minute ago.
        if status.isInterrupted == true { wake() }
        return status
    }

    /// Adds what is known only to the process that does the work.
    private func addLive(_ status: inout SessionStatus) {
        if let job = jobs[status.session] {
            if job.run == status.run?.run, let progress = job.progress {
                status.run?.progress = RunStatus.Progress(
                    phase: progress.phase, filesDone: progress.filesDone, filesTotal: progress.filesTotal,
                    bytesDone: progress.bytesDone, bytesTotal: progress.bytesTotal)
            }
        } else if status.state == .waiting, status.reason == nil || status.reason == .agentRestart,
            transferring >= environment.maximumRuns
        {
            status.reason = .queue
        }
    }

    // MARK: Commands

    package func pause(_ session: String) async throws(ControlError) -> SessionStatus {
        try await pauseOrResume(.paused, session)
    }

    /// Resumes a run. If the last one was cancelled, or has ended without an `ok`, enqueues the same request again.
    package func resume(_ session: String) async throws(ControlError) -> SessionStatus {
        try refuseIfStopping()
        if let request = try requestAgain(session) {
            _ = try await enqueue(request)
            return try self.session(session)
        }
        return try await pauseOrResume(.resumed, session)
    }

    /// The request of a session's last run, if that run has failed or was cancelled, was no rollback, and no run is
    /// open.
    private func requestAgain(_ session: String) throws(ControlError) -> EnqueueRequest? {
        try asking { () throws(StoreError) in
            guard try openRun(of: session) == nil, let place = try store.session(session)?.destination,
                let run = try store.runs(session: session, limit: 1).first,
                run.state == .cancelled || run.state == .finished && run.result != .ok,
                // It would go to the newest release, which may be held.
                !run.recipe.rollback
            else { return nil }
            var request = run.recipe
            request.destination = place
            // The newest manifest says itself which hooks it names.
            let named = Set(run.facts.namedHooks ?? [])
            let hooks = try store.hooks(run: run.identifier, limit: .max).reversed().map(\.hook)
            request.hooks = hooks.filter { !named.contains($0) }
            // Starts at once, for a person: earlier start times and conditions no longer apply.
            (request.notBefore, request.conditions, request.origin) = (nil, RunConditions(), .interactive)
            return request
        }
    }

    package func cancel(_ session: String) async throws(ControlError) -> SessionStatus {
        try await cancelRuns(of: session, clearing: false)
        return try self.session(session)
    }

    package func prioritize(_ session: String, paths: [String]) async throws(ControlError) -> SessionStatus {
        try await requireNamed(paths, session)
        await enter(session)
        defer { leave(session) }
        try asking { () throws(StoreError) in
            guard let run = try openRun(of: session) else { throw StoreError.noOpenRun(session) }
            try store.prioritize(run: run.identifier, paths: paths)
        }
        if let job = jobs[session], !job.isCallingHooks {
            // The run plans again with the new order; received bytes stay.
            job.stop.stop(.released)
            await job.untilEnd()
        }
        return try self.session(session)
    }

    package func remove(_ session: String, files: Bool) async throws(ControlError) {
        if files { try await requireOwnFiles(session) }
        do throws(ControlError) { try await cancelRuns(of: session, clearing: files) } catch {
            // The destination is read-only, or somebody else's by now: what is fetched and not in place stays there.
            guard !files, error.exitStatus == .cannotCreate else { throw error }
            environment.log("\(escaped(session)): \(error.message)")
        }
        await enter(session)
        defer { leave(session) }
        try stored(store.remove(session: session))
        environment.schedules?.forget(session)
    }

    package func hooks(session: String?) throws(ControlError) -> [HookStatus] {
        try store.hookStatuses(session: session)
    }

    package func replay(hook: Int64) throws(ControlError) -> HookStatus {
        try refuseIfStopping()
        let found = try asking { () throws(StoreError) in
            try store.replay(hook: hook)
            return try store.hook(hook)
        }
        retries[found.session] = nil
        wake()
        return HookStatus(found)
    }

    package func stop(_ mode: AgentStop) {
        guard stopMode == nil else { return }
        stopMode = mode
        environment.log("stopping (\(mode.rawValue))")
        for job in jobs.values { job.stop.stop(mode == .pause ? .user : .released) }
        for stop in answering.values { stop.stop(.released) }
        if mode == .pause { pauseAll() }
        wake()
    }

    /// Pauses all runs: a person stopped the agent, so no run continues until it is resumed.
    private func pauseAll() {
        do throws(StoreError) {
            for run in try store.runs(onlyOpen: true, limit: 10_000) {
                let isInterrupted = try store.isInterrupted(run)
                guard run.state == .waiting || isInterrupted else { continue }
                try store.apply(
                    .paused, to: run.identifier, reason: StopReason.user.rest, events: [stopped(run, .user)],
                    now: environment.now())
            }
        } catch { environment.log("\(error)") }
    }

    // MARK: Events

    package func events(of session: String, since: Int64, follow: Bool, progress: Bool) throws(ControlError)
        -> AsyncThrowingStream<String, any Error>
    {
        try stored(store.requireReached(since, of: session))
        let lines = EventLines(self, session, after: since, follows: follow, showsProgress: progress)
        return AsyncThrowingStream { try await lines.next() }
    }

    package func requests(of session: String) throws(ControlError) -> RequestList { try store.requestList(of: session) }

    package func tasks(of session: String, state: TaskState?, path: String?) async throws(ControlError)
        -> AsyncThrowingStream<String, any Error>
    {
        let (store, directory) = (store, environment.stateDirectory)
        // Reading a manifest of a million files takes a while.
        let found: Result<TaskListing?, ControlError>
        do throws(ThreadError) {
            found = try await onThread("tasks") {
                Result { () throws(ControlError) in
                    try store.taskListing(of: session, state: state, path: path, stateDirectory: directory)
                }
            }
        } catch { throw ControlError(.failed, "\(error)", exitStatus: .ioError) }
        let tasks = try found.get()
        return AsyncThrowingStream {
            try tasks?.next().map { String(decoding: try $0.controlJSON(), as: UTF8.self) }
        }
    }

    // MARK: Parts

    /// Cancels a session's open runs and removes fetched data that is not in place yet.
    ///
    /// - Parameter clearing: Whether installed files are removed, too.
    private func cancelRuns(of session: String, clearing: Bool) async throws(ControlError) {
        await enter(session)
        defer { leave(session) }
        if let job = jobs[session] {
            job.stop.stop(.cancelled)
            await job.untilEnd()
        }
        try asking { () throws(StoreError) in
            for run in try openRuns(of: session) { try recordStop(of: run, .cancelled, .cancelled) }
        }
        try await clear(session, files: clearing)
    }

    /// Refuses to remove the files of a session if another one has put them into the same destination, too.
    private func requireOwnFiles(_ session: String) async throws(ControlError) {
        let place = try store.sessionStatus(session, now: environment.now()).destination
        let all = try asking { () throws(StoreError) in try store.sessions() }
        let others: [StoredSession]
        // A server of files that does not answer keeps only this request waiting.
        do throws(ThreadError) {
            others = try await onThread("destinations") { () -> [StoredSession] in
                let there = SyncSystem.status(following: place)
                return all.filter { other in
                    guard other.identifier != session else { return false }
                    if other.destination == place { return true }
                    guard let there else { return false }
                    return SyncSystem.status(following: other.destination)?.isSameFile(as: there) == true
                }
            }
        } catch { throw ControlError(.failed, "\(error)", exitStatus: .ioError) }
        let other = try asking { () throws(StoreError) -> String? in
            for other in others {
                // However many runs have failed since.
                let success = try store.lastSuccess(of: other.identifier).map { [$0] } ?? []
                // A shard's files are those of the whole set, and removed with its session.
                let hasFiles = try (success + store.runs(session: other.identifier)).contains { run in
                    (run.result == .ok || run.result == .partial) && run.recipe.shard == nil
                }
                if hasFiles { return other.identifier }
            }
            return nil
        }
        guard let other else { return }
        throw ControlError(
            EngineError(
                .usage,
                "the files in \(escaped(place)) are those of session '\(escaped(other))', too; nothing was changed. Remove that "
                    + "session first, or keep the files"))
    }

    /// Refuses the paths if the manifest of a session's run names none of them. If that cannot be found out, they are
    /// accepted.
    private func requireNamed(_ paths: [String], _ session: String) async throws(ControlError) {
        guard let run = try stored(openRun(of: session)) else { return }
        let named = try await withEngine(StopRequest()) { engine throws(EngineError) in try engine.names(paths, run) }
        if case .failure(let error) = named { environment.log("prioritize: \(error.message)") }
        guard case .success(false) = named else { return }
        let shown = paths.prefix(3).map { "'\(escaped($0))'" }.joined(separator: ", ")
        throw ControlError(
            EngineError(.noInput, "The manifest of '\(escaped(session))' has no \(shown); nothing was changed."))
    }

    private func clear(_ session: String, files: Bool) async throws(ControlError) {
        let found = try store.sessionStatus(session, now: environment.now())
        let shard = try asking { () throws(StoreError) in
            try store.runs(session: session, limit: 1).first?.recipe.shard
        }
        let isShared = try asking { () throws(StoreError) in
            // A shard has a place of its own.
            guard shard == nil else { return false }
            let open = Set(try store.runs(onlyOpen: true, limit: 10_000).map(\.session))
            return try store.sessions().contains {
                $0.identifier != session && $0.destination == found.destination && open.contains($0.identifier)
            }
        }
        // The fetched data there is another session's, too.
        guard files || !isShared else { return }
        let stop = StopRequest()
        answering[ObjectIdentifier(stop)] = stop
        defer { answering[ObjectIdentifier(stop)] = nil }
        let cleared = try await withEngine(stop) { engine throws(EngineError) in
            try engine.clear(
                found.destination, of: found.project, shard: shard, files: files, keepsStaging: isShared)
        }
        do throws(EngineError) { _ = try cleared.get() } catch { throw ControlError(error) }
    }

    /// Runs work with an engine that belongs to no run.
    private func withEngine<R: Sendable>(
        _ stop: StopRequest, _ work: @escaping @Sendable (PullEngine) throws(EngineError) -> R
    ) async throws(ControlError) -> Result<R, EngineError> {
        let needs = EngineRequest(deadline: .seconds(60), patience: .seconds(1), stop: stop)
        let handle = try environment.engine(needs).get()
        let result: Result<R, EngineError>
        do throws(EngineError) {
            result = .success(
                try await onEngineThread(stopping: stop) { () throws(EngineError) in try work(handle.engine) })
        } catch { result = .failure(error) }
        await end(handle)
        return result
    }

    /// Resets the launch limiter of a session, on a person's request.
    func resetLimiter(_ session: String) {
        // A limiter that cannot be reset runs out by itself.
        try? store.keep(LaunchLimiter(), of: session)
    }
}

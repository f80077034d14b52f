package import SyncAgent
import SyncAssembly
import SyncEngine
import SyncModel
import SyncPlugins
import SyncStore
import SyncSystem

extension Agent {
    package func enqueue(_ asked: EnqueueRequest) async throws(ControlError) -> EnqueueReply {
        try await enqueue(asked, inPlaceOf: nil)
    }

    /// - Parameter former: The run that the new one replaces, if it is still open then; `nil` for any.
    package func enqueue(_ asked: EnqueueRequest, inPlaceOf former: String?) async throws(ControlError) -> EnqueueReply
    {
        try refuseIfStopping()
        try check(asked)
        let request = Self.withUmask(asked)
        let stop = StopRequest()
        answering[ObjectIdentifier(stop)] = stop
        defer { answering[ObjectIdentifier(stop)] = nil }
        // For a person who waits, the same limit as in the foreground.
        var needs = EngineRequest(
            request, deadline: .seconds(120), patience: .seconds(30),
            firstContact: request.origin == .interactive ? .seconds(10) : nil, stop: stop)
        needs.connectionShare = environment.connectionShare
        let handle: AssembledEngine
        do throws(ControlError) { handle = try environment.engine(needs).get() } catch {
            record(EngineError(error.exitStatus, error.message, cause: error.cause), of: request)
            throw error
        }
        var reply: Result<EnqueueReply, ControlError>
        do throws(EngineError) {
            var (start, found, warnings) = try await onEngineThread(stopping: stop) { () throws(EngineError) in
                try handle.engine.prepare(request)
            }
            try await enter(&start, request, handle)
            if let former, (try? store.run(former))?.state.isOpen != true {
                // Somebody has cancelled or replaced it, or it has ended.
                reply = .failure(ControlError(.refused, "the run has ended", exitStatus: .refused))
            } else {
                reply = await record(start, of: found, request, handle, stop)
            }
            retries[start.session.identifier] = nil
            leave(start.session.identifier)
            if !warnings.isEmpty { reply = reply.map { warned($0, warnings) } }
        } catch {
            if !stop.isStopped { record(error, of: request) }
            reply = .failure(stop.isStopped ? Self.isStopping : ControlError(error))
        }
        if case .success(let told) = reply, told.isNew, told.state == .waiting, !stop.isStopped {
            spares[told.run] = handle
        } else {
            // One that an earlier request left for the run has that request's settings.
            let former = (try? reply.get()).flatMap { spares.removeValue(forKey: $0.run) }
            await end(handle)
            if let former { await end(former) }
        }
        wake()
        return try reply.get()
    }

    /// Records a request that led to no run, if its session is known. A busy session has a run on record.
    private func record(_ error: EngineError, of request: EnqueueRequest) {
        guard error.status != .busy else { return }
        _ = store.recordTry(request, error, now: environment.now())
    }

    /// Adds the agent's umask to a request that has none.
    private static func withUmask(_ request: EnqueueRequest) -> EnqueueRequest {
        var request = request
        request.umask = request.umask ?? CurrentProcess.umask
        return request
    }

    private static let isStopping = ControlError(
        .stopping, "the agent is stopping; ask again", exitStatus: .unavailable)

    /// Refuses a command while the agent stops, since it would not be carried out; the next agent will accept it.
    func refuseIfStopping() throws(ControlError) { if stopMode != nil { throw Self.isStopping } }

    /// Waits for the session's turn. The session's name is then determined again: a request for another destination of
    /// the project may have taken it meanwhile.
    private func enter(_ start: inout RunStart, _ request: EnqueueRequest, _ handle: AssembledEngine)
        async throws(EngineError)
    {
        await enter(start.session.identifier)
        do throws(EngineError) {
            while case let name = try handle.engine.sessionName(of: start, asked: request),
                name != start.session.identifier
            {
                leave(start.session.identifier)
                (start.session.identifier, start.recipe.session) = (name, name)
                await enter(name)
            }
        } catch {
            leave(start.session.identifier)
            throw error
        }
    }

    /// Ends an engine, which may block: on a thread of its own, or on this one if none can be started.
    func end(_ handle: AssembledEngine) async {
        if (try? await onThread("end", { handle.end() })) == nil { handle.end() }
    }

    private func record(
        _ start: RunStart, of found: FoundManifest, _ request: EnqueueRequest, _ handle: AssembledEngine,
        _ stop: StopRequest
    ) async -> Result<EnqueueReply, ControlError> {
        do throws(EngineError) {
            let session = start.session.identifier
            if request.origin == .interactive { resetLimiter(session) }
            // A person's other settings, such as a verifier's, are not put off to the next run: it continues with them.
            if let open = try handle.engine.openRun(like: start), open.state == .running,
                jobs[session] != nil,
                request.origin != .interactive
                    || (open.recipe.settings, open.recipe.configuration)
                        == (start.recipe.settings, start.recipe.configuration)
            {
                return .success(reply(open, isNew: false, superseded: []))
            }
            var isBehind = await makeWay(in: session)
            var limited = start
            if request.origin == .hook {
                // The hook of one session may enqueue a run of another, whose hook enqueues a run of the first. Both
                // are held back.
                let asking = request.originRun.flatMap { try? store.run($0).session }
                let starts = Set([session] + [asking].compactMap(\.self)).compactMap(limiterStart)
                if let earliest = starts.max() {
                    limited.recipe.notBefore = WallTime(
                        milliseconds: max(earliest, start.recipe.notBefore?.milliseconds ?? 0))
                }
            }
            if limited.recipe.atomic != nil {
                try await onEngineThread(stopping: stop) { [limited] () throws(EngineError) in
                    try handle.engine.makeTrees(for: limited, of: found)
                }
                // Hooks that were running before may have ended, and their job may be about to.
                isBehind = await makeWay(in: session)
            }
            let started = try handle.engine.enqueue(limited, of: found, isBehind: isBehind)
            return .success(reply(started.run, isNew: !started.isContinued, superseded: started.superseded))
        } catch {
            // Work stopped with this agent has not failed: the next agent, or the next server, tries again.
            guard !stop.isStopped else { return .failure(Self.isStopping) }
            // For a destination that cannot be switched as a whole, nothing would report the error later.
            if error.status != .internalError { record(error, of: request) }
            return .failure(ControlError(error))
        }
    }

    /// Ends the work on a session, whose turn the caller has, for a run that replaces it.
    ///
    /// - Returns: Whether hooks are being called. They are not disturbed, since one of them may be the caller; the new
    ///   run waits for their end.
    private func makeWay(in session: String) async -> Bool {
        guard let job = jobs[session] else { return false }
        guard !job.isCallingHooks else { return true }
        // The fetched data stays for the run that replaces it.
        job.stop.stop(.released)
        await job.untilEnd()
        return false
    }

    /// Adds warnings to the reply, and writes them to the log.
    private func warned(_ reply: EnqueueReply, _ warnings: [String]) -> EnqueueReply {
        for warning in warnings { environment.log("\(escaped(reply.session)): \(warning)") }
        var reply = reply
        reply.warnings = warnings
        return reply
    }

    private func limiterStart(_ session: String) -> Int64? {
        guard let stored = try? store.session(session) else { return nil }
        let now = environment.now()
        var limiter = stored.limiter
        limiter.relax(now: now)
        if limiter != stored.limiter {
            // A limiter that cannot be recorded only keeps its longer delay.
            try? store.keep(limiter, of: session)
        }
        return limiter.earliestStart(now: now)
    }

    private func reply(_ run: StoredRun, isNew: Bool, superseded: [String]) -> EnqueueReply {
        EnqueueReply(
            session: run.session, run: run.identifier, isNew: isNew, superseded: superseded, state: run.state,
            notBefore: run.notBefore.map(WallTime.init))
    }

    /// Checks everything that can be checked without network access.
    private func check(_ request: EnqueueRequest) throws(ControlError) {
        func require(_ holds: Bool, _ text: @autoclosure () -> String) throws(ControlError) {
            if !holds { throw ControlError(.invalid, text(), exitStatus: .usage) }
        }
        let (destination, backups) = (request.destination ?? "", request.backupDir ?? "/")
        let absolute = "an absolute path is expected, not"
        try require(destination.hasPrefix("/"), "destination: \(absolute) '\(escaped(destination))'")
        try require(
            request.manifest.hasPrefix("/") || request.manifest.contains("://"),
            "manifest: an absolute path or a URL is expected")
        let named = request.configuration?.hooks.values.map(\.self) ?? []
        for hook in request.hooks + named {
            let fault = RunHook.objection(to: hook.arguments)
            try require(fault == nil, "hooks: \(fault ?? "")")
            let (times, batches) = (RunHook.timeouts, RunHook.batches)
            try require(times.contains(hook.timeout), "hooks: timeout is 1 to \(times.upperBound), not \(hook.timeout)")
            try require(!hook.results.isEmpty, "hooks: results names at least one of ok, partial, failed")
            let batch = hook.batch ?? 1
            try require(batches.contains(batch), "hooks: batch is 1 to \(batches.upperBound), not \(batch)")
        }
        try require((request.label ?? "").utf8.count <= 4096, "label: at most 4096 bytes")
        let fault = request.session.flatMap(RunRecipe.objection(toSession:))
        try require(fault == nil, "session: \(fault ?? "")")
        let secrets = request.settings.inlineSecrets.map(escaped).joined(separator: " and ")
        try require(
            secrets.isEmpty, "settings: \(secrets) cannot be stored with the run; put it in a file and name the file")
        let connections = request.settings.connections ?? 1
        try require(TransferSettings.connectionsOfRun.contains(connections), "connections: 1 to 64")
        let objection = request.channel.flatMap(ChannelName.objection)
        try require(objection == nil, "channel: \(objection ?? "")")
        try require(request.revision != 0, "revision: 1 or more")
        try require(request.shard == nil && request.join == nil, "shard, join: only for a pull in the foreground")
        try require(!request.rollback, "rollback: only for 'syncagent rollback'")
        try require(request.maxDelete ?? 0 >= 0, "max_delete: 0 or more")
        try require(backups.hasPrefix("/"), "backup_dir: \(absolute) '\(escaped(backups))'")
        let atomic = request.atomic ?? AtomicSwitch()
        let (keeps, program) = (AtomicSwitch.keeps, atomic.check.first ?? "/")
        try require(keeps.contains(atomic.keep ?? 1), "atomic: keep is 1 to \(keeps.upperBound)")
        try require(atomic.keepSeconds ?? 0 >= 0, "atomic: keep_seconds is 0 or more")
        try require(program.hasPrefix("/"), "atomic: check: \(absolute) '\(escaped(program))'")
        let longest = RunRecipe.longestUserData
        try require((request.userData?.text ?? "").utf8.count <= longest, "user_data: at most \(longest) bytes")
        try require(request.staleSeconds == nil, "stale_seconds: only for a pull in the foreground")
        try require(SettingValue.seconds.contains(request.deadlineSeconds ?? 1), "deadline_seconds: 1 to a year")
        let conditions = request.conditions
        guard !conditions.isEmpty else { return }
        let windows = [conditions.window].compactMap(\.self) + conditions.rates.map(\.window)
        try require(
            windows.allSatisfy(\.isValid),
            "conditions: start_minute is 0 to 1439, length_minutes 1 to 1440, and days names at least one")
        let lost = windows.first { environment.windowClock($0, 0) == nil }?.timeZone
        try require(lost == nil, "conditions: there is no time zone '\(escaped(lost ?? ""))' on this machine")
        try require(conditions.maximumLoad ?? 0 >= 0, "conditions: maximum_load is 0 or more")
        try require(conditions.idleSeconds ?? 0 >= 0, "conditions: idle_seconds is 0 or more")
        _ = try environment.conditionCheck(request, [:]).get()
    }
}

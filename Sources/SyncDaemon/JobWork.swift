import SyncAgent
import SyncAssembly
import SyncEngine
import SyncModel
import SyncPlugins
import SyncSchedule
import SyncStore
import SyncSystem

/// The work of a job on its thread: locks the session, takes back the run of a lost worker, runs owed hooks, then works
/// on the run.
extension SessionJob {
    /// How a job ended.
    enum End: Sendable {
        /// The end is recorded, whatever it is.
        case done
        /// The job could not start; the reason is for `status`.
        case notYet(reason: RestReason, error: ControlError?)
        /// A condition does not hold; received data is kept.
        case blocked(ConditionReport)
    }

    /// The number of workers lost within ``lossWindow`` after which a run is set aside.
    static let lossLimit = 3
    /// The time in **milliseconds** within which lost workers count.
    static let lossWindow: Int64 = 600_000

    private var store: SyncStore { environment.store }

    func work() -> End {
        defer { takeEngine()?.end() }
        let lease: FileLock?
        do throws(StoreError) {
            lease = try store.lease(of: session, process: environment.process, now: environment.now())
        } catch {
            return error.code == .busy
                ? .notYet(reason: .sessionBusy, error: nil) : .notYet(reason: .state, error: ControlError(error))
        }
        defer { withExtendedLifetime(lease) {} }
        do throws(ControlError) {
            try asking { () throws(StoreError) in _ = try store.recover(session: session, now: environment.now()) }
            let block = try checkConditions()
            try finishOwed()
            if let block { return .blocked(block) }
            guard let identifier = run, !stop.isStopped else { return .done }
            // Another run may have taken its slot while hooks ran, so it queues again.
            if hasCalledHooks { return .done }
            return try work(on: identifier)
        } catch { return .notYet(reason: .error, error: error) }
    }

    /// Checks the run's conditions.
    ///
    /// - Returns: The report of a condition that blocks the run; `nil` if none does.
    private func checkConditions() throws(ControlError) -> ConditionReport? {
        guard let identifier = run else { return nil }
        let (run, session) = try asking { () throws(StoreError) in
            (try store.run(identifier), try store.session(self.session))
        }
        guard let session, run.state == .waiting else { return nil }
        try readConditions(of: run, destination: session.destination)
        // An earlier process has fetched everything, and conditions are for transfers. A run that one of them has stopped
        // may be transferring again what was built, so it has to hold.
        var isBlocked = false
        if case .condition? = run.reason { isBlocked = true }
        if !isBlocked, run.onlyAwaitsSwitch(at: session.destination) { isBuilt = true }
        return mayContinue() ? nil : block
    }

    /// Runs owed hooks and ends runs that only have to be ended, each with an engine as its client requested.
    private func finishOwed() throws(ControlError) {
        let runs = try stored(PullEngine.owedRuns(of: session, in: store))
        for run in runs where !stop.isStopped {
            let hadCalled = hasCalledHooks
            do throws(ControlError) { try finishOwed(run) } catch {
                // What an earlier run needs, such as its files, may be gone for good: a later run does not wait for it.
                // But a hook that was called, and whose end could not be recorded, is not called again at once.
                guard let own = self.run, own != run.identifier, hadCalled == hasCalledHooks else { throw error }
                environment.log("\(escaped(session)): hooks of run \(run.identifier) stay owed: \(error)")
            }
        }
    }

    private func finishOwed(_ run: StoredRun) throws(ControlError) {
        let handle = try owedEngine(of: run)
        defer { handle.end() }
        do throws(EngineError) { try handle.engine.finishEarlierRuns(of: session, run: run.identifier) } catch {
            throw ControlError(error)
        }
    }

    /// An engine for the hooks that a run owes. If its configuration file is gone, only hooks that are plugins wait for
    /// it.
    private func owedEngine(of run: StoredRun) throws(ControlError) -> AssembledEngine {
        var recipe = try recipe(of: run)
        func engine() throws(ControlError) -> AssembledEngine {
            let needs = EngineRequest(recipe, deadline: .seconds(86_400), patience: .seconds(60), stop: stop)
            return try environment.engine(watched(needs)).get()
        }
        do throws(ControlError) { return try engine() } catch {
            let owed = try stored(store.owedHooks(session: session)).filter { $0.run == run.identifier }
            let isPlugin = owed.contains { hookPlugin($0.arguments.first ?? "") != nil }
            guard recipe.configuration?.file != nil, !isPlugin else { throw error }
            let words = "hooks of run \(run.identifier) are called without its configuration: \(error)"
            environment.log("\(escaped(session)): \(words)")
            recipe.configuration?.file = nil
            return try engine()
        }
    }

    private func recipe(of run: StoredRun) throws(ControlError) -> RunRecipe {
        var recipe = run.recipe
        recipe.destination = try stored(store.session(session)?.destination)
        return recipe
    }

    private func work(on identifier: String) throws(ControlError) -> End {
        let run = try stored(store.run(identifier))
        guard run.state == .waiting else { return .done }
        let now = environment.now()
        let recent = run.losses.filter { $0 > now - Self.lossWindow }
        if recent.count >= Self.lossLimit {
            try asking { () throws(StoreError) in
                _ = try store.apply(.paused, to: identifier, reason: .quarantined, now: now)
            }
            environment.log(
                "\(escaped(session)): run \(identifier) lost its worker \(recent.count) times in 10 minutes"
                    + " and is set aside; syncagent resume \(escaped(session)) tries again")
            return .done
        }
        let left =
            run.deadline.map { Duration.milliseconds(max(1_000, $0.saturatingSubtract(now))) } ?? .seconds(7 * 86_400)
        var needs = EngineRequest(try recipe(of: run), deadline: left, patience: nil, stop: stop)
        needs.connectionShare = share(for: run.recipe.settings.connections)
        needs = watched(needs)
        let handle: AssembledEngine
        if let found = takeEngine() {
            handle = found.taken(over: needs)
        } else {
            handle = try environment.engine(needs).get()
        }
        defer { handle.end() }
        opened(handle, usual: [handle.rateLimit, run.recipe.settings.limitRate].compactMap(\.self).min())
        do throws(EngineError) {
            let report = try handle.engine.work(on: run)
            let end = stop.isStopped && report.result != .ok ? "stopped" : report.result.rawValue
            environment.log(
                "\(escaped(session)): \(end), \(Figures.count(report.files.total, "file")), "
                    + "\(Figures.grouped(report.changed)) changed, \(ByteCount(report.bytes.received)) in "
                    + Figures.count(report.requests, "request")
                    + (report.status == .hookFailed ? "; a hook failed" : ""))
            if stop.reason == .policy, let block { return .blocked(block) }
            return .done
        } catch { return after(error, identifier) }
    }

    /// The most connections of a run. Logs it if that is fewer than the run wants.
    private func share(for wanted: Int?) -> Int {
        let share = environment.connectionShare
        if let wanted, wanted > share {
            environment.log(
                "\(escaped(session)): \(share) connections, not \(wanted), because the agent's "
                    + "\(AgentEnvironment.connectionCap) are shared by \(environment.maximumRuns) runs")
        }
        return share
    }

    /// Decides after an engine's error. A recorded run has its result; another one waits, or fails if waiting cannot
    /// help.
    private func after(_ error: EngineError, _ run: String) -> End {
        // What is tried again, the agent tells.
        func ended() -> End {
            environment.log("\(escaped(session)): \(error.message)")
            return .done
        }
        let reason: RestReason =
            switch error.status {
            case .busy: .destinationBusy
            case .unavailable, .noInput: .connectivity
            case .cannotCreate, .ioError: .resources
            default: .error
            }
        let isHopeless = [.dataInvalid, .usage, .refused, .configuration].contains(error.status)
        do throws(StoreError) {
            guard try store.run(run).state == .waiting else { return ended() }
            // A run whose deadline has passed is failed, although it was stopped.
            let isStopped = stop.isStopped && stop.reason != .late
            guard isHopeless, !isStopped else {
                return isStopped ? ended() : .notYet(reason: reason, error: ControlError(error))
            }
            try store.fail(run, error, now: environment.now())
            return ended()
        } catch let trouble {
            _ = ended()
            return .notYet(reason: .state, error: ControlError(trouble))
        }
    }

    private func watched(_ needs: EngineRequest) -> EngineRequest {
        var needs = needs
        needs.listener = { [self] event in
            // Once for all hooks of a job.
            if event.name == .hookStarted, !hasCalledHooks, !agent.isFollowed(session) { raiseLimiter() }
            note(event)
            if event.name == .hookStarted || event.name == .hookFinished { agent.wakeSoon() }
            // What no run has on record is told here, or nowhere.
            if let words = event.note, event.isOffRecord { environment.log("\(escaped(session)): \(words)") }
        }
        needs.progress = { [self] in if note($0) { agent.wakeSoon() } }
        return needs
    }

    /// Raises the launch limiter when a hook starts and no client follows: the runs that the hook enqueues will wait.
    private func raiseLimiter() {
        do throws(StoreError) {
            guard let kept = try store.session(session) else { return }
            var limiter = kept.limiter
            let work = try run.map { identifier throws(StoreError) in try store.run(identifier) }
            limiter.raise(now: environment.now(), isChained: work?.recipe.origin == .hook)
            try store.keep(limiter, of: session)
        } catch { environment.log("\(error)") }
    }
}

extension SyncEvent {
    /// Whether it is about a plugin or the metrics, and belongs to no run.
    fileprivate var isOffRecord: Bool {
        switch name {
        case .pluginNotice, .metricsFailed: true
        case .pluginFailed: JSONValue(text: json.text)?["run"] == nil
        default: false
        }
    }
}

extension SyncStore {
    /// Fails a waiting run that no engine works on. The caller holds its session's lease.
    func fail(_ run: String, _ error: EngineError, now: Int64) throws(StoreError) {
        let taken = try take(run: run, now: now)
        try finish(
            run: run, result: .failed, counts: taken.counts, error: error.message, cause: error.cause,
            exitStatus: error.status.rawValue, events: [PullEngine.lastEvent(ofFailed: taken, error, now: now)],
            now: now)
    }
}

extension ControlError {
    init(_ error: EngineError) {
        let code: Code =
            switch error.status {
            case .busy: .busy
            case .refused: .refused
            case .usage, .dataInvalid, .configuration: .invalid
            case .internalError: .internal
            default: .failed
            }
        self.init(code, error.message, exitStatus: error.status, cause: error.cause)
    }
}

/// Runs blocking work of the engine on a thread of its own.
///
/// - Parameter stop: Stopped if the task is cancelled, since the server that would answer has then ended.
func onEngineThread<R: Sendable>(
    stopping stop: StopRequest, _ work: @escaping @Sendable () throws(EngineError) -> R
) async throws(EngineError) -> R {
    let result: Result<R, EngineError> = await withTaskCancellationHandler {
        do throws(ThreadError) {
            return try await onThread("engine") { Result { () throws(EngineError) in try work() } }
        } catch { return .failure(EngineError(.ioError, "\(error)")) }
    } onCancel: {
        stop.stop(.released)
    }
    return try result.get()
}

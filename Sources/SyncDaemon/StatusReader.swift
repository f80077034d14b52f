package import SyncControl
import SyncModel
import SyncPlugins
package import SyncStore

/// Says what the store knows, in the control API's words. Needs no agent.
package struct StatusReader: Sendable {
    private let store: SyncStore
    private let now: @Sendable () -> Int64

    /// - Parameters:
    ///   - store: The user's store.
    ///   - now: **Milliseconds** since 1970.
    package init(store: SyncStore, now: @escaping @Sendable () -> Int64) {
        self.store = store
        self.now = now
    }

    /// Every session, by name.
    package func sessions() throws(ControlError) -> [SessionStatus] {
        try asking { () throws(StoreError) in
            var all: [SessionStatus] = []
            for session in try store.sessions() { all.append(try status(of: session)) }
            return all
        }
    }

    /// A session by its name.
    ///
    /// - Throws: ``ControlError`` with code `unknown_session`.
    package func session(_ identifier: String) throws(ControlError) -> SessionStatus {
        try asking { () throws(StoreError) in
            guard let session = try store.session(identifier) else { throw StoreError.noSession(identifier) }
            return try status(of: session)
        }
    }

    /// Hooks, newest first.
    package func hooks(session: String?) throws(ControlError) -> [HookStatus] {
        try asking { () throws(StoreError) in
            try store.hooks(session: session, limit: 200).map(HookStatus.init)
        }
    }

    private func status(of session: StoredSession) throws(StoreError) -> SessionStatus {
        let open = try store.runs(session: session.identifier, onlyOpen: true, limit: 1).first
        var run = open
        if run == nil { run = try store.runs(session: session.identifier, limit: 1).first }
        var status = SessionStatus(
            session: session.identifier,
            project: session.project,
            destination: session.destination,
            label: session.label,
            state: SessionState(open?.state),
            owedHooks: try store.owedHooks(session: session.identifier).count,
            lastSequence: session.lastSequence
        )
        let limiter = LaunchLimiter(delay: session.limiterDelay, raised: session.limiterRaised)
        let now = now()
        status.limiterDelaySeconds = limiter.earliestStart(now: now).map { ($0 - now) / 1_000 } ?? 0
        status.run = run.map(RunStatus.init)
        status.reason = open?.reason
        if let open, open.state == .waiting {
            let start = max(open.notBefore ?? 0, open.due ?? 0)
            if let notBefore = open.notBefore, notBefore > now { status.reason = .notBefore }
            if start > now { status.until = WallTime(milliseconds: start) }
            status.since = open.waitingSince.map(WallTime.init)
        }
        status.holder = store.holder(of: session.identifier)
        return status
    }
}

extension RunStatus {
    /// A run as the store knows it.
    init(_ run: StoredRun) {
        self.init(
            run: run.identifier,
            manifest: redacted(url: run.location),
            manifestSha256: run.manifest.hex,
            state: run.state,
            created: WallTime(milliseconds: run.created)
        )
        reason = run.reason
        error = run.error
        result = run.result
        exitStatus = run.exitStatus
        started = run.started.map(WallTime.init)
        finished = run.finished.map(WallTime.init)
        notBefore = run.notBefore.map(WallTime.init)
        deadline = run.deadline.map(WallTime.init)
        files.total = run.counts.filesTotal
        files.installed = run.counts.filesInstalled
        files.unchanged = run.counts.filesUnchanged
        files.reused = run.counts.filesReused
        files.removed = run.counts.filesRemoved
        files.failed = run.counts.filesFailed
        bytes.total = run.counts.bytesTotal
        bytes.received = run.counts.bytesReceived
        bytes.reused = run.counts.bytesReused
        requests = run.counts.requests
    }
}

extension HookStatus {
    /// A hook as the store knows it.
    package init(_ hook: StoredHook) {
        self.init(
            number: hook.identifier,
            session: hook.session,
            run: hook.run,
            group: hook.group,
            arguments: hook.arguments.prefix(1).map(shownHookProgram) + hook.arguments.dropFirst(),
            batch: hook.batch,
            state: hook.state,
            attempt: hook.attempt,
            due: hook.due.map(WallTime.init),
            ended: hook.ended,
            output: hook.output,
            started: hook.started.map(WallTime.init),
            finished: hook.finished.map(WallTime.init)
        )
    }
}

/// Asks the store, in the control API's words for what goes wrong.
func asking<R>(_ body: () throws(StoreError) -> R) throws(ControlError) -> R {
    do throws(StoreError) {
        return try body()
    } catch {
        throw ControlError(error)
    }
}

extension ControlError {
    /// What the store could not do.
    init(_ error: StoreError) {
        let code: Code =
            switch error.code {
            case .unknown: .notFound
            case .unknownSession: .unknownSession
            case .busy: .busy
            case .refused: .refused
            case .internalError: .internal
            case .cannotCreate, .newer, .foreign, .damaged, .io: .failed
            }
        self.init(code, error.message, exitStatus: error.status)
    }
}

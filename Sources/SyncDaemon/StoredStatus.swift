package import SyncAgent
package import SyncEngine
package import SyncModel
import SyncPlugins
package import SyncStore
import SyncSystem

// The store's records as values of the control API. Needs no agent.
extension SyncStore {
    /// Every session, by name.
    ///
    /// - Parameter now: **Milliseconds** since 1970.
    package func sessionStatuses(now: Int64) throws(ControlError) -> [SessionStatus] {
        try asking { () throws(StoreError) in
            var all: [SessionStatus] = []
            for session in try sessions() { all.append(try status(of: session, now)) }
            return all
        }
    }

    /// A session by its name.
    ///
    /// - Parameter now: **Milliseconds** since 1970.
    /// - Throws: ``ControlError`` with code `unknown_session`.
    package func sessionStatus(_ identifier: String, now: Int64) throws(ControlError) -> SessionStatus {
        try stored(status(of: session(named: identifier), now))
    }

    /// Hooks, newest first.
    ///
    /// - Throws: ``ControlError`` with code `unknown_session`.
    package func hookStatuses(session: String?) throws(ControlError) -> [HookStatus] {
        try asking { () throws(StoreError) in
            if let session { _ = try self.session(named: session) }
            return try hooks(session: session, limit: 200).map(HookStatus.init)
        }
    }

    /// The transfers of a session's open run, as far as they are known.
    package func requestList(of identifier: String) throws(ControlError) -> RequestList {
        try asking { () throws(StoreError) in
            guard let run = try latestRun(of: session(named: identifier)),
                let live = LiveRecord.read(of: run, holder: holder(of: identifier), in: self)
            else { return RequestList() }
            return RequestList(requests: live.requests, more: live.more)
        }
    }

    /// The tasks of a session's latest run, one by one; `nil` without a run.
    ///
    /// - Parameters:
    ///   - state: Only tasks in this state.
    ///   - path: Only paths that match this pattern, as in a group of a manifest.
    ///   - stateDirectory: Where manifests are kept, absolute.
    package func taskListing(of identifier: String, state: TaskState?, path: String?, stateDirectory: String)
        throws(ControlError) -> TaskListing?
    {
        let session = try stored(session(named: identifier))
        guard let run = try stored(latestRun(of: session)) else { return nil }
        let live = LiveRecord.read(of: run, holder: holder(of: identifier), in: self)
        let requests = (live?.requests ?? []).map { ($0.transfer, (state: $0.state, reason: $0.reason)) }
        do throws(EngineError) {
            return try TaskListing(
                run, store: self, stateDirectory: stateDirectory,
                requests: Dictionary(requests) { first, _ in first }, state: state, glob: path)
        } catch { throw ControlError(error) }
    }

    /// The open run, or else the latest one.
    private func latestRun(of session: StoredSession) throws(StoreError) -> StoredRun? {
        let open = try runs(session: session.identifier, onlyOpen: true, limit: 1)
        return try open.isEmpty ? runs(session: session.identifier, limit: 1).first : open.first
    }

    private func status(of session: StoredSession, _ now: Int64) throws(StoreError) -> SessionStatus {
        let run = try latestRun(of: session)
        let open = run?.state.isOpen == true ? run : nil
        var status = SessionStatus(
            session: session.identifier, project: session.project, destination: session.destination,
            label: session.label, state: SessionState(open?.state),
            owedHooks: try owedHooks(session: session.identifier).count, lastSequence: session.lastSequence)
        status.limiterDelaySeconds = session.limiter.earliestStart(now: now).map { ($0 - now) / 1_000 } ?? 0
        status.run = run.map(RunStatus.init)
        if open == nil, let run {
            let failed = try hooks(run: run.identifier, limit: 1_000).count(where: \.hasFailed)
            if failed > 0 { status.failedHooks = failed }
        }
        if let open, try isInterrupted(open) {
            status.isInterrupted = true
            status.run?.isInterrupted = true
        }
        let held = session.held.map {
            HeldRevision(revision: $0.revision, manifestSha256: $0.manifest, since: WallTime(milliseconds: $0.since))
        }
        if !held.isEmpty { status.held = held }
        status.reason = open?.reason
        if let open, open.state == .waiting {
            let start = max(open.notBefore ?? 0, open.due ?? 0)
            if let notBefore = open.notBefore, notBefore > now { status.reason = .notBefore }
            if start > now { status.until = WallTime(milliseconds: start) }
            status.since = open.waitingSince.map(WallTime.init)
        }
        status.holder = holder(of: session.identifier)
        if let open, let live = LiveRecord.read(of: open, holder: status.holder, in: self) { add(live, to: &status) }
        if status.run?.progress?.phase == .waiting {
            (status.reason, status.until) = (.notBefore, open?.recipe.atomic?.notBefore)
        }
        return status
    }

    /// Adds what the process that works on the session has recorded lately.
    private func add(_ live: LiveRecord, to status: inout SessionStatus) {
        if let files = live.files {
            status.run?.files = files
            status.run?.bytes.total = live.bytesTotal
        }
        status.run?.bytes.received = live.bytesReceived
        status.run?.requests = live.requestsSent
        guard status.state == .running, status.holder == live.process else { return }
        status.run?.progress = live.progress
        status.run?.waits = live.waits
        guard let standstill = live.standstill else { return }
        status.reason = .connectivity
        status.since = standstill.since
        status.until = standstill.until
    }
}

extension RunStatus {
    init(_ run: StoredRun) {
        self.init(
            run: run.identifier, manifest: redacted(url: run.location), manifestSha256: run.manifest.hex,
            state: run.state, created: WallTime(milliseconds: run.created))
        reason = run.reason
        error = run.error
        result = run.result
        exitStatus = run.exitStatus
        started = run.started.map(WallTime.init)
        finished = run.finished.map(WallTime.init)
        notBefore = run.notBefore.map(WallTime.init)
        deadline = run.deadline.map(WallTime.init)
        (files, bytes) = (run.counts.files, run.counts.bytes)
        requests = run.counts.requests
        userData = run.facts.userData.flatMap(JSONValue.init(text:))
        source = run.facts.source
        expectedBytes = run.recipe.expectedBytes
        umask = run.recipe.umask
        (channel, revision) = (run.recipe.channel, run.recipe.revision)
    }
}

extension HookStatus {
    package init(_ hook: StoredHook) {
        self.init(
            number: hook.identifier, session: hook.session, run: hook.run, group: hook.group,
            arguments: hook.arguments.prefix(1).map(shownHookProgram) + hook.arguments.dropFirst(), batch: hook.batch,
            state: hook.state, attempt: hook.attempt, due: hook.due.map(WallTime.init), ended: hook.ended,
            output: hook.output, started: hook.started.map(WallTime.init), finished: hook.finished.map(WallTime.init))
    }
}

/// Evaluates a call of the store, and turns its errors into those of the control API.
func stored<R>(_ value: @autoclosure () throws(StoreError) -> R) throws(ControlError) -> R { try asking(value) }

/// Calls the store, and turns its errors into those of the control API.
func asking<R>(_ body: () throws(StoreError) -> R) throws(ControlError) -> R {
    do throws(StoreError) { return try body() } catch { throw ControlError(error) }
}

extension ControlError {
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

/// The latest record of a run by the process that works on it, at most a second old: `LiveRun` of the engine.
struct LiveRecord: Decodable {
    var run: String
    var process: Int32
    var files: FileCounts?
    var bytesTotal: UInt64
    var bytesReceived: UInt64
    var requestsSent: UInt64
    var progress: RunStatus.Progress?
    var requests: [RequestStatus]
    var more: Int

    /// Reads the record of an open run; `nil` if there is none, or only one of an earlier run.
    ///
    /// - Parameter holder: The process that works on the session now. Without it there are no requests, whatever an
    ///   earlier process has recorded.
    static func read(of run: StoredRun, holder: Int32?, in store: SyncStore) -> LiveRecord? {
        guard run.state.isOpen, let bytes = store.liveFiles(of: run.session)?.requests(),
            var record = try? LiveRecord(answer: bytes), record.run == run.identifier
        else { return nil }
        if holder != record.process || run.state != .running { record.rest() }
        return record
    }

    /// Marks all transfers as waiting, since their process is gone.
    private mutating func rest() {
        for index in requests.indices {
            requests[index].state = .waiting
            requests[index].until = nil
            requests[index].rate = 0
            requests[index].reason = "no process is working on it; what has arrived is kept"
        }
    }

    /// The reasons for waiting, for people: one line per source, at most ten.
    var waits: [String] {
        var lines: [String] = []
        for request in requests where request.stands {
            let reason = request.reason ?? (request.state == .stalled ? "no data arrives" : "its turn")
            let line = "waiting for \(request.source): \(reason)"
            if !lines.contains(line) { lines.append(line) }
        }
        return Array(lines.prefix(10))
    }

    /// Since when no transfer makes progress, and the earliest end of that if it is known; `nil` while a transfer makes
    /// progress.
    var standstill: (since: WallTime, until: WallTime?)? {
        let standing = requests.filter(\.stands)
        guard let since = standing.map(\.since).max(), requests.allSatisfy({ $0.stands || $0.state == .queued }) else {
            return nil
        }
        return (since, standing.compactMap(\.until).min())
    }
}

extension RequestStatus {
    /// Whether the transfer waits, or its server has stopped sending.
    fileprivate var stands: Bool { state == .waiting || state == .stalled }
}

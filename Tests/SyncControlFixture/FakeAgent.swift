package import SyncAgent
package import SyncModel

/// An agent in memory that answers everything and remembers what it was asked.
package actor FakeAgent: AgentControl {
    package var asked: [String] = []
    package var requests: [EnqueueRequest] = []
    private var lines: [String] = []
    private var failures: [ControlError] = []
    private var breakage: (any Error)?
    /// Event streams that have been read to their end or left.
    package private(set) var endedStreams = 0
    private var read = 0

    package init() {}

    package static let session = SessionStatus(
        session: "com.example.tower", project: "com.example.tower", destination: "/srv/tower", state: .running,
        lastSequence: 3)

    package static let hook = HookStatus(
        number: 7, session: "com.example.tower", run: "run-1", group: "all", arguments: ["/bin/true"], state: .failed,
        attempt: 2, ended: "exit 3")

    /// Makes the next command fail.
    package func fail(_ code: ControlError.Code, _ message: String, _ status: ExitStatus) {
        failures.append(ControlError(code, message, exitStatus: status))
    }

    /// Adds events after those there are.
    package func add(_ events: [String]) {
        for event in events { lines.append("{\"seq\":\(lines.count + 1),\(event.dropFirst())") }
    }

    /// Makes every stream of events end with an error, after its lines.
    package func breakStreams(_ error: any Error) { breakage = error }

    /// How many lines readers have taken.
    package var linesRead: Int { read }

    private func ask(_ what: String) throws(ControlError) {
        asked.append(what)
        if !failures.isEmpty { throw failures.removeFirst() }
    }

    package func status() -> AgentStatus {
        asked.append("status")
        return AgentStatus(
            version: "0.0.0", process: 42, started: WallTime(milliseconds: 0), state: .running,
            stateDirectory: "/state", running: 1, maximumRuns: 2, sessions: 1, onDemand: false)
    }

    package func metrics() throws(ControlError) -> String {
        try ask("metrics")
        return "# HELP up Always 1.\n# TYPE up gauge\nup 1\n"
    }

    package func sessions() throws(ControlError) -> [SessionStatus] {
        try ask("sessions")
        return [Self.session]
    }

    package func session(_ identifier: String) throws(ControlError) -> SessionStatus {
        try ask("session \(identifier)")
        return try known(identifier)
    }

    private func known(_ identifier: String, state: SessionState = .running) throws(ControlError) -> SessionStatus {
        guard identifier == Self.session.session else {
            throw ControlError(.unknownSession, "There is no session '\(escaped(identifier))'.", exitStatus: .noInput)
        }
        var status = Self.session
        status.state = state
        return status
    }

    package func requests(of session: String) throws(ControlError) -> RequestList {
        try ask("requests \(session)")
        _ = try known(session)
        return RequestList(requests: [], more: 3)
    }

    package static let tasks = [
        TaskStatus(
            path: "a/1.pdf", sha256: String(repeating: "9a", count: 32), size: 5, state: .installed, transfer: 2),
        TaskStatus(path: "a/link", sha256: nil, size: 0, state: .failed, reason: "it is \"in the way\""),
    ]

    package func tasks(of session: String, state: TaskState?, path: String?) throws(ControlError)
        -> AsyncThrowingStream<String, any Error>
    {
        try ask("tasks \(session) \(state?.rawValue ?? "-") \(path ?? "-")")
        _ = try known(session)
        let found = Self.tasks.filter { state == nil || $0.state == state }
        return AsyncThrowingStream { continuation in
            for task in found {
                let line = (try? task.controlJSON()) ?? []
                continuation.yield(String(decoding: line, as: UTF8.self))
            }
            continuation.finish()
        }
    }

    package func enqueue(_ request: EnqueueRequest) throws(ControlError) -> EnqueueReply {
        try ask("enqueue")
        let isNew = !requests.contains(request)
        requests.append(request)
        return EnqueueReply(
            session: request.session ?? "project", run: "run-1", isNew: isNew, superseded: [], state: .waiting,
            notBefore: request.notBefore)
    }

    package func pause(_ session: String) throws(ControlError) -> SessionStatus {
        try ask("pause \(session)")
        return try known(session, state: .paused)
    }

    package func resume(_ session: String) throws(ControlError) -> SessionStatus {
        try ask("resume \(session)")
        return try known(session)
    }

    package func cancel(_ session: String) throws(ControlError) -> SessionStatus {
        try ask("cancel \(session)")
        return try known(session, state: .idle)
    }

    package func prioritize(_ session: String, paths: [String]) throws(ControlError) -> SessionStatus {
        try ask("prioritize \(session) \(paths.joined(separator: "|"))")
        return try known(session)
    }

    package func remove(_ session: String, files: Bool) throws(ControlError) {
        try ask("remove \(session) \(files)")
        _ = try known(session)
    }

    package func hooks(session: String?) throws(ControlError) -> [HookStatus] {
        try ask("hooks \(session ?? "-")")
        return [Self.hook]
    }

    package func replay(hook: Int64) throws(ControlError) -> HookStatus {
        try ask("replay \(hook)")
        var status = Self.hook
        status.state = .pending
        return status
    }

    package func stop(_ mode: AgentStop) { asked.append("stop \(mode.rawValue)") }

    package func events(of session: String, since: Int64, follow: Bool, progress: Bool) throws(ControlError)
        -> AsyncThrowingStream<String, any Error>
    {
        try ask("events \(session) since \(since) follow \(follow) progress \(progress)")
        _ = try known(session)
        let next = Cursor(since)
        return AsyncThrowingStream {
            while !Task.isCancelled {
                if let line = await self.line(after: next.value) {
                    next.value += 1
                    return line
                }
                if let breakage = await self.breakage { throw breakage }
                guard follow else { break }
                // Cancelled: the loop's condition sees it.
                try? await Task.sleep(for: .milliseconds(5))
            }
            await self.streamEnded()
            return nil
        }
    }

    private func line(after number: Int64) -> String? {
        guard number >= 0, number < lines.count else { return nil }
        read += 1
        return lines[Int(number)]
    }

    private func streamEnded() { endedStreams += 1 }
}

/// Used by one stream, one call at a time.
private final class Cursor: @unchecked Sendable {  // Safe: a stream asks once at a time.
    var value: Int64
    init(_ value: Int64) { self.value = value }
}

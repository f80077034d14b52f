@_exported public import SyncModel

/// A client of the agent: each method is one request of the control API, `Documentation/reference/Control-API.md`.
///
/// A value without state: it can be copied and used from any task. Nothing is sent before a method is called, no
/// redirect is followed and no proxy is used.
///
/// Every method throws `ControlError`, the agent's own or with code `unreachable` if none answers, and
/// `CancellationError` when its task is cancelled; the agent still completes what it has started.
public struct ControlClient: Sendable {
    /// The agent's socket, absolute.
    public let socketPath: String

    /// The timeout for quick requests; enqueueing and removing may take ten minutes.
    public let timeout: Duration

    /// Takes the path of a socket; ``AgentPlace`` finds the usual one.
    public init(socketPath: String, timeout: Duration = .seconds(60)) {
        (self.socketPath, self.timeout) = (socketPath, timeout)
    }

    /// The state of the agent itself.
    public func status() async throws -> AgentStatus { try await get("/v1/agent") }

    /// Every session, by name.
    public func sessions() async throws -> [SessionStatus] {
        let answer: [String: [SessionStatus]] = try await get("/v1/sessions")
        return answer["sessions"] ?? []
    }

    /// The current state of a session.
    public func session(_ identifier: String) async throws -> SessionStatus {
        try await get("/v1/sessions/\(Self.encoded(identifier))")
    }

    /// Enqueues a run; returns when it is on disk. Repeating the same request changes nothing.
    public func enqueue(_ request: EnqueueRequest) async throws -> EnqueueReply {
        // The agent fetches the manifest first: as long as a slow server takes.
        try await post("/v1/runs", request.controlJSON(), timeout: .seconds(600))
    }

    /// Stops the session's open run at a checkpoint.
    public func pause(_ session: String) async throws -> SessionStatus {
        try await post("/v1/sessions/\(Self.encoded(session))/pause")
    }

    /// Resumes a paused run.
    public func resume(_ session: String) async throws -> SessionStatus {
        try await post("/v1/sessions/\(Self.encoded(session))/resume")
    }

    /// Cancels the open run. Installed files stay.
    public func cancel(_ session: String) async throws -> SessionStatus {
        try await post("/v1/sessions/\(Self.encoded(session))/cancel")
    }

    /// Fetches these paths of the open run before all others.
    public func prioritize(_ session: String, paths: [String]) async throws -> SessionStatus {
        let body = try ["paths": paths].controlJSON()
        return try await post("/v1/sessions/\(Self.encoded(session))/prioritize", body)
    }

    /// Removes a session; with `files` also the files it installed that have not changed since.
    public func remove(_ session: String, files: Bool = false) async throws {
        let target = "/v1/sessions/\(Self.encoded(session))?files=\(files ? 1 : 0)"
        _ = try await answer("DELETE", target, timeout: .seconds(600))
    }

    /// Hooks, newest first; of one session, or of all.
    public func hooks(session: String? = nil) async throws -> [HookStatus] {
        let query = session.map { "?session=\(Self.encoded($0))" } ?? ""
        let answer: [String: [HookStatus]] = try await get("/v1/hooks" + query)
        return answer["hooks"] ?? []
    }

    /// The transfers of the session's open run, at most a second old.
    public func requests(of session: String) async throws -> RequestList {
        try await get("/v1/sessions/\(Self.encoded(session))/requests")
    }

    /// The tasks of the session's latest run, ordered by path, one by one, as fast as they are requested. Nothing is
    /// sent before the first request, and memory use does not depend on their number.
    ///
    /// - Parameters:
    ///   - state: Only tasks in this state.
    ///   - path: Only tasks whose path matches this pattern: `**` for any directories, `*` within a name.
    public func tasks(of session: String, state: TaskState? = nil, path: String? = nil)
        -> AsyncThrowingStream<TaskStatus, any Error>
    {
        var query: [String] = []
        if let state { query.append("state=\(state.rawValue)") }
        if let path { query.append("path=\(Self.encoded(path))") }
        let target = "/v1/sessions/\(Self.encoded(session))/tasks"
        let lines = LineStream(self, query.isEmpty ? target : target + "?" + query.joined(separator: "&"))
        return AsyncThrowingStream {
            guard let bytes = try await lines.next().map({ Array($0.utf8) }) else { return nil }
            if let error = ControlError(body: bytes) { throw error }
            return try TaskStatus(answer: bytes)
        }
    }

    /// Runs an ended hook again.
    public func replay(hook number: Int64) async throws -> HookStatus { try await post("/v1/hooks/\(number)/replay") }

    /// Stops the agent; returns when it has started to stop.
    public func stop(_ mode: AgentStop) async throws {
        _ = try await answer("POST", "/v1/agent/stop", ["mode": mode].controlJSON())
    }

    private func get<Value: Decodable>(_ target: String) async throws -> Value {
        try Value(answer: await answer("GET", target))
    }

    private func post<Value: Decodable>(_ target: String, _ body: [UInt8] = [], timeout: Duration? = nil) async throws
        -> Value
    {
        try Value(answer: await answer("POST", target, body, timeout: timeout))
    }

    /// A percent-encoded part of a path or of a query.
    static func encoded(_ text: String) -> String { percentEncoded(bytes: text.utf8, keepsSlash: false) }
}

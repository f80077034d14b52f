public import SyncModel

/// What an agent can be asked. The HTTP routes call it, and tests call it without HTTP.
///
/// Every command may be repeated: what is so already stays so.
public protocol AgentControl: Sendable {
    func status() async -> AgentStatus

    /// Every session, by name.
    func sessions() async throws(ControlError) -> [SessionStatus]

    func session(_ identifier: String) async throws(ControlError) -> SessionStatus

    /// What is on the wire for a session's open run, at most a second old.
    func requests(of session: String) async throws(ControlError) -> RequestList

    /// The tasks of a session's latest run, a JSON object a line: ``TaskStatus``.
    ///
    /// - Parameters:
    ///   - state: Only tasks in this state.
    ///   - path: Only tasks whose path matches this pattern, as in a group of a manifest.
    func tasks(of session: String, state: TaskState?, path: String?) async throws(ControlError) -> AsyncThrowingStream<
        String, any Error
    >

    /// Fetches the manifest, checks everything that can be checked, and records the run; returns when it is on the disk.
    func enqueue(_ request: EnqueueRequest) async throws(ControlError) -> EnqueueReply

    /// Stops the open run at a checkpoint; it stays so until it is resumed.
    func pause(_ session: String) async throws(ControlError) -> SessionStatus

    func resume(_ session: String) async throws(ControlError) -> SessionStatus

    /// Gives the open run up. Installed files stay.
    func cancel(_ session: String) async throws(ControlError) -> SessionStatus

    /// Wants these paths of the open run before all others.
    func prioritize(_ session: String, paths: [String]) async throws(ControlError) -> SessionStatus

    /// Forgets the session; with `files` also removes what it installed and nobody has changed.
    func remove(_ session: String, files: Bool) async throws(ControlError)

    /// Hooks, newest first.
    func hooks(session: String?) async throws(ControlError) -> [HookStatus]

    /// Makes an ended hook owed once more.
    func replay(hook: Int64) async throws(ControlError) -> HookStatus

    /// Lines of events: `{"seq":N,"event":…}`. Ends after what there is, or follows until the reader goes. A reader that
    /// has seen more than there is gets ``ControlError`` with code `not_found`.
    ///
    /// - Parameters:
    ///   - since: The last sequence number that the reader has seen; 0 for the beginning.
    ///   - follow: Whether to wait for more.
    ///   - progress: Whether lines without number, `{"event":"progress",…}`, come between, a few a second at most.
    func events(of session: String, since: Int64, follow: Bool, progress: Bool) async throws(ControlError)
        -> AsyncThrowingStream<String, any Error>

    /// What Prometheus is told, in its text format 0.0.4.
    func metrics() async throws(ControlError) -> String

    /// Stops the agent; returns once it is stopping.
    func stop(_ mode: AgentStop) async
}

public import SyncModel

/// The commands of an agent. The HTTP routes call them, and tests call them without HTTP.
///
/// Every command may be repeated; the repetition changes nothing.
public protocol AgentControl: Sendable {
    func status() async -> AgentStatus

    /// Every session, by name.
    func sessions() async throws(ControlError) -> [SessionStatus]

    func session(_ identifier: String) async throws(ControlError) -> SessionStatus

    /// The transfers of a session's open run, at most a second old.
    func requests(of session: String) async throws(ControlError) -> RequestList

    /// The tasks of a session's latest run, as JSON objects, one per line: ``TaskStatus``.
    ///
    /// - Parameters:
    ///   - state: Only tasks in this state.
    ///   - path: Only tasks whose path matches this pattern, as in a group of a manifest.
    func tasks(of session: String, state: TaskState?, path: String?) async throws(ControlError) -> AsyncThrowingStream<
        String, any Error
    >

    /// Fetches the manifest, checks all that can be checked, and records the run. Returns when the record is on disk.
    func enqueue(_ request: EnqueueRequest) async throws(ControlError) -> EnqueueReply

    /// Stops the open run at a checkpoint. The run stays paused until it is resumed.
    func pause(_ session: String) async throws(ControlError) -> SessionStatus

    func resume(_ session: String) async throws(ControlError) -> SessionStatus

    /// Cancels the open run. Installed files stay.
    func cancel(_ session: String) async throws(ControlError) -> SessionStatus

    /// Fetches these paths of the open run before all others.
    func prioritize(_ session: String, paths: [String]) async throws(ControlError) -> SessionStatus

    /// Removes the session; with `files` also the files it installed that have not changed since.
    func remove(_ session: String, files: Bool) async throws(ControlError)

    /// Hooks, newest first.
    func hooks(session: String?) async throws(ControlError) -> [HookStatus]

    /// Makes an ended hook owed once more.
    func replay(hook: Int64) async throws(ControlError) -> HookStatus

    /// Lines of events: `{"seq":N,"event":…}`. Ends after the last one, or follows until the reader disconnects. A
    /// reader that has seen more events than there are gets ``ControlError`` with code `not_found`.
    ///
    /// - Parameters:
    ///   - since: The last sequence number that the reader has seen; 0 for the beginning.
    ///   - follow: Whether to wait for more.
    ///   - progress: Whether to add lines without a number, `{"event":"progress",…}`, at most a few per second.
    func events(of session: String, since: Int64, follow: Bool, progress: Bool) async throws(ControlError)
        -> AsyncThrowingStream<String, any Error>

    /// The metrics for Prometheus, in its text format 0.0.4.
    func metrics() async throws(ControlError) -> String

    /// Stops the agent; returns once it is stopping.
    func stop(_ mode: AgentStop) async
}

public import SyncModel

/// A session by its identifier: one project in one destination. The agent keeps it across restarts of your program.
///
/// Create it at each launch with the same identifier; ``open(after:)`` reports what the agent did in between.
public struct AgentSession: Sendable {
    /// The session's name.
    public let identifier: String
    /// The client that talks to the agent.
    public let client: ControlClient

    /// Refers to a session by name; nothing is sent yet, and the session need not exist.
    public init(_ identifier: String, client: ControlClient) { (self.identifier, self.client) = (identifier, client) }

    /// Enqueues a pull of a manifest into a directory; returns when the agent has it on disk.
    ///
    /// - Parameters:
    ///   - manifest: An absolute path, or an http(s) URL.
    ///   - destination: A directory, absolute.
    ///   - configure: Sets further options: groups, hooks, a start time.
    /// - Returns: The run. Repeating the request while the run is open returns the same run.
    /// - Throws: `ControlError`; `CancellationError`.
    @discardableResult public func enqueue(
        manifest: String, into destination: String, _ configure: (inout EnqueueRequest) -> Void = { _ in }
    ) async throws -> EnqueueReply {
        var request = EnqueueRequest(manifest: manifest, destination: destination)
        configure(&request)
        request.session = identifier
        return try await client.enqueue(request)
    }

    /// The session as it is now.
    public func status() async throws -> SessionStatus { try await client.session(identifier) }

    /// The transfers of the session's open run, at most a second old.
    public func requests() async throws -> RequestList { try await client.requests(of: identifier) }

    /// The tasks of the session's latest run, one by one: see ``ControlClient/tasks(of:state:path:)``.
    public func tasks(state: TaskState? = nil, path: String? = nil) -> AsyncThrowingStream<TaskStatus, any Error> {
        client.tasks(of: identifier, state: state, path: path)
    }

    /// What a program needs at its start: the state of the session, and every event since its last one.
    ///
    /// - Parameter cursor: The number of the last event it has handled; 0 for none.
    /// - Returns: The status, `nil` if the agent does not know the session yet, and the events.
    /// - Throws: `ControlError`; `CancellationError`.
    public func open(after cursor: Int64) async throws -> (status: SessionStatus?, events: SessionEvents) {
        do {
            return (try await status(), events(after: cursor))
        } catch let error as ControlError where error.code == .unknownSession {
            return (nil, events(after: cursor))
        }
    }

    /// The session's events, up to the last one or indefinitely.
    ///
    /// - Parameters:
    ///   - cursor: The number of the last event that has been handled; 0 for the beginning.
    ///   - following: Whether to wait for more.
    ///   - progress: Whether to add unnumbered `progress` events, at most a few per second.
    public func events(after cursor: Int64 = 0, following: Bool = true, progress: Bool = false) -> SessionEvents {
        SessionEvents(
            client: client, session: identifier, cursor: cursor, isFollowing: following, withProgress: progress)
    }

    /// The ends of runs, each reported once, even across launches.
    ///
    /// - Parameter cursor: The file that stores the position. It advances when the next end is requested, after the
    ///   loop's body has handled the previous one. A program that dies inside the body gets the same end again.
    /// - Throws: `ControlError` when the cursor's file cannot be read.
    public func completions(_ cursor: CursorFile) throws -> RunCompletions {
        RunCompletions(events: events(after: try cursor.read()), cursor: cursor)
    }

    /// Stops the open run at a checkpoint.
    @discardableResult public func pause() async throws -> SessionStatus { try await client.pause(identifier) }

    /// Resumes a paused run.
    @discardableResult public func resume() async throws -> SessionStatus { try await client.resume(identifier) }

    /// Cancels the open run.
    @discardableResult public func cancel() async throws -> SessionStatus { try await client.cancel(identifier) }

    /// Fetches these paths of the open run before all others.
    @discardableResult public func prioritize(_ paths: [String]) async throws -> SessionStatus {
        try await client.prioritize(identifier, paths: paths)
    }
}

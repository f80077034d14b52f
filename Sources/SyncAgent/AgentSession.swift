public import SyncControl
public import SyncModel

/// A session by its identifier: one project into one destination, kept by the agent however often programs start.
///
/// Make it anew at each launch with the same identifier; what the agent did in between is told by ``open(after:)``.
public struct AgentSession: Sendable {
    /// The name the agent knows it by.
    public let identifier: String
    /// How the agent is asked.
    public let client: ControlClient

    /// Names a session; nothing is sent yet, and it need not exist yet.
    public init(_ identifier: String, client: ControlClient) {
        self.identifier = identifier
        self.client = client
    }

    /// Asks for a manifest's files in a directory; returns when the agent has it on the disk.
    ///
    /// - Parameters:
    ///   - manifest: An absolute path, or an http(s) URL.
    ///   - destination: A directory, absolute.
    ///   - configure: Sets what else is wanted: groups, hooks, a time to start.
    /// - Returns: The run. The same request again, while the run is open, gives the same run.
    /// - Throws: `ControlError`; `CancellationError`.
    @discardableResult
    public func enqueue(
        manifest: String,
        into destination: String,
        _ configure: (inout EnqueueRequest) -> Void = { _ in }
    ) async throws -> EnqueueReply {
        var request = EnqueueRequest(manifest: manifest, destination: destination)
        configure(&request)
        request.session = identifier
        return try await client.enqueue(request)
    }

    /// The session as it is now.
    public func status() async throws -> SessionStatus { try await client.session(identifier) }

    /// What is on the wire for its open run, at most a second old.
    public func requests() async throws -> RequestList { try await client.requests(of: identifier) }

    /// The tasks of its latest run, one by one: see ``ControlClient/tasks(of:state:path:)``.
    public func tasks(state: TaskState? = nil, path: String? = nil) -> SessionTasks {
        client.tasks(of: identifier, state: state, path: path)
    }

    /// What a program that starts again needs: what the session does now, and every event since it last looked.
    ///
    /// - Parameter cursor: The number of the last event it has dealt with; 0 for none.
    /// - Returns: The status, `nil` when the agent does not know the session yet, and the events.
    /// - Throws: `ControlError`; `CancellationError`.
    public func open(after cursor: Int64) async throws -> (status: SessionStatus?, events: SessionEvents) {
        do {
            return (try await status(), events(after: cursor))
        } catch let error as ControlError where error.code == .unknownSession {
            return (nil, events(after: cursor))
        }
    }

    /// The session's events, to the last one there is or for ever.
    ///
    /// - Parameters:
    ///   - cursor: The number of the last event that has been dealt with; 0 for the beginning.
    ///   - following: Whether to wait for more.
    ///   - progress: Whether events `progress`, without number, come between: a few a second at most.
    /// - Returns: The events.
    public func events(after cursor: Int64 = 0, following: Bool = true, progress: Bool = false)
        -> SessionEvents
    {
        SessionEvents(
            client: client,
            session: identifier,
            cursor: cursor,
            isFollowing: following,
            withProgress: progress,
            patience: 120
        )
    }

    /// The ends of runs, each told once, also across launches.
    ///
    /// - Parameter cursor: Where the place is kept. It moves on when the next end is asked for, after the loop's body
    ///   has dealt with the one before; a program that dies inside the body is told the same end again.
    /// - Returns: The ends.
    /// - Throws: `ControlError` when the cursor's file cannot be read.
    public func completions(_ cursor: CursorFile) throws -> RunCompletions {
        RunCompletions(events: events(after: try cursor.read()), cursor: cursor)
    }

    /// Stops the open run at a checkpoint.
    @discardableResult
    public func pause() async throws -> SessionStatus { try await client.pause(identifier) }

    /// Lets a paused run go on.
    @discardableResult
    public func resume() async throws -> SessionStatus { try await client.resume(identifier) }

    /// Gives the open run up.
    @discardableResult
    public func cancel() async throws -> SessionStatus { try await client.cancel(identifier) }

    /// Wants these paths of the open run before all others.
    @discardableResult
    public func prioritize(_ paths: [String]) async throws -> SessionStatus {
        try await client.prioritize(identifier, paths: paths)
    }
}

/// The tasks of a session's latest run, in the order of their paths.
///
/// Nothing is sent before the first is asked for; only a bounded piece is held, however many there are.
public struct SessionTasks: AsyncSequence, Sendable {
    /// One task.
    public typealias Element = TaskStatus

    let call: AgentCall

    /// Begins to ask.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(call) }

    /// Walks through the tasks.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private let call: AgentCall
        private var stream: LineStream?
        private var waiting: [String] = []

        init(_ call: AgentCall) { self.call = call }

        /// The next task; `nil` after the last.
        ///
        /// - Throws: `ControlError`; `CancellationError`.
        public mutating func next() async throws -> TaskStatus? {
            let stream = stream ?? LineStream(call)
            self.stream = stream
            while true {
                if let text = waiting.popLast() { return try Self.task(text) }
                guard let lines = try await stream.next() else { return nil }
                waiting = lines.reversed()
            }
        }

        private static func task(_ text: String) throws -> TaskStatus {
            let bytes = Array(text.utf8)
            if let error = try? ControlJSON.decode(ErrorAnswer.self, from: bytes) { throw error.value }
            return try ControlJSON.decode(TaskStatus.self, from: bytes)
        }
    }
}

import SyncAgent
import SyncEngine
import SyncModel
import SyncStore
import SyncSystem

/// One reader of a session's events, which requests one line at a time, as fast as it likes. At most one page of the
/// store is buffered.
actor EventLines {
    private let agent: Agent
    private let session: String
    /// The number of the last event that was read.
    private var seen: Int64
    private let follows: Bool
    private let showsProgress: Bool
    private var lines: ArraySlice<String> = []
    /// The last progress line that was returned.
    private var shown: String?

    /// The interval between two reads of the store while there are no new events.
    private static let interval = Duration.milliseconds(200)

    /// - Parameters:
    ///   - seen: The number of the last event that the reader has seen.
    ///   - follows: Whether to wait for more events at the end. When the agent ends, so does this, and the reader
    ///     reconnects to the next agent.
    ///   - showsProgress: Whether to add progress lines of the session's run.
    init(_ agent: Agent, _ session: String, after seen: Int64, follows: Bool, showsProgress: Bool) {
        (self.agent, self.session, self.seen) = (agent, session, seen)
        (self.follows, self.showsProgress) = (follows, showsProgress)
        if follows { agent.follow(session) }
    }

    deinit { if follows { agent.unfollow(session) } }

    /// The next line; `nil` at the end.
    ///
    /// - Throws: ``ControlError``, with code `not_found` if the reader has seen more events than there are.
    func next() async throws -> String? {
        while true {
            if let line = lines.popFirst() { return line }
            let events = try asking { () throws(StoreError) in
                try agent.environment.store.nextEvents(of: session, after: &seen)
            }
            lines = events.map(\.json)[...]
            if !lines.isEmpty { continue }
            guard follows, !agent.isOver else { return nil }
            let progress = showsProgress ? agent.jobs[session]?.progress.map(Self.line) : nil
            let isNew = progress != nil && progress != shown
            if isNew { shown = progress }
            try await agent.environment.sleep(Self.interval)
            if isNew { return progress }
        }
    }

    private static func line(_ progress: PullProgress) -> String {
        JSONLine.event(.progress) { progress.write(to: &$0) }.text
    }
}

// What readers of events need without waiting for the agent.
extension Agent {
    /// Work under way, by session.
    nonisolated var jobs: [String: SessionJob] { live.withLock(\.jobs) }

    /// Whether the agent accepts no more readers.
    nonisolated var isOver: Bool { live.withLock(\.isOver) }

    /// Whether a client follows a session; if so, a hook does not raise the launch limiter.
    nonisolated func isFollowed(_ session: String) -> Bool { live.withLock { $0.followers[session] != nil } }

    nonisolated func follow(_ session: String) { live.withLock { $0.followers[session, default: 0] += 1 } }

    nonisolated func unfollow(_ session: String) {
        live.withLock { live in
            let rest = (live.followers[session] ?? 1) - 1
            live.followers[session] = rest > 0 ? rest : nil
        }
    }
}

import SyncAgent
import SyncEngine
import SyncModel
import SyncStore

/// One reader of a session's events, which requests one line at a time, as fast as it likes. At most one page of the
/// store is buffered.
actor EventLines {
    private var feed: EventFeed
    private let session: String
    private let follows: Bool
    private let showsProgress: Bool
    private let live: LiveSessions
    private let environment: AgentEnvironment
    private var lines: ArraySlice<String> = []
    /// The last progress line that was returned.
    private var shown: String?

    /// The interval between two reads of the store while there are no new events.
    private static let interval = Duration.milliseconds(200)

    /// - Parameters:
    ///   - feed: The session's events.
    ///   - follows: Whether to wait for more events at the end. When the agent ends, so does this, and the reader
    ///     reconnects to the next agent.
    ///   - showsProgress: Whether to add progress lines of the session's run.
    init(
        _ feed: EventFeed, of session: String, follows: Bool, showsProgress: Bool, _ live: LiveSessions,
        _ environment: AgentEnvironment
    ) {
        (self.feed, self.session, self.follows, self.showsProgress) = (feed, session, follows, showsProgress)
        (self.live, self.environment) = (live, environment)
        if follows { live.follow(session) }
    }

    deinit { if follows { live.unfollow(session) } }

    /// The next line; `nil` at the end.
    ///
    /// - Throws: ``ControlError``, with code `not_found` if the reader has seen more events than there are.
    func next() async throws -> String? {
        while true {
            if let line = lines.popFirst() { return line }
            lines = try asking { () throws(StoreError) in try feed.next() }.map(\.numbered)[...]
            if !lines.isEmpty { continue }
            guard follows, !live.isOver else { return nil }
            let progress = showsProgress ? live.progress(of: session).map(Self.line) : nil
            let isNew = progress != nil && progress != shown
            if isNew { shown = progress }
            try await environment.sleep(Self.interval)
            if isNew { return progress }
        }
    }

    private static func line(_ progress: PullProgress) -> String {
        JSONLine.event(.progress) { progress.write(to: &$0) }.text
    }
}

import SyncAgent
import SyncEngine
import SyncModel
import SyncStore

/// One reader of a session's events: asks for one line at a time, as fast as it likes. What is buffered is one page of the
/// store.
actor EventLines {
    private var feed: EventFeed
    private let session: String
    private let follows: Bool
    private let showsProgress: Bool
    private let live: LiveSessions
    private let environment: AgentEnvironment
    private var lines: ArraySlice<String> = []
    /// The last progress that it was shown.
    private var shown: String?

    /// From one look at the store to the next while nothing comes.
    private static let interval = Duration.milliseconds(200)

    /// - Parameters:
    ///   - feed: The session's events.
    ///   - follows: Whether it waits for more at the end. When the agent ends, it is sent away and comes back to the next one.
    ///   - showsProgress: Whether it wants to know how far the session's run is.
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
    /// - Throws: ``ControlError``, with code `not_found` where the reader has seen more than there is.
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

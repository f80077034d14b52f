import SyncAgent
import SyncEngine
import SyncModel
import SyncStore

/// One reader of a session's events: asks for one line at a time, as fast as it likes. What is buffered is one page of the
/// store.
actor EventLines {
    private let session: String
    private let follows: Bool
    private let showsProgress: Bool
    private let live: LiveSessions
    private let environment: AgentEnvironment
    /// The last event that it has seen.
    private var seen: Int64
    private var lines: ArraySlice<String> = []
    /// The last progress that it was shown.
    private var shown: String?

    /// Events read at a time.
    private static let page = 256
    /// From one look at the store to the next while nothing comes.
    private static let interval = Duration.milliseconds(200)

    /// - Parameters:
    ///   - seen: The last event that it has seen; 0 for none.
    ///   - follows: Whether it waits for more at the end. When the agent ends, it is sent away and comes back to the next one.
    ///   - showsProgress: Whether it wants to know how far the session's run is.
    init(
        of session: String, after seen: Int64, follows: Bool, showsProgress: Bool, _ live: LiveSessions,
        _ environment: AgentEnvironment
    ) {
        (self.session, self.seen) = (session, max(0, seen))
        (self.follows, self.showsProgress) = (follows, showsProgress)
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
            let page = try stored(environment.store.events(of: session, after: seen, limit: Self.page))
            try stored(page.requireReached(seen, of: session))
            if seen < page.prunedSequence {
                seen = page.prunedSequence
                return EventLine.pruned(through: page.prunedSequence).text
            }
            if let last = page.events.last {
                seen = last.sequence
                lines = page.events.map { EventLine(sequence: $0.sequence, event: $0.text).text }[...]
                continue
            }
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

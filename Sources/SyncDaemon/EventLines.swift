import SyncControl
import SyncModel
import SyncStore

/// Reads a session's events one line at a time, as fast as the reader asks and no faster: what is buffered is one page
/// of the store (F090).
final class EventLines: Sendable {
    private let store: SyncStore
    private let session: String
    private let follows: Bool
    private let progress: (@Sendable () -> RunStatus.Progress?)?
    private let sleep: @Sendable (Duration) async throws -> Void
    private let isOver: @Sendable () -> Bool

    /// Events read at a time.
    private static let page = 256
    /// From one look at the store to the next while nothing comes.
    private static let interval = Duration.milliseconds(200)

    /// What a reader has seen; it asks for one line at a time, so nothing else touches it.
    struct Cursor: Sendable {
        var seen: Int64
        var lines: ArraySlice<String> = []
        var shown: RunStatus.Progress?
    }

    /// - Parameters:
    ///   - progress: Asked for how far the session's run is; `nil` for a reader that does not want to know.
    ///   - isOver: Whether the agent ends: then a follower is sent away and comes back to the next agent.
    init(
        store: SyncStore,
        session: String,
        follows: Bool,
        progress: (@Sendable () -> RunStatus.Progress?)?,
        sleep: @escaping @Sendable (Duration) async throws -> Void,
        isOver: @escaping @Sendable () -> Bool
    ) {
        self.store = store
        self.session = session
        self.follows = follows
        self.progress = progress
        self.sleep = sleep
        self.isOver = isOver
    }

    /// The next line; `nil` at the end.
    ///
    /// - Throws: ``ControlError``, with code `not_found` where the reader has seen more than there is.
    func next(_ cursor: inout Cursor) async throws -> String? {
        while true {
            if let line = cursor.lines.popFirst() { return line }
            let seen = cursor.seen
            let page = try asking { () throws(StoreError) in
                let page = try store.events(of: session, after: seen, limit: Self.page)
                try page.requireReached(seen, of: session)
                return page
            }
            if cursor.seen < page.prunedSequence {
                cursor.seen = page.prunedSequence
                return EventLine.pruned(through: page.prunedSequence).text
            }
            if let last = page.events.last {
                cursor.seen = last.sequence
                cursor.lines = page.events.map { EventLine(sequence: $0.sequence, event: $0.text).text }[...]
                continue
            }
            guard follows, !isOver() else { return nil }
            if let now = progress?(), now != cursor.shown {
                cursor.shown = now
                try await sleep(Self.interval)
                return Self.line(now)
            }
            try await sleep(Self.interval)
        }
    }

    private static func line(_ progress: RunStatus.Progress) -> String {
        JSONLine.object {
            $0.field("event", EventName.progress)
            $0.field("phase", optional: progress.phase?.rawValue)
            $0.field("files_done", progress.filesDone)
            $0.field("files_total", progress.filesTotal)
            $0.field("bytes_done", progress.bytesDone)
            $0.field("bytes_total", progress.bytesTotal)
        }.text
    }
}

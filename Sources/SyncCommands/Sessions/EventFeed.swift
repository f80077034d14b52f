import SyncControl
import SyncModel
import SyncStore

/// A session's recorded events, one after the other, as the store has them. Needs no agent.
struct EventFeed: Sendable {
    let store: SyncStore
    let session: String
    private(set) var cursor: Int64

    /// Events read at a time.
    private static let page = 1_000

    init(store: SyncStore, session: String, after cursor: Int64) {
        self.store = store
        self.session = session
        self.cursor = cursor
    }

    /// The events that have come since the last call, a page at most; empty when there is none.
    mutating func next() throws(CommandFailure) -> [EventLine] {
        let seen = cursor
        let page = try asking { () throws(StoreError) in
            try store.events(of: session, after: seen, limit: Self.page)
        }
        var lines: [EventLine] = []
        if page.prunedSequence > cursor {
            lines.append(.pruned(through: page.prunedSequence))
            cursor = page.prunedSequence
        }
        for event in page.events {
            lines.append(EventLine(sequence: event.sequence, event: event.text))
            cursor = event.sequence
        }
        return lines
    }
}

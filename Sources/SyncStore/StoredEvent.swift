import Foundation
import GRDB
package import SyncModel

/// One event as it is told to whoever reads it later.
package struct StoredEvent: Sendable, Equatable {
    /// Counts the events of a session from 1, without a gap; 0 for a notice that is not recorded.
    package let sequence: Int64
    /// The event's JSON line, UTF-8, without a newline.
    package let line: [UInt8]

    package init(sequence: Int64, line: [UInt8]) { (self.sequence, self.line) = (sequence, line) }

    package var text: String { String(decoding: line, as: UTF8.self) }

    private static let head = Array("{\"event\":\"".utf8)

    /// What has happened; `nil` for what this program does not know. The line is not parsed for it: its name comes first.
    package var name: EventName? {
        guard line.starts(with: Self.head) else { return nil }
        let rest = line[Self.head.count...]
        return rest.firstIndex(of: UInt8(ascii: "\"")).flatMap {
            EventName(rawValue: String(decoding: rest[..<$0], as: UTF8.self))
        }
    }

    /// The line with its number first, as readers get it: `{"seq":12,"event":"task.installed","time":…,"path":…}`.
    package var numbered: String {
        guard sequence > 0 else { return text }
        return "{\"seq\":\(sequence)" + (line.count == 2 ? "}" : ",\(text.dropFirst())")
    }
}

/// A session's recorded events, one after the other, a page at a time.
package struct EventFeed: Sendable {
    private let store: SyncStore
    private let session: String
    /// The number of the last event that was read.
    package private(set) var cursor: Int64

    /// Events read at a time.
    private static let page = 256

    /// Begins behind an event that the reader has seen; 0 for none.
    package init(of session: String, after seen: Int64, in store: SyncStore) {
        (self.session, cursor, self.store) = (session, max(0, seen), store)
    }

    /// The events that have come since the last call; empty when there is none. Those that are no longer kept are one
    /// without number, `events.pruned`.
    ///
    /// - Throws: ``StoreError``, with code `unknown` where the reader has seen more than there is.
    package mutating func next() throws(StoreError) -> [StoredEvent] {
        let page = try store.events(of: session, after: cursor, limit: Self.page)
        try requireReached(page.lastSequence)
        var events = page.events
        if page.prunedSequence > cursor {
            let line = JSONLine.event(.eventsPruned) { $0.field("through", page.prunedSequence) }
            events.insert(StoredEvent(sequence: 0, line: line.bytes), at: 0)
        }
        cursor = page.events.last?.sequence ?? max(cursor, page.prunedSequence)
        return events
    }

    /// Refuses to begin behind a number that the session has not come to: a power cut has taken its last events, or its
    /// record has begun anew. Whoever waited for the next one would miss those until then.
    ///
    /// - Throws: ``StoreError`` with code `unknown`.
    package func requireReached() throws(StoreError) { try requireReached(store.session(named: session).lastSequence) }

    private func requireReached(_ last: Int64) throws(StoreError) {
        guard cursor > last else { return }
        throw StoreError(
            .unknown,
            "Session '\(escaped(session))' has no event \(cursor); its last is \(last). A power cut or a new state can"
                + " take events away: read again from 0.")
    }
}

extension SyncStore {
    /// Records events in one row; their order is the array's.
    ///
    /// - Parameter lines: JSON lines, UTF-8, without newlines. Many at a time cost little more than one.
    /// - Returns: The sequence number of the first.
    @discardableResult package func append(_ lines: [[UInt8]], to session: String, time: Int64) throws(StoreError)
        -> Int64
    {
        try write(.eventual) { db in
            var found = try StoredSession.named(session, db)
            return try self.append(lines, to: &found, time: time, db)
        }
    }

    /// Records events of a run unless it has its result: nothing follows the last event.
    ///
    /// - Returns: Whether they are on record.
    package func append(_ lines: [[UInt8]], ofUnfinished run: String, time: Int64) throws(StoreError) -> Bool {
        try write(.eventual) { db in
            let found = try StoredRun.named(run, db)
            guard found.result == nil else { return false }
            var session = try StoredSession.named(found.session, db)
            try self.append(lines, to: &session, time: time, db)
            return true
        }
    }

    /// A piece of a session's events, in order.
    ///
    /// Events up to the pruned one are gone: a reader that has seen less has missed something and must say so. The last
    /// one may be beyond the piece.
    package typealias EventPage = (events: [StoredEvent], prunedSequence: Int64, lastSequence: Int64)

    /// Reads a session's events after one that the reader has seen.
    ///
    /// - Parameters:
    ///   - seen: The last sequence number that was read; 0 for the beginning.
    ///   - limit: At most so many events.
    package func events(of session: String, after seen: Int64, limit: Int = 1_000) throws(StoreError) -> EventPage {
        try read { db in
            let found = try StoredSession.named(session, db)
            var events: [StoredEvent] = []
            // Whoever follows asks five times a second: where nothing is new, no row is read.
            guard limit > 0, seen < found.lastSequence else {
                return (events, found.prunedSequence, found.lastSequence)
            }
            let rows = try SQLRequest<Row>(
                """
                SELECT first, count, encoding, payload FROM events WHERE session = \(session) AND first >= coalesce(
                    (SELECT max(first) FROM events WHERE session = \(session) AND first <= \(seen) + 1), 0)
                ORDER BY first
                """
            ).fetchCursor(db)
            while events.count < limit, let row = try rows.next() {
                let first = try row.decode(Int64.self, forColumn: "first")
                let lines = try self.lines(row)
                guard try lines.count == row.decode(Int.self, forColumn: "count"),
                    first.saturatingAdd(Int64(lines.count)) < .max
                else { throw StoreError.unreadable("events of \(session)") }
                for (offset, line) in lines.enumerated() where events.count < limit {
                    let sequence = first + Int64(offset)
                    if sequence > seen { events.append(StoredEvent(sequence: sequence, line: line)) }
                }
            }
            return (events, found.prunedSequence, found.lastSequence)
        }
    }

    /// Passes on a session's events after a number, a page at a time, until `take` says that it is enough.
    package func scanEvents(of session: String, after sequence: Int64, _ take: (StoredEvent) -> Bool)
        throws(StoreError)
    {
        var seen = sequence
        while true {
            let page = try events(of: session, after: seen, limit: 4_096)
            guard let last = page.events.last, page.events.allSatisfy(take) else { return }
            seen = last.sequence
        }
    }

    @discardableResult func append(_ lines: [[UInt8]], to session: inout StoredSession, time: Int64, _ db: Database)
        throws -> Int64
    {
        let first = session.nextSeq
        guard !lines.isEmpty else { return first }
        let plain = Array(lines.joined(separator: [0x0A]))
        let small = compression?.compress(plain)
        // 0 for plain text, else the length of what compression made smaller.
        let encoding = small == nil ? 0 : plain.count
        try db.execute(
            literal: """
                INSERT INTO events (session, first, count, time, encoding, payload)
                VALUES (\(session.identifier), \(first), \(lines.count), \(time), \(encoding), \(Data(small ?? plain)))
                """)
        try session.updateChanges(db) { $0.nextSeq = first.saturatingAdd(Int64(lines.count)) }
        return first
    }

    /// Most **bytes** of a row's events: far more than is ever gathered for one.
    private static let longestRow = 1 << 28

    /// The lines of a row, in order.
    ///
    /// - Throws: ``StoreError`` with code `damaged`.
    private func lines(_ row: Row) throws -> [[UInt8]] {
        var bytes = Array(try row.decode(Data.self, forColumn: "payload"))
        let length = try row.decode(Int.self, forColumn: "encoding")
        if length != 0 {
            guard (1...Self.longestRow).contains(length), let plain = compression?.decompress(bytes, length),
                plain.count == length
            else { throw StoreError.unreadable("events") }
            bytes = plain
        }
        return bytes.split(separator: 0x0A, omittingEmptySubsequences: false).map(Array.init)
    }

    /// Where to begin reading a session's events for those from some time on.
    ///
    /// - Returns: The number to give to ``events(of:after:limit:)``: every event of that time or later comes after it,
    ///   and a few before that time may, too.
    package func sequence(before time: Int64, of session: String) throws(StoreError) -> Int64 {
        try read { db in
            let found = try StoredSession.named(session, db)
            // A row is as late as its last event.
            let first = try SQLRequest<Int64>(
                """
                SELECT first FROM events WHERE session = \(session) AND time >= \(time) ORDER BY first LIMIT 1
                """
            ).fetchOne(db)
            return first?.saturatingSubtract(1) ?? found.lastSequence
        }
    }
}

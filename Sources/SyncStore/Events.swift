import Foundation
import GRDB
package import SyncModel

extension SyncStore {
    /// A reader's next page of a session's events; empty if there are none. Pruned events are replaced by one without a
    /// number, `events.pruned`.
    ///
    /// - Parameter seen: The number of the last event that was read, 0 for none; afterwards that of the page's last.
    /// - Throws: ``StoreError``, with code `unknown` if the reader has seen more events than there are.
    package func nextEvents(of session: String, after seen: inout Int64) throws(StoreError) -> [SessionEvent] {
        seen = max(0, seen)
        let page = try events(of: session, after: seen, limit: 256)
        try Self.requireReached(seen, of: session, page.lastSequence)
        var events = page.events
        if page.prunedSequence > seen {
            let line = JSONLine.event(.eventsPruned) { $0.field("through", page.prunedSequence) }
            events.insert(SessionEvent(line: line.bytes), at: 0)
        }
        seen = page.events.last?.sequence ?? max(seen, page.prunedSequence)
        return events
    }

    /// Refuses a position that the session has not reached: a power cut has taken its last events, or its
    /// record has begun anew. A reader that waited for the next number would miss the events until then.
    ///
    /// - Throws: ``StoreError`` with code `unknown`.
    package func requireReached(_ seen: Int64, of session: String) throws(StoreError) {
        try Self.requireReached(seen, of: session, self.session(named: session).lastSequence)
    }

    private static func requireReached(_ seen: Int64, of session: String, _ last: Int64) throws(StoreError) {
        guard seen > last else { return }
        throw StoreError(
            .unknown,
            "Session '\(escaped(session))' has no event \(seen); its last is \(last). A power cut or a new state can"
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

    /// Records events of a run, unless it has its result: nothing follows the last event.
    ///
    /// - Returns: Whether they are recorded.
    package func append(_ lines: [[UInt8]], ofUnfinished run: String, time: Int64) throws(StoreError) -> Bool {
        try write(.eventual) { db in
            let found = try StoredRun.named(run, db)
            guard found.result == nil else { return false }
            var session = try StoredSession.named(found.session, db)
            try self.append(lines, to: &session, time: time, db)
            return true
        }
    }

    /// A page of a session's events, in order.
    ///
    /// Events up to `prunedSequence` are gone: a reader that has seen fewer has missed some and must report that.
    /// `lastSequence` may be beyond the page.
    package typealias EventPage = (events: [SessionEvent], prunedSequence: Int64, lastSequence: Int64)

    /// Reads a session's events after one that the reader has seen.
    ///
    /// - Parameters:
    ///   - seen: The last sequence number that was read; 0 for the beginning.
    ///   - limit: Most events of the page.
    package func events(of session: String, after seen: Int64, limit: Int = 1_000) throws(StoreError) -> EventPage {
        try read { db in
            let found = try StoredSession.named(session, db)
            var events: [SessionEvent] = []
            // Followers poll five times a second: if nothing is new, no row is read.
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
                    if sequence > seen { events.append(SessionEvent(sequence: sequence, line: line)) }
                }
            }
            return (events, found.prunedSequence, found.lastSequence)
        }
    }

    /// Passes a session's events after a number to `take`, a page at a time, until `take` returns `false` for one of a
    /// page.
    package func scanEvents(of session: String, after sequence: Int64, _ take: (SessionEvent) -> Bool)
        throws(StoreError)
    {
        var seen = sequence
        while true {
            let page = try events(of: session, after: seen, limit: 4_096)
            guard let last = page.events.last?.sequence, page.events.allSatisfy(take) else { return }
            seen = last
        }
    }

    @discardableResult func append(_ lines: [[UInt8]], to session: inout StoredSession, time: Int64, _ db: Database)
        throws -> Int64
    {
        let first = session.nextSeq
        guard !lines.isEmpty else { return first }
        let plain = Array(lines.joined(separator: [0x0A]))
        let small = compression?.compress(plain)
        // 0 for plain text, otherwise the length of the uncompressed text.
        let encoding = small == nil ? 0 : plain.count
        try db.execute(
            literal: """
                INSERT INTO events (session, first, count, time, encoding, payload)
                VALUES (\(session.identifier), \(first), \(lines.count), \(time), \(encoding), \(Data(small ?? plain)))
                """)
        try session.updateChanges(db) { $0.nextSeq = first.saturatingAdd(Int64(lines.count)) }
        return first
    }

    /// Most **bytes** of a row's events: far more than are ever buffered for one.
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

    /// The position from which to read a session's events of a time and later.
    ///
    /// - Returns: The number for ``events(of:after:limit:)``: every event of that time or later comes after it,
    ///   and a few earlier ones may, too.
    package func sequence(before time: Int64, of session: String) throws(StoreError) -> Int64 {
        try read { db in
            let found = try StoredSession.named(session, db)
            // A row has the time of its last event.
            let first = try SQLRequest<Int64>(
                """
                SELECT first FROM events WHERE session = \(session) AND time >= \(time) ORDER BY first LIMIT 1
                """
            ).fetchOne(db)
            return first?.saturatingSubtract(1) ?? found.lastSequence
        }
    }
}

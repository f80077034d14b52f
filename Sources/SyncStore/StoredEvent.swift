import GRDB
import SyncModel

/// One event as it is told to whoever reads it later.
package struct StoredEvent: Sendable, Equatable {
    /// Counts the events of a session from 1, without a gap.
    package let sequence: Int64
    /// The event's JSON line, UTF-8, without a newline.
    package let line: [UInt8]

    package var text: String { String(decoding: line, as: UTF8.self) }
}

/// A piece of a session's events.
package struct EventPage: Sendable, Equatable {
    /// In order; the first has a larger number than the reader has seen.
    package let events: [StoredEvent]
    /// Events up to this one are gone; a reader that has seen less has missed something and must say so.
    package let prunedSequence: Int64
    /// The last event there is, in this page or beyond.
    package let lastSequence: Int64

    /// Refuses a number that the session has not come to: a power cut has taken its last events, or its record has begun
    /// anew. Whoever waited for the next one would miss those until then.
    ///
    /// - Throws: ``StoreError`` with code `unknown`.
    package func requireReached(_ seen: Int64, of session: String) throws(StoreError) {
        guard seen > lastSequence else { return }
        throw StoreError(
            .unknown,
            "Session '\(escaped(session))' has no event \(seen); its last is \(lastSequence). A power cut or a new state can"
                + " take events away: read again from 0.")
    }
}

/// A row of `events`: many lines at a time.
private struct EventRecord: StoreRecord {
    static let databaseTableName = "events"

    private(set) var id: Int64?
    var session: Int64
    /// The sequence number of the first.
    var first: Int64
    var count: Int
    /// Of the last, **milliseconds** since 1970.
    var time: Int64
    /// 0 for plain text, else the length of what compression made smaller.
    var encoding: Int
    var payload: BlobColumn
}

extension SyncStore {
    /// Records events in one row; their order is the array's.
    ///
    /// - Parameter lines: JSON lines, UTF-8, without newlines. Many at a time cost little more than one.
    /// - Returns: The sequence number of the first.
    @discardableResult package func append(_ lines: [[UInt8]], to session: String, time: Int64) throws(StoreError)
        -> Int64
    { try write(.eventual) { db in try self.append(lines, to: StoredSession.named(session, db), time: time, db) } }

    /// Records events of a run unless it has its result: nothing follows the last event.
    ///
    /// - Returns: Whether they are on record.
    package func append(_ lines: [[UInt8]], ofUnfinished run: String, time: Int64) throws(StoreError) -> Bool {
        try write(.eventual) { db in
            let found = try StoredRun.named(run, db)
            guard found.result == nil else { return false }
            try self.append(lines, to: StoredSession.named(found.session, db), time: time, db)
            return true
        }
    }

    /// Reads a session's events after one that the reader has seen.
    ///
    /// - Parameters:
    ///   - seen: The last sequence number that was read; 0 for the beginning.
    ///   - limit: At most so many events.
    /// - Returns: The events, and whether some before them are gone.
    package func events(of session: String, after seen: Int64, limit: Int = 1_000) throws(StoreError) -> EventPage {
        try read { db in
            let found = try StoredSession.named(session, db)
            var events: [StoredEvent] = []
            // Whoever follows asks five times a second: where nothing is new, no row is read.
            let isNew = limit > 0 && seen < found.lastSequence
            let rows = try SQLRequest<EventRecord>(
                """
                SELECT * FROM events WHERE session = \(found.record.id) AND first >= coalesce(
                    (SELECT max(first) FROM events WHERE session = \(found.record.id) AND first <= \(seen) + 1), 0)
                ORDER BY first
                """
            ).fetchCursor(db)
            while isNew, events.count < limit, let row = try rows.next() {
                let lines = try self.lines(row)
                guard lines.count == row.count else { throw StoreError.unreadable("events of \(session)") }
                for (offset, line) in lines.enumerated() where events.count < limit {
                    let (sequence, overflow) = row.first.addingReportingOverflow(Int64(offset))
                    guard !overflow else { throw StoreError.unreadable("events of \(session)") }
                    if sequence > seen { events.append(StoredEvent(sequence: sequence, line: line)) }
                }
            }
            return EventPage(events: events, prunedSequence: found.prunedSequence, lastSequence: found.lastSequence)
        }
    }

    @discardableResult func append(_ lines: [[UInt8]], to session: StoredSession, time: Int64, _ db: Database) throws
        -> Int64
    {
        let first = session.record.nextSeq
        guard !lines.isEmpty else { return first }
        let plain = Array(lines.joined(separator: [0x0A]))
        let small = compression?.compress(plain)
        var row = EventRecord(
            session: session.record.id ?? 0, first: first, count: lines.count, time: time,
            encoding: small == nil ? 0 : plain.count, payload: BlobColumn(small ?? plain))
        try row.insert(db)
        try db.execute(
            literal: "UPDATE sessions SET next_seq = next_seq + \(lines.count) WHERE id = \(session.record.id)")
        return first
    }

    /// Most **bytes** of a row's events: far more than is ever gathered for one.
    private static let longestRow = 1 << 28

    /// The lines of a row, in order.
    ///
    /// - Throws: ``StoreError`` with code `damaged`.
    private func lines(_ row: EventRecord) throws -> [[UInt8]] {
        var bytes = row.payload.bytes
        if row.encoding != 0 {
            guard (1...Self.longestRow).contains(row.encoding),
                let plain = compression?.decompress(bytes, row.encoding), plain.count == row.encoding
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
                SELECT first FROM events WHERE session = \(found.record.id) AND time >= \(time) ORDER BY first LIMIT 1
                """
            ).fetchOne(db)
            return first?.saturatingSubtract(1) ?? found.lastSequence
        }
    }
}

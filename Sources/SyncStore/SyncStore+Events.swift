import GRDB

/// One event as it is told to whoever reads it later.
package struct StoredEvent: Sendable, Equatable {
    /// Counts the events of a session from 1, without a gap.
    package let sequence: Int64
    /// The event's JSON line, UTF-8, without a newline.
    package let line: [UInt8]

    /// The line as text.
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
}

extension SyncStore {
    /// Records events in one row; their order is the array's.
    ///
    /// - Parameters:
    ///   - lines: JSON lines, UTF-8, without newlines. Many at a time cost little more than one.
    ///   - session: The session they belong to.
    ///   - time: **Milliseconds** since 1970.
    /// - Returns: The sequence number of the first.
    /// - Throws: ``StoreError``.
    @discardableResult
    package func append(_ lines: [[UInt8]], to session: String, time: Int64) throws(StoreError) -> Int64 {
        try write(.eventual) { db in
            try self.append(lines, to: Self.existing(session, db), time: time, db)
        }
    }

    /// Reads a session's events after one that the reader has seen.
    ///
    /// - Parameters:
    ///   - session: The session.
    ///   - seen: The last sequence number that was read; 0 for the beginning.
    ///   - limit: At most so many events.
    /// - Returns: The events, and whether some before them are gone.
    /// - Throws: ``StoreError``.
    package func events(of session: String, after seen: Int64, limit: Int = 1_000) throws(StoreError)
        -> EventPage
    {
        try read { db in
            let found = try Self.existing(session, db)
            var events: [StoredEvent] = []
            let rows = try Row.fetchCursor(
                db,
                sql: """
                    SELECT first, count, encoding, payload FROM events
                    WHERE session = ?1 AND first >= coalesce(
                        (SELECT max(first) FROM events WHERE session = ?1 AND first <= ?2 + 1), 0)
                    ORDER BY first
                    """,
                arguments: [found.rowID, seen]
            )
            while events.count < limit, let row = try rows.next() {
                let first: Int64 = row["first"]
                let count: Int = row["count"]
                let lines = try self.lines(row["payload"], encoding: row["encoding"])
                guard lines.count == count else { throw StoreError.unreadable("events of \(session)") }
                for (offset, line) in lines.enumerated() where events.count < limit {
                    let sequence = first + Int64(offset)
                    if sequence > seen { events.append(StoredEvent(sequence: sequence, line: line)) }
                }
            }
            return EventPage(
                events: events,
                prunedSequence: found.prunedSequence,
                lastSequence: found.lastSequence
            )
        }
    }

    @discardableResult
    func append(_ lines: [[UInt8]], to session: StoredSession, time: Int64, _ db: Database) throws -> Int64 {
        let first = session.lastSequence + 1
        guard !lines.isEmpty else { return first }
        let plain = Array(lines.joined(separator: [0x0A]))
        let small = compression?.compress(plain)
        try db.execute(
            sql:
                "INSERT INTO events (session, first, count, time, encoding, payload) VALUES (?, ?, ?, ?, ?, ?)",
            arguments: [
                session.rowID, first, lines.count, time, small == nil ? 0 : plain.count, Blob(small ?? plain),
            ]
        )
        try db.execute(
            sql: "UPDATE sessions SET next_seq = next_seq + ? WHERE id = ?",
            arguments: [lines.count, session.rowID]
        )
        return first
    }

    /// The lines of a row.
    ///
    /// - Parameters:
    ///   - payload: As it was recorded.
    ///   - encoding: 0 for plain text, else the length of what compression made smaller.
    /// - Returns: The lines, in order.
    /// - Throws: ``StoreError`` with code `damaged`.
    private func lines(_ payload: Blob, encoding: Int) throws -> [[UInt8]] {
        var bytes = payload.bytes
        if encoding != 0 {
            guard let plain = compression?.decompress(bytes, encoding), plain.count == encoding else {
                throw StoreError.unreadable("events")
            }
            bytes = plain
        }
        return bytes.split(separator: 0x0A, omittingEmptySubsequences: false).map(Array.init)
    }
}

extension SyncStore {
    /// Where a reader of a session's events begins who wants those from some time on.
    ///
    /// - Parameters:
    ///   - session: The session.
    ///   - time: **Milliseconds** since 1970.
    /// - Returns: The number to give to ``events(of:after:limit:)``: every event of that time or later comes after it,
    ///   and a few before that time may, too.
    /// - Throws: ``StoreError``.
    package func sequence(before time: Int64, of session: String) throws(StoreError) -> Int64 {
        try read { db in
            let found = try Self.existing(session, db)
            // A row is as late as its last event.
            let first = try Int64.fetchOne(
                db,
                sql: "SELECT first FROM events WHERE session = ? AND time >= ? ORDER BY first LIMIT 1",
                arguments: [found.rowID, time]
            )
            return first.map { $0 - 1 } ?? found.lastSequence
        }
    }
}

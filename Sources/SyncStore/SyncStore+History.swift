import GRDB

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

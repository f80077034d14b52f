import GRDB

/// What was learnt about a host, so that the next run begins where this one ended.
package struct HostMemory: Sendable, Equatable {
    /// Connections that gave the best rate.
    package var connections: Int
    /// From request to first byte, in **microseconds**.
    package var firstByte: Int64
    /// Of one connection, in **bytes** a second.
    package var rate: Int64

    package init(connections: Int, firstByte: Int64, rate: Int64) {
        self.connections = connections
        self.firstByte = firstByte
        self.rate = rate
    }
}

/// Where the requests for one object have led (S76).
package struct StoredRedirect: Sendable, Equatable {
    /// What is fetched: a pack's digest, or a task's key. Never a URL (S72).
    package var object: String
    package var original: String
    /// Where the last request went.
    package var current: String
    /// Every hop between, in order.
    package var hops: [String]

    package init(object: String, original: String, current: String, hops: [String]) {
        self.object = object
        self.original = original
        self.current = current
        self.hops = hops
    }
}

extension SyncStore {
    /// What is known about all origins, `https://host:port`, that were used lately.
    package func memories() throws(StoreError) -> [String: HostMemory] {
        try read { db in
            let rows = try Row.fetchAll(db, sql: "SELECT * FROM hosts ORDER BY updated DESC LIMIT 1000")
            let pairs = rows.map { row in
                (
                    row["origin"] as String,
                    HostMemory(
                        connections: row["connections"],
                        firstByte: row["first_byte_us"],
                        rate: row["rate"]
                    )
                )
            }
            return Dictionary(pairs) { first, _ in first }
        }
    }

    /// Keeps what was learnt about an origin.
    package func remember(_ memory: HostMemory, of origin: String, now: Int64) throws(StoreError) {
        try write(.eventual) { db in
            try db.execute(
                sql:
                    "INSERT OR REPLACE INTO hosts (origin, connections, first_byte_us, rate, updated) VALUES (?, ?, ?, ?, ?)",
                arguments: [origin, memory.connections, memory.firstByte, memory.rate, now]
            )
        }
    }

    /// Keeps where requests have led; several at once cost little more than one.
    package func remember(_ redirects: [StoredRedirect], of session: String, now: Int64) throws(StoreError) {
        try write(.eventual) { db in
            let found = try Self.existing(session, db)
            for redirect in redirects {
                try db.execute(
                    sql: """
                        INSERT OR REPLACE INTO redirects (session, object, original, current, hops, updated)
                        VALUES (?, ?, ?, ?, ?, ?)
                        """,
                    arguments: [
                        found.rowID, redirect.object, redirect.original, redirect.current,
                        JSONList.text(redirect.hops), now,
                    ]
                )
            }
        }
    }

    /// Where the requests for a session's objects have led.
    package func redirects(of session: String) throws(StoreError) -> [StoredRedirect] {
        try read { db in
            let found = try Self.existing(session, db)
            return try Row.fetchAll(
                db,
                sql: "SELECT * FROM redirects WHERE session = ? ORDER BY object",
                arguments: [found.rowID]
            ).map { row in
                StoredRedirect(
                    object: row["object"],
                    original: row["original"],
                    current: row["current"],
                    hops: try JSONList.strings(row["hops"], db)
                )
            }
        }
    }
}

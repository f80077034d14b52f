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
}

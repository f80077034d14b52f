import SyncModel
package import SyncSystem

/// The present work on the latest run of a session, beside the store: two files in `sessions/` that are written during
/// the run and may be read at any time. Not in the database: they change many times a second, and losing them costs at
/// most a killed process's count of received bytes, which matters for a budget and reports.
///
/// `NAME.requests` is one JSON object, replaced as a whole; `NAME.tasks` is written by a ``TaskTracker``.
package struct LiveFiles: Sendable {
    let directory: String
    let name: String

    /// Most **bytes** of `NAME.requests`: 200 transfers with twenty hops each.
    private static let limit = 4 << 20

    private var requestsPath: String { "\(directory)/\(name).requests" }
    var tasksPath: String { "\(directory)/\(name).tasks" }

    /// Replaces the data about transfers. Not synced: after a power cut the run begins anew in any case.
    package func write(requests json: [UInt8]) throws(FileError) {
        try replaceFile(requestsPath, with: json, isDurable: false)
    }

    /// The data written last; `nil` if there is none, or it belongs to another user.
    package func requests() -> [UInt8]? { try? readFile(requestsPath, trust: .state, limit: Self.limit) }

    /// The work that a process last wrote for a run.
    ///
    /// - Parameter epoch: The session's epoch of that work. Work of earlier processes is in the run's record.
    /// - Returns: Body **bytes** and requests; `nil` if nothing is known.
    func work(of run: String, epoch: Int64) -> (received: UInt64, requests: UInt64)? {
        guard let bytes = requests(), let record = JSONValue(text: String(decoding: bytes, as: UTF8.self)),
            record["run"]?.string == run, record["epoch"]?.integer == epoch,
            let received = record["bytes_received"]?.unsigned, let requests = record["requests_sent"]?.unsigned
        else { return nil }
        return (received, requests)
    }

    /// The states of the latest run's tasks; `nil` if there are none.
    package func tasks() -> TaskTracker.Contents? { TaskTracker.read(tasksPath) }

    func remove() {
        removeFile(requestsPath)
        removeFile(tasksPath)
    }
}

extension SyncStore {
    /// The live files of a session's latest run; `nil` for a store in memory.
    package func liveFiles(of session: String) -> LiveFiles? {
        leaseDirectory.map { LiveFiles(directory: $0, name: Self.fileName(session)) }
    }
}

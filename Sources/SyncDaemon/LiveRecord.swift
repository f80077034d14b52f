import SyncControl
import SyncModel
import SyncStore

/// What the process that works on a run has written of it last, at most a second ago: `LiveRun` of the engine.
struct LiveRecord: Decodable {
    var run: String
    var process: Int32
    var files: FileCounts?
    var bytesTotal: UInt64
    var bytesReceived: UInt64
    var requestsSent: UInt64
    var progress: RunStatus.Progress?
    var requests: [RequestStatus]
    var more: Int

    /// The record of an open run; `nil` where there is none, or one of an earlier run.
    ///
    /// - Parameter holder: The process that works on the session now. Without it nothing is on the wire, whatever the last
    ///   one has left behind.
    static func read(of run: StoredRun, holder: Int32?, in store: SyncStore) -> LiveRecord? {
        guard run.state.isOpen, let bytes = store.liveFiles(of: run.session)?.requests(),
            var record = try? ControlJSON.decode(LiveRecord.self, from: bytes), record.run == run.identifier
        else { return nil }
        if holder != record.process || run.state != .running { record.rest() }
        return record
    }

    /// Its process is gone: what it was at goes on with the next one.
    private mutating func rest() {
        for index in requests.indices {
            requests[index].state = .waiting
            requests[index].until = nil
            requests[index].rate = 0
            requests[index].reason = "nobody works on it; what has come is kept"
        }
    }

    /// What it waits for, for people: one line for each place, at most ten.
    var waits: [String] {
        var lines: [String] = []
        for request in requests where request.state == .waiting {
            let line = "waiting for \(request.source): \(request.reason ?? "its turn")"
            if !lines.contains(line) { lines.append(line) }
        }
        return Array(lines.prefix(10))
    }

    /// Until when at least nothing moves, where all of it waits; and since when.
    var standstill: (since: WallTime, until: WallTime?)? {
        guard let since = requests.map(\.since).max(), requests.allSatisfy({ $0.state == .waiting }) else {
            return nil
        }
        return (since, requests.compactMap(\.until).min())
    }
}

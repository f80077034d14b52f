import GRDB
import SyncModel

/// Looks into a store and changes it behind its back, as a crash in the middle would leave it.
struct SQLFile {
    let path: String

    init(_ path: String) { self.path = path }

    func run(_ sql: String) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.writeWithoutTransaction { try $0.execute(sql: sql) }
        try queue.close()
    }

    /// The only run of the store as it was with its last hook in this state: `hook.started`, `hook.finished` and
    /// `pull.finished` were recorded one by one.
    func takeBackHook(_ state: HookRunState) throws {
        try run(
            """
            UPDATE runs SET state = 'running', result = NULL, finished = NULL;
            UPDATE hooks SET state = '\(state.rawValue)', finished = NULL, ended = NULL,
                attempt = \(state == .pending ? 0 : 1) WHERE id = (SELECT max(id) FROM hooks);
            DELETE FROM events WHERE id > (SELECT max(id) FROM events
                WHERE instr(payload, '\(state == .pending ? "group.completed" : "hook.started")'));
            UPDATE sessions SET next_seq = (SELECT max(first + count) FROM events);
            """)
    }

    func numbers(_ sql: String) throws -> [Int] {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }  // Only read.
        return try queue.read { try Int.fetchAll($0, sql: sql) }
    }

    /// Runs `body` while another process has the right to write.
    func whileWriting(_ body: () throws -> Void) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.inTransaction(.immediate) { _ in
            try body()
            return .rollback
        }
    }
}

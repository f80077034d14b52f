import GRDB

/// Looks into a store from outside.
struct StateReader {
    private let queue: DatabaseQueue

    init(_ state: StateDirectory) throws { queue = try DatabaseQueue(path: state.database) }

    func number(_ sql: String) throws -> Int { try queue.read { try Int.fetchOne($0, sql: sql) ?? 0 } }
}

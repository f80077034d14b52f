import GRDB

/// Changes a store behind its back, as a crash in the middle would leave it.
struct SQLFile {
    let path: String

    init(_ path: String) { self.path = path }

    func run(_ sql: String) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.writeWithoutTransaction { try $0.execute(sql: sql) }
        try queue.close()
    }
}

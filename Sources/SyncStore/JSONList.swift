import GRDB
import SyncModel

/// Lists of strings in one column, as a JSON array that people can read with the sqlite3 program.
enum JSONList {
    static func text(_ strings: [String]) -> String {
        var line = JSONLine()
        line.array { array in for string in strings { array.value(string) } }
        return line.text
    }

    /// SQLite reads what ``text(_:)`` wrote. https://sqlite.org/json1.html
    ///
    /// - Throws: ``StoreError`` with code `damaged` when something else stands there.
    static func strings(_ text: String, _ db: Database) throws -> [String] {
        guard try Bool.fetchOne(db, sql: "SELECT json_valid(?)", arguments: [text]) == true else {
            throw StoreError.unreadable("a list")
        }
        return try String.fetchAll(db, sql: "SELECT value FROM json_each(?) ORDER BY key", arguments: [text])
    }
}

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
    static func strings(_ text: String, _ db: Database) throws -> [String] {
        try String.fetchAll(db, sql: "SELECT value FROM json_each(?) ORDER BY key", arguments: [text])
    }
}

import Foundation
import GRDB
import SyncModel

/// Bytes of a column. GRDB speaks Foundation's `Data`; this is the one place where we do.
struct Blob: DatabaseValueConvertible, StatementColumnConvertible {
    let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    init(sqliteStatement: SQLiteStatement, index: CInt) {
        bytes = Array(Data(sqliteStatement: sqliteStatement, index: index))
    }

    static func fromDatabaseValue(_ value: DatabaseValue) -> Blob? {
        Data.fromDatabaseValue(value).map { Blob(Array($0)) }
    }

    var databaseValue: DatabaseValue { Data(bytes).databaseValue }

    func bind(to sqliteStatement: SQLiteStatement, at index: CInt) -> CInt {
        Data(bytes).bind(to: sqliteStatement, at: index)
    }
}

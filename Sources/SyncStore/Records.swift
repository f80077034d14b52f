import Foundation
import GRDB
import SyncModel

/// A row of a table: a property for each column, by its name in camel case. What has a shape of its own is JSON in its
/// column, spelt as the control API spells it.
///
/// A new column is a step of ``Schema`` and a property of its record, nothing else.
protocol StoreRecord: Codable, FetchableRecord, MutablePersistableRecord {}

extension StoreRecord {
    static var databaseColumnDecodingStrategy: DatabaseColumnDecodingStrategy { .convertFromSnakeCase }
    static var databaseColumnEncodingStrategy: DatabaseColumnEncodingStrategy { .convertToSnakeCase }
    static func databaseJSONDecoder(for column: String) -> JSONDecoder { StoredJSON.decoder }
    static func databaseJSONEncoder(for column: String) -> JSONEncoder { StoredJSON.encoder }

    /// Reads a row of which the file itself may be wrong.
    ///
    /// - Throws: ``StoreError`` with code `damaged`, which names what cannot be read.
    init(_ row: Row, of what: @autoclosure () -> String) throws {
        do { try self.init(row: row) } catch { throw StoreError.unreadable(what()) }
    }
}

extension Row {
    /// A name, for messages; empty where it cannot be read.
    func shown(_ column: String) -> String {
        // Damage is told as such by whoever reads the row.
        (try? decode(String.self, forColumn: column)) ?? ""
    }
}

/// Values in columns, as the control API writes them: JSON with snake_case keys.
enum StoredJSON {
    static var encoder: JSONEncoder {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return encoder
    }

    static var decoder: JSONDecoder {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return decoder
    }
}

/// Bytes of a column. GRDB speaks Foundation's `Data`; this is the one place where we do.
struct BlobColumn: Codable, Hashable, Sendable, DatabaseValueConvertible {
    let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    static func fromDatabaseValue(_ value: DatabaseValue) -> BlobColumn? {
        Data.fromDatabaseValue(value).map { BlobColumn(Array($0)) }
    }

    var databaseValue: DatabaseValue { Data(bytes).databaseValue }
}

/// A list of strings in one column, as a JSON array that people can read with the sqlite3 program.
struct TextList: Codable, Hashable, Sendable, DatabaseValueConvertible {
    var strings: [String]

    init(_ strings: [String]) { self.strings = strings }

    static func fromDatabaseValue(_ value: DatabaseValue) -> TextList? {
        guard let text = String.fromDatabaseValue(value), let list = JSONParser.parse(text)?.array else { return nil }
        let strings = list.compactMap(\.string)
        return strings.count == list.count ? TextList(strings) : nil
    }

    var databaseValue: DatabaseValue {
        var line = JSONLine()
        line.array { array in for string in strings { array.value(string) } }
        return line.text.databaseValue
    }
}

extension RawRepresentable<String> where Self: Sendable & Equatable {
    /// Goes where an input leads.
    ///
    /// - Parameter what: The row, for messages.
    /// - Returns: Whether it changed.
    /// - Throws: ``StoreError`` with code `refused`.
    mutating func move(_ input: some RawRepresentable<String>, _ step: Transition<Self>, _ what: String) throws -> Bool
    {
        switch step {
        case .stays: return false
        case .refused: throw StoreError(.refused, "\(what) is \(rawValue): it cannot be \(input.rawValue).")
        case .to(let next):
            self = next
            return true
        }
    }
}

extension SHA256Digest {
    /// The 32 bytes of a column.
    init?(_ blob: BlobColumn) {
        let read = blob.bytes.withUnsafeBytes { SHA256Digest(bytes: $0) }
        guard let read else { return nil }
        self = read
    }

    var blob: BlobColumn { BlobColumn((0..<Self.byteCount).map { self[byte: $0] }) }
}

extension SQL {
    /// Whether a column has the word of one of the states. The words stand in the text, where SQLite sees that a partial
    /// index has the rows.
    static func isAny<State: RawRepresentable<String>>(_ column: String, of states: [State]) -> SQL {
        SQL(sql: "\(column) IN (\(states.map { "'\($0.rawValue)'" }.joined(separator: ", ")))")
    }
}

extension StoreError {
    static func unreadable(_ what: String) -> StoreError {
        StoreError(.damaged, "The state's record of \(escaped(what)) cannot be read.")
    }
}

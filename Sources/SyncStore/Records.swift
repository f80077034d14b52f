import Foundation
import GRDB
import SyncModel

/// A row of a table: a property for each column, by its name in camel case. Structured values are JSON in their
/// column, spelled as in the control API.
protocol StoreRecord: Codable, FetchableRecord, MutablePersistableRecord {}

extension StoreRecord {
    static var databaseColumnDecodingStrategy: DatabaseColumnDecodingStrategy { .convertFromSnakeCase }
    static var databaseColumnEncodingStrategy: DatabaseColumnEncodingStrategy { .convertToSnakeCase }

    static func databaseJSONDecoder(for column: String) -> JSONDecoder {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return decoder
    }

    static func databaseJSONEncoder(for column: String) -> JSONEncoder {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return encoder
    }
}

extension Decodable where Self: FetchableRecord {
    /// The records of a query, whose stored values may be invalid.
    ///
    /// - Parameters:
    ///   - what: The kind of record, for messages.
    ///   - column: The column that identifies it.
    /// - Throws: ``StoreError`` with code `damaged` that names the unreadable record.
    static func read(_ what: String, by column: String, _ query: SQL, _ db: Database) throws -> [Self] {
        try SQLRequest<Row>(literal: query, cached: true).fetchAll(db).map { row in
            do { return try Self(row: row) } catch {
                let name = (try? row.decode(String.self, forColumn: column)) ?? ""
                throw StoreError.unreadable("\(what) \(name)")
            }
        }
    }
}

extension RawRepresentable<String> where Self: Sendable & Equatable {
    /// Applies the transition of an input.
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

extension SQL {
    /// A condition that a column has one of the states. The states are literals, so that SQLite sees that a partial
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

import Foundation

// Values of Swift as JSON: keys in snake_case and in order. The API of the agent and the files of schedules are spelt alike.

extension Encodable {
    /// - Parameter isPretty: Whether people read the text, line by line.
    package func json(isPretty: Bool = false) throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        if isPretty { encoder.outputFormatting.insert(.prettyPrinted) }
        return Array(try encoder.encode(self))
    }
}

extension Decodable {
    /// Reads a value; keys that it does not know are left alone.
    ///
    /// - Throws: `DecodingError`; what the value's own reader throws.
    package init(json: [UInt8]) throws {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        self = try decoder.decode(Self.self, from: Data(json))
    }
}

import SyncModel

/// One value of a configuration file and its line.
package struct ConfigurationNode: Sendable, Equatable {
    /// The kinds of value that JSON5 has.
    package enum Value: Sendable, Equatable {
        case null
        case boolean(Bool)
        /// An integer that fits into 64 bits.
        case integer(Int64)
        /// Any other number; may be infinite or not a number.
        case number(Double)
        case text(String)
        case list([ConfigurationNode])
        /// In the order of the file; no key occurs twice.
        case object([Member])
    }

    /// One `key: value`.
    package struct Member: Sendable, Equatable {
        package let key: String
        /// The line of the key, from 1.
        package let line: Int
        package let node: ConfigurationNode
    }

    /// The line of the value, from 1.
    package let line: Int
    package let value: Value

    /// Deeper nesting than any setting has is a mistake.
    private static let maximumDepth = 16

    /// Reads the text of a file: JSON5, one value and nothing after it.
    ///
    /// Foundation's reader is not used: it silently keeps the first of two equal keys, and gives no line of a mistake.
    ///
    /// - Throws: ``SettingsError`` that begins with the line and the column, from 1, and never quotes the file, which
    ///   may hold secrets.
    package static func read(_ bytes: [UInt8]) throws(SettingsError) -> ConfigurationNode {
        guard String(validating: bytes, as: UTF8.self) != nil else { throw SettingsError("1:1: not UTF-8") }
        let read = bytes.withUnsafeBytes { text in
            Result { () throws(JSONParser.Fault) in
                try JSONParser.json5(text, mostDepth: maximumDepth) { parser throws(JSONParser.Fault) in
                    try ConfigurationNode(&parser)
                }
            }
        }
        return try rethrowing(read.get()) { (fault: JSONParser.Fault) in
            let before = bytes.prefix(fault.position)
            let line = 1 + before.count { $0 == 0x0A }
            let column = fault.position - (before.lastIndex(of: 0x0A) ?? -1)
            return SettingsError("\(line):\(column): \(fault.detail)")
        }
    }

    private init(_ parser: inout JSONParser) throws(JSONParser.Fault) {
        let first = try parser.peek()
        line = parser.line()
        switch first {
        case UInt8(ascii: "{"):
            var members: [Member] = []
            try parser.members { parser, key, start throws(JSONParser.Fault) in
                members.append(Member(key: key, line: start, node: try ConfigurationNode(&parser)))
            }
            value = .object(members)
        case UInt8(ascii: "["):
            var elements: [ConfigurationNode] = []
            try parser.elements { parser throws(JSONParser.Fault) in elements.append(try ConfigurationNode(&parser)) }
            value = .list(elements)
        default:
            value =
                switch try parser.scalar() {
                case .bool(let flag): .boolean(flag)
                case .integer(let number): .integer(number)
                case .number(let number): .number(number)
                case .string(let text): .text(text)
                case .null, .array, .object: .null
                }
        }
    }

    /// The kind, for messages, with the value itself if it is short and no string. Strings may be secrets.
    package var kind: String {
        switch value {
        case .null: "null"
        case .boolean(let value): value ? "true" : "false"
        case .integer(let value): "\(value)"
        case .number(let value): "\(value)"
        case .text(let text): text.isEmpty ? "an empty string" : "a string"
        case .list(let list): list.isEmpty ? "an empty list" : "a list"
        case .object: "an object"
        }
    }
}

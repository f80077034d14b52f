/// One value of a configuration file and the line it stands on.
package struct ConfigurationNode: Sendable, Equatable {
    /// The kinds of value that JSON5 has.
    package enum Value: Sendable, Equatable {
        case null
        case boolean(Bool)
        /// A number without fraction that 64 bits hold.
        case integer(Int64)
        /// Any other number; may be infinite or not a number.
        case number(Double)
        case text(String)
        case list([ConfigurationNode])
        /// In the order of the file; no key twice.
        case object([Member])
    }

    /// One `key: value`.
    package struct Member: Sendable, Equatable {
        package let key: String
        /// Of the key, from 1.
        package let line: Int
        package let node: ConfigurationNode
    }

    /// From 1.
    package let line: Int
    package let value: Value

    /// For messages: the kind, and the value itself where it is short and no string. Strings may be secrets.
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

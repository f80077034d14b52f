/// One value of a JSON text. RFC 8259.
package enum JSONValue: Sendable, Equatable {
    case null
    case bool(Bool)
    /// A number without fraction or exponent that 64 bits hold.
    case integer(Int64)
    /// Any other number; finite.
    case number(Double)
    case string(String)
    case array([JSONValue])
    /// No key comes twice.
    case object([String: JSONValue])

    /// The member of an object; `nil` for a missing one, and for anything but an object.
    package subscript(_ key: String) -> JSONValue? {
        if case .object(let members) = self { members[key] } else { nil }
    }

    package var string: String? { if case .string(let text) = self { text } else { nil } }
    package var integer: Int64? { if case .integer(let number) = self { number } else { nil } }
    package var unsigned: UInt64? { integer.flatMap { UInt64(exactly: $0) } }
    package var bool: Bool? { if case .bool(let flag) = self { flag } else { nil } }
    package var array: [JSONValue]? { if case .array(let elements) = self { elements } else { nil } }
    package var object: [String: JSONValue]? { if case .object(let members) = self { members } else { nil } }
    package var isNull: Bool { self == .null }

    /// What it is, for messages; never its content, which may be a secret.
    package var kind: String {
        switch self {
        case .null: "null"
        case .bool: "true or false"
        case .integer, .number: "a number"
        case .string: "a string"
        case .array: "a list"
        case .object: "an object"
        }
    }
}

/// One value of a JSON text. RFC 8259.
public enum JSONValue: Sendable, Hashable, Codable {
    case null
    case bool(Bool)
    /// A number without fraction or exponent that fits into 64 bits.
    case integer(Int64)
    /// Any other number; infinite or NaN only from JSON5.
    case number(Double)
    case string(String)
    case array([JSONValue])
    /// Without duplicate keys.
    case object([String: JSONValue])

    /// Parses JSON text, as strictly as ``JSONParser``; `nil` if it is invalid.
    public init?(text: String) {
        guard let value = JSONParser.parse(text) else { return nil }
        self = value
    }

    /// The value as JSON text on one line, keys in order.
    public var text: String {
        var line = JSONLine()
        write(to: &line)
        return line.text
    }

    private func write(to line: inout JSONLine) {
        switch self {
        case .null: line.null()
        case .bool(let flag): line.value(flag)
        case .integer(let number): line.value(number)
        case .number(let number): line.raw("\(number)")
        case .string(let text): line.value(text)
        case .array(let elements): line.array { line in for element in elements { element.write(to: &line) } }
        case .object(let members):
            line.object { line in
                for (key, value) in members.sorted(by: { $0.key < $1.key }) {
                    line.key(key)
                    value.write(to: &line)
                }
            }
        }
    }

    /// Decodes any value.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Int64.self) {
            self = .integer(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode([JSONValue].self) {
            self = .array(value)
        } else {
            self = .object(try container.decode([String: JSONValue].self))
        }
    }

    /// Encodes the value.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .bool(let value): try container.encode(value)
        case .integer(let value): try container.encode(value)
        case .number(let value): try container.encode(value)
        case .string(let value): try container.encode(value)
        case .array(let value): try container.encode(value)
        case .object(let value): try container.encode(value)
        }
    }
}

extension JSONValue {
    /// The member of an object; `nil` for a missing one, and for anything but an object.
    package subscript(_ key: String) -> JSONValue? { if case .object(let members) = self { members[key] } else { nil } }

    package var string: String? { if case .string(let text) = self { text } else { nil } }
    package var integer: Int64? { if case .integer(let number) = self { number } else { nil } }
    package var unsigned: UInt64? { integer.flatMap { UInt64(exactly: $0) } }
    package var bool: Bool? { if case .bool(let flag) = self { flag } else { nil } }
    package var array: [JSONValue]? { if case .array(let elements) = self { elements } else { nil } }
    package var object: [String: JSONValue]? { if case .object(let members) = self { members } else { nil } }
    package var isNull: Bool { self == .null }

    /// The type of the value, for messages; never its content, which may be a secret.
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

/// A property that JSON leaves out while it is what its type starts with: `false`, `[]`, conditions that ask for nothing.
@propertyWrapper
public struct Omittable<Value: Codable & Equatable & Sendable & HasDefault>: Codable, Equatable, Sendable {
    /// The property.
    public var wrappedValue: Value

    /// Holds a value.
    public init(wrappedValue: Value) { self.wrappedValue = wrappedValue }

    /// Reads the value alone.
    public init(from decoder: any Decoder) throws { wrappedValue = try Value(from: decoder) }

    /// Writes the value alone.
    public func encode(to encoder: any Encoder) throws { try wrappedValue.encode(to: encoder) }
}

/// A type whose values begin as something.
public protocol HasDefault {
    /// What is meant where nothing is said.
    init()
}

extension Bool: HasDefault {}
extension String: HasDefault {}
extension Array: HasDefault {}

// What is synthesized for a type with such properties calls these.
extension KeyedDecodingContainer {
    package func decode<Value>(_: Omittable<Value>.Type, forKey key: Key) throws -> Omittable<Value> {
        Omittable(wrappedValue: try decodeIfPresent(Value.self, forKey: key) ?? Value())
    }
}

extension KeyedEncodingContainer {
    package mutating func encode<Value>(_ value: Omittable<Value>, forKey key: Key) throws {
        if value.wrappedValue != Value() { try encode(value.wrappedValue, forKey: key) }
    }
}

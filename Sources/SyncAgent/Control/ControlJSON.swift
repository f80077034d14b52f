import Foundation
import SyncModel

/// How values of the control API become text and come back: JSON, snake_case keys, RFC 3339 times.
package enum ControlJSON {
    /// A value as JSON, UTF-8, on one line; keys in a fixed order.
    ///
    /// - Throws: ``ControlError`` with code `internal`; none of the API's values is known to cause it.
    package static func encode(_ value: some Encodable) throws(ControlError) -> [UInt8] {
        do { return try value.json() } catch {
            throw ControlError(.internal, "Cannot encode an answer: \(error).", exitStatus: .internalError)
        }
    }

    /// Reads an answer. Unknown keys are left alone: a newer agent may say more.
    ///
    /// - Throws: ``ControlError`` with code `internal`.
    package static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws(ControlError) -> Value
    {
        do { return try Value(json: bytes) } catch {
            let what = escaped(describe(error))
            throw ControlError(
                .internal, "Cannot parse the agent's answer: \(what). Is it a different version?",
                exitStatus: .internalError)
        }
    }

    /// Reads a request. A key that the API does not know is refused by name: what would be ignored is a mistake. So is
    /// a key that is there twice, and a string with a NUL.
    ///
    /// - Throws: ``ControlError`` with code `invalid`.
    package static func decodeRequest<Value: Decodable>(_ type: Value.Type, _ keys: ControlKeys, from bytes: [UInt8])
        throws(ControlError) -> Value
    {
        do {
            let tree = try JSONValue(strictly: bytes)
            let whole = try tree.expanding(keys.short.keys, of: keys.short.of)
            try keys.check(whole ?? tree, at: "")
            return try Value(json: whole.map { Array($0.text.utf8) } ?? bytes)
        } catch let error as ControlError { throw error } catch {
            throw ControlError(invalid: escaped(describe(error)))
        }
    }

    private static func describe(_ error: any Error) -> String {
        switch error as? DecodingError {
        case .keyNotFound(let key, _): "'\(snakeCase(key.stringValue))' is missing"
        case .typeMismatch(_, let context) where !context.codingPath.isEmpty,
            .valueNotFound(_, let context) where !context.codingPath.isEmpty:
            "'\(place(context))' has the wrong type"
        case .dataCorrupted(let context) where !context.codingPath.isEmpty:
            "'\(place(context))' is \(context.debugDescription)"
        default: "it is not one JSON object"
        }
    }

    private static func place(_ context: DecodingError.Context) -> String {
        context.codingPath.map { $0.intValue.map { "[\($0)]" } ?? snakeCase($0.stringValue) }.joined(separator: ".")
    }

    fileprivate static func snakeCase(_ name: String) -> String {
        name.reduce(into: "") { result, character in
            if character.isUppercase, !result.isEmpty { result.append("_") }
            result.append(contentsOf: character.lowercased())
        }
    }
}

extension JSONValue {
    /// The same with some keys in the object that they belong to; `nil` where none of them is there.
    ///
    /// - Throws: ``ControlError`` for a key that is in both places.
    fileprivate func expanding(_ keys: [String], of name: String) throws(ControlError) -> JSONValue? {
        guard var whole = object, keys.contains(where: { whole[$0] != nil }) else { return nil }
        guard var inner = (whole[name] ?? .object([:])).object else { return nil }
        for key in keys {
            guard let value = whole.removeValue(forKey: key), !value.isNull else { continue }
            guard inner.updateValue(value, forKey: key) == nil else {
                throw ControlError(.invalid, "'\(key)' and '\(name).\(key)' say the same.", exitStatus: .usage)
            }
        }
        whole[name] = .object(inner)
        return .object(whole)
    }
}

/// The keys of a JSON object and of the objects inside it.
package struct ControlKeys: Sendable {
    private let names: [String: ControlKeys?]
    private let required: [String]
    /// Keys of an object in it that may stand at the top as well.
    fileprivate let short: (keys: [String], of: String)

    /// Takes the properties of a value, whatever they are now, as keys.
    ///
    /// - Parameters:
    ///   - required: The keys that must be there.
    ///   - nested: The keys whose values are objects, or lists of objects, of their own.
    ///   - short: Keys of one of these that may stand beside it as well.
    package init(
        of value: Any, required: [String] = [], nested: [String: ControlKeys] = [:],
        short: (keys: [String], of: String) = ([], "")
    ) {
        var names: [String: ControlKeys?] = [:]
        for label in Mirror(reflecting: value).children.compactMap(\.label) {
            // A property with a wrapper is stored under its name with a line before it.
            let name = label.hasPrefix("_") ? String(label.dropFirst()) : label
            names[ControlJSON.snakeCase(name)] = .some(nil)
        }
        for (name, keys) in nested { names[name] = keys }
        (self.names, self.required, self.short) = (names, required, short)
    }

    /// A single key, which must be there.
    package init(only name: String) { (names, required, short) = ([name: nil], [name], ([], "")) }

    /// - Throws: ``ControlError`` that names the first key which is not among them, or the first that is missing.
    fileprivate func check(_ tree: JSONValue, at place: String) throws(ControlError) {
        guard let object = tree.object else { return }
        for (key, value) in object.sorted(by: { $0.key < $1.key }) {
            let name = place.isEmpty ? key : "\(place).\(key)"
            guard let inner = names[key] else {
                throw ControlError(.invalid, "Unknown key '\(escaped(name))'.", exitStatus: .usage)
            }
            guard let inner else { continue }
            for element in value.array ?? [value] { try inner.check(element, at: name) }
        }
        if let missing = required.first(where: { object[$0] == nil }) {
            throw ControlError(invalid: "'\(missing)' is missing")
        }
    }
}

import Foundation
import SyncModel

// The encoding of the control API's values: JSON, snake_case keys, RFC 3339 times.

extension Encodable {
    /// The value as JSON, UTF-8, on one line; keys in a fixed order.
    ///
    /// - Throws: ``ControlError`` with code `internal`; none of the API's values is known to cause it.
    package func controlJSON() throws(ControlError) -> [UInt8] {
        do { return try json() } catch {
            throw ControlError(.internal, "Cannot encode an answer: \(error).", exitStatus: .internalError)
        }
    }
}

extension Decodable {
    /// Decodes a response. Unknown keys are ignored: a newer agent may send more.
    ///
    /// - Throws: ``ControlError`` with code `internal`.
    package init(answer bytes: [UInt8]) throws(ControlError) {
        do { self = try Self(json: bytes) } catch {
            let what = escaped(describe(error))
            throw ControlError(
                .internal, "Cannot parse the agent's answer: \(what). Is it a different version?",
                exitStatus: .internalError)
        }
    }
}

/// - Parameter isObject: Whether the text is known to be an object in JSON.
private func describe(_ error: any Error, isObject: Bool = false) -> String {
    func place(_ context: DecodingError.Context) -> String {
        context.codingPath.map { $0.intValue.map { "[\($0)]" } ?? snakeCase($0.stringValue) }.joined(separator: ".")
    }
    return switch error as? DecodingError {
    case .keyNotFound(let key, _): "'\(snakeCase(key.stringValue))' is missing"
    case .typeMismatch(_, let context) where !context.codingPath.isEmpty,
        .valueNotFound(_, let context) where !context.codingPath.isEmpty:
        "'\(place(context))' has the wrong type"
    case .dataCorrupted(let context) where context.debugDescription.hasPrefix("Cannot initialize "):
        // The compiler's words for an enumeration, with its name.
        "'\(place(context))' has a value that is not known"
    case .dataCorrupted(let context) where !context.codingPath.isEmpty:
        "'\(place(context))' is \(context.debugDescription)"
    // The library does not say which.
    default: isObject ? "a number in it is negative, too large or not whole" : "it is not one JSON object"
    }
}

private func snakeCase(_ name: String) -> String {
    name.reduce(into: "") { result, character in
        if character.isUppercase, !result.isEmpty { result.append("_") }
        result.append(contentsOf: character.lowercased())
    }
}

extension JSONValue {
    /// The object with some keys moved into the inner object that they belong to; `nil` if it has none of them.
    ///
    /// - Throws: ``ControlError`` for a key that occurs in both places.
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
    /// Keys of an inner object that may also stand at the top.
    private let short: (keys: [String], of: String)

    /// Uses the stored properties of a value as keys.
    ///
    /// - Parameters:
    ///   - required: The keys that must be present.
    ///   - nested: The keys whose values are objects, or lists of objects, of their own.
    ///   - short: Keys of one of these objects that may also stand beside it.
    package init(
        of value: Any, required: [String] = [], nested: [String: ControlKeys] = [:],
        short: (keys: [String], of: String) = ([], "")
    ) {
        var names: [String: ControlKeys?] = [:]
        for label in Mirror(reflecting: value).children.compactMap(\.label) {
            // A property with a wrapper is stored under its name with an underscore before it.
            let name = label.hasPrefix("_") ? String(label.dropFirst()) : label
            names[snakeCase(name)] = .some(nil)
        }
        for (name, keys) in nested { names[name] = keys }
        (self.names, self.required, self.short) = (names, required, short)
    }

    /// A single key, which must be present.
    package init(only name: String) { (names, required, short) = ([name: nil], [name], ([], "")) }

    /// Decodes a request. An unknown key is refused by name, since ignoring it would hide a mistake. A repeated key and
    /// a string with a NUL are refused, too.
    ///
    /// - Throws: ``ControlError`` with code `invalid`.
    package func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws(ControlError) -> Value {
        let tree = try JSONValue(strictly: bytes)
        do {
            let whole = try tree.expanding(short.keys, of: short.of)
            try check(whole ?? tree, at: "")
            return try Value(json: whole.map { Array($0.text.utf8) } ?? bytes)
        } catch let error as ControlError { throw error } catch {
            throw ControlError(invalid: escaped(describe(error, isObject: tree.object != nil)))
        }
    }

    /// - Throws: ``ControlError`` that names the first unknown key, or the first missing one.
    private func check(_ tree: JSONValue, at place: String) throws(ControlError) {
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

extension JSONValue {
    /// Parses JSON text from outside more strictly than Foundation, which silently takes one of two equal keys, and
    /// accepts a NUL, which ends a path in C, in the middle of a string.
    ///
    /// - Parameter bytes: UTF-8, one value, no key twice in one object, no NUL in a string but those of a request's
    ///   `user_data`.
    /// - Throws: ``ControlError`` with code `invalid`.
    fileprivate init(strictly bytes: [UInt8]) throws(ControlError) {
        // Foundation would take bytes with NULs between them for UTF-16.
        guard !bytes.contains(0), String(validating: bytes, as: UTF8.self) != nil else {
            throw ControlError(invalid: "it is not UTF-8 text")
        }
        // A byte order mark is not part of the text.
        let text = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes.dropFirst(3) : bytes[...]
        do throws(JSONParser.Fault) {
            self = try text.withUnsafeBytes { text in
                Result { () throws(JSONParser.Fault) in try JSONParser.read(text) }
            }.get()
        } catch {
            throw ControlError(
                invalid: error.repeated.map { "the key '\(shown($0))' appears twice in one object" }
                    ?? "it is not one JSON object: \(escaped(error.detail))")
        }
        try checkTexts(at: "")
    }

    private func checkTexts(at place: String) throws(ControlError) {
        switch self {
        case .string(let text):
            guard !text.utf8.contains(0) else {
                let what = place.isEmpty ? "it" : "'\(shown(place))'"
                throw ControlError(invalid: "\(what) has a NUL character, \\u0000")
            }
        case .array(let list): for element in list { try element.checkTexts(at: place) }
        case .object(let object):
            for (key, value) in object.sorted(by: { $0.key < $1.key }) {
                try JSONValue.string(key).checkTexts(at: place)
                // What a request has there is handed on and never read here; further down it may be the name of a hook.
                guard !place.isEmpty || key != "user_data" else { continue }
                try value.checkTexts(at: place.isEmpty ? key : "\(place).\(key)")
            }
        case .null, .bool, .integer, .number: break
        }
    }
}

extension ControlError {
    /// The error for an invalid request; `what` is a sentence for people, without its full stop.
    init(invalid what: String) { self.init(.invalid, "The request is invalid: \(what).", exitStatus: .usage) }
}

private func shown(_ text: String) -> String {
    let few = text.unicodeScalars.prefix(64)
    return escaped(String(few)) + (few.endIndex == text.unicodeScalars.endIndex ? "" : "…")
}

// Swift values as JSON, with sorted snake_case keys. The agent's API and the files of schedules use the same spelling.

extension Encodable {
    /// - Parameter isPretty: Whether the text is indented for people.
    package func json(isPretty: Bool = false) throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        if isPretty { encoder.outputFormatting.insert(.prettyPrinted) }
        return Array(try encoder.encode(self))
    }
}

extension Decodable {
    /// Decodes a value; unknown keys are ignored.
    ///
    /// - Throws: `DecodingError`; the errors of the value's own initializer.
    package init(json: [UInt8]) throws {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        self = try decoder.decode(Self.self, from: Data(json))
    }
}

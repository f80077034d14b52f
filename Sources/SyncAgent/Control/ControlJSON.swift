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
        let tree = try JSONValue(strictly: bytes)
        do {
            let whole = try tree.expanding(keys.short.keys, of: keys.short.of)
            try keys.check(whole ?? tree, at: "")
            return try Value(json: whole.map { Array($0.text.utf8) } ?? bytes)
        } catch let error as ControlError { throw error } catch {
            throw ControlError(invalid: escaped(describe(error, isObject: tree.object != nil)))
        }
    }

    /// - Parameter isObject: Whether the text is known to be an object in JSON.
    private static func describe(_ error: any Error, isObject: Bool = false) -> String {
        switch error as? DecodingError {
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

extension JSONValue {
    /// Reads JSON text from outside, and what it must keep to beyond its grammar, wherever Foundation decodes it: that reader takes
    /// one of two equal keys in silence, and a character that ends a path in C into the middle of one.
    ///
    /// - Parameter bytes: UTF-8, one value, no key twice in one object, no NUL in a string but those of `user_data`.
    /// - Throws: ``ControlError`` with code `invalid`.
    fileprivate init(strictly bytes: [UInt8]) throws(ControlError) {
        // Foundation would take bytes with NULs between them for UTF-16.
        guard !bytes.contains(0), String(validating: bytes, as: UTF8.self) != nil else {
            throw ControlError(invalid: "it is not UTF-8 text")
        }
        // A byte order mark is no part of the text.
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
                // It is handed on and never read here.
                guard key != "user_data" else { continue }
                try value.checkTexts(at: place.isEmpty ? key : "\(place).\(key)")
            }
        case .null, .bool, .integer, .number: break
        }
    }
}

extension ControlError {
    /// A request that cannot be taken; `what` is a sentence for people, without its full stop.
    init(invalid what: String) { self.init(.invalid, "The request is invalid: \(what).", exitStatus: .usage) }
}

private func shown(_ text: String) -> String {
    let few = text.unicodeScalars.prefix(64)
    return escaped(String(few)) + (few.endIndex == text.unicodeScalars.endIndex ? "" : "…")
}

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

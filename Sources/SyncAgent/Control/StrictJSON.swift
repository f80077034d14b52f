package import SyncModel

/// What JSON text from outside must keep to beyond its grammar, wherever Foundation decodes it: that reader takes one of
/// two equal keys in silence, and a character that ends a path in C into the middle of one.
package enum StrictJSON {
    /// Why a text is refused.
    package struct Refusal: Error, Equatable, CustomStringConvertible {
        /// A sentence for people, without its full stop.
        package let description: String
    }

    /// Reads a text: UTF-8, one value, no key twice in one object, no NUL in a string.
    ///
    /// - Throws: ``Refusal``.
    package static func read(_ bytes: [UInt8]) throws(Refusal) -> JSONValue {
        // Foundation would take bytes with NULs between them for UTF-16.
        guard !bytes.contains(0), String(validating: bytes, as: UTF8.self) != nil else {
            throw Refusal(description: "it is not UTF-8 text")
        }
        // A byte order mark is no part of the text.
        let text = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes.dropFirst(3) : bytes[...]
        let tree: JSONValue
        do throws(JSONParser.Fault) {
            tree = try text.withUnsafeBytes { text in
                Result { () throws(JSONParser.Fault) in try JSONParser.read(text) }
            }.get()
        } catch {
            throw Refusal(
                description: error.repeated.map { "the key '\(shown($0))' appears twice in one object" }
                    ?? "it is not one JSON object")
        }
        try checkTexts(tree, at: "")
        return tree
    }

    private static func checkTexts(_ tree: JSONValue, at place: String) throws(Refusal) {
        switch tree {
        case .string(let text):
            guard !text.utf8.contains(0) else {
                let what = place.isEmpty ? "it" : "'\(shown(place))'"
                throw Refusal(description: "\(what) has a NUL character, \\u0000")
            }
        case .array(let list): for element in list { try checkTexts(element, at: place) }
        case .object(let object):
            for (key, value) in object.sorted(by: { $0.key < $1.key }) {
                try checkTexts(.string(key), at: place)
                try checkTexts(value, at: place.isEmpty ? key : "\(place).\(key)")
            }
        case .null, .bool, .integer, .number: break
        }
    }

    private static func shown(_ text: String) -> String {
        let few = text.unicodeScalars.prefix(64)
        return escaped(String(few)) + (few.endIndex == text.unicodeScalars.endIndex ? "" : "…")
    }
}

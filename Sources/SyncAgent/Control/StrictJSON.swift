import SyncModel

extension JSONValue {
    /// Reads JSON text from outside, and what it must keep to beyond its grammar, wherever Foundation decodes it: that reader takes
    /// one of two equal keys in silence, and a character that ends a path in C into the middle of one.
    ///
    /// - Parameter bytes: UTF-8, one value, no key twice in one object, no NUL in a string.
    /// - Throws: ``ControlError`` with code `invalid`.
    init(strictly bytes: [UInt8]) throws(ControlError) {
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
                    ?? "it is not one JSON object")
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

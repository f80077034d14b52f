import Foundation
import SyncModel

/// What JSON text from outside must keep to beyond its grammar, wherever Foundation reads it: that reader takes one of
/// two equal keys in silence, and a character that ends a path in C into the middle of one.
package enum StrictJSON {
    /// Why a text is refused.
    package struct Refusal: Error, Equatable, CustomStringConvertible {
        /// A sentence for people, without its full stop.
        package let description: String
    }

    /// Reads a text: UTF-8, one value, no key twice in one object, no NUL in a string.
    ///
    /// - Returns: What `JSONSerialization` makes of it.
    /// - Throws: ``Refusal``.
    package static func read(_ bytes: [UInt8]) throws(Refusal) -> Any {
        // Foundation would take bytes with NULs between them for UTF-16.
        guard !bytes.contains(0), String(validating: bytes, as: UTF8.self) != nil else {
            throw Refusal(description: "it is not UTF-8 text")
        }
        let tree: Any
        do {
            tree = try JSONSerialization.jsonObject(with: Data(bytes), options: [.fragmentsAllowed])
        } catch {
            throw Refusal(description: "it is not one JSON object")
        }
        try checkKeys(bytes)
        try checkTexts(tree, at: "")
        return tree
    }

    /// - Parameter bytes: A text that is JSON.
    private static func checkKeys(_ bytes: [UInt8]) throws(Refusal) {
        // The keys of every object that is open; `nil` for a list.
        var open: [Set<String>?] = []
        var isKey = false
        var position = 0
        while position < bytes.count {
            switch bytes[position] {
            case UInt8(ascii: "{"):
                open.append([])
                isKey = true
            case UInt8(ascii: "["):
                open.append(nil)
                isKey = false
            case UInt8(ascii: "}"), UInt8(ascii: "]"): _ = open.popLast()
            case UInt8(ascii: ","): isKey = open.last.map { $0 != nil } ?? false
            case UInt8(ascii: "\""):
                let end = endOfString(bytes, from: position)
                if isKey, let last = open.indices.last {
                    let key = text(bytes[position..<end])
                    guard open[last]?.insert(key).inserted != false else {
                        throw Refusal(description: "the key '\(shown(key))' appears twice in one object")
                    }
                    isKey = false
                }
                position = end
                continue
            default: break
            }
            position += 1
        }
    }

    /// The position behind a string's closing quote.
    private static func endOfString(_ bytes: [UInt8], from start: Int) -> Int {
        var position = start + 1
        while position < bytes.count, bytes[position] != UInt8(ascii: "\"") {
            position += bytes[position] == UInt8(ascii: "\\") ? 2 : 1
        }
        return min(position + 1, bytes.count)
    }

    /// A string without its quotes and escapes.
    private static func text(_ literal: ArraySlice<UInt8>) -> String {
        let value = try? JSONSerialization.jsonObject(with: Data(literal), options: [.fragmentsAllowed])
        // The whole text has been read already, and with it this.
        return value as? String ?? String(decoding: literal, as: UTF8.self)
    }

    private static func checkTexts(_ tree: Any, at place: String) throws(Refusal) {
        switch tree {
        case let text as String:
            guard !text.utf8.contains(0) else {
                let what = place.isEmpty ? "it" : "'\(shown(place))'"
                throw Refusal(description: "\(what) has a NUL character, \\u0000")
            }
        case let list as [Any]:
            for element in list { try checkTexts(element, at: place) }
        case let object as [String: Any]:
            for (key, value) in object.sorted(by: { $0.key < $1.key }) {
                try checkTexts(key, at: place)
                try checkTexts(value, at: place.isEmpty ? key : "\(place).\(key)")
            }
        default: break
        }
    }

    private static func shown(_ text: String) -> String {
        let few = text.unicodeScalars.prefix(64)
        return escaped(String(few)) + (few.endIndex == text.unicodeScalars.endIndex ? "" : "…")
    }
}

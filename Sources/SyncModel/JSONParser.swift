/// Reads one JSON text into a ``JSONValue``. RFC 8259, strict: UTF-8, no comments, no byte order mark, no key twice,
/// nothing after the value. Total: nothing in the text traps, and nesting is bounded.
package struct JSONParser {
    private let bytes: UnsafeRawBufferPointer
    private var position = 0
    private var depth = 0
    /// The key that comes twice in one object.
    private var repeated: String?

    /// Most arrays and objects within each other.
    package static let maximumDepth = 128

    private init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// Reads a text; `nil` when it is not JSON.
    package static func parse(_ bytes: UnsafeRawBufferPointer) -> JSONValue? {
        var repeated: String?
        return parse(bytes, repeated: &repeated)
    }

    /// Reads a text; `nil` when it is not JSON.
    ///
    /// - Parameter repeated: Gets the key that comes twice in one object, where that is why.
    package static func parse(_ bytes: UnsafeRawBufferPointer, repeated: inout String?) -> JSONValue? {
        var parser = JSONParser(bytes)
        defer { repeated = parser.repeated }
        guard let value = parser.value(), parser.peek() == nil else { return nil }
        return value
    }

    /// Reads a text; `nil` when it is not JSON.
    package static func parse(_ text: String) -> JSONValue? { Array(text.utf8).withUnsafeBytes { parse($0) } }

    /// Skips white space and returns the next byte, which stays unread; `nil` at the end.
    private mutating func peek() -> UInt8? {
        while position < bytes.count {
            let byte = bytes[position]
            guard byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 else { return byte }
            position += 1
        }
        return nil
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard peek() == byte else { return false }
        position += 1
        return true
    }

    private mutating func take(word: StaticString, _ value: JSONValue) -> JSONValue? {
        let length = word.utf8CodeUnitCount
        guard bytes.count - position >= length else { return nil }
        for index in 0..<length where bytes[position + index] != word.utf8Start[index] { return nil }
        position += length
        return value
    }

    private mutating func value() -> JSONValue? {
        switch peek() {
        case UInt8(ascii: "{"): nested { $0.members() }
        case UInt8(ascii: "["): nested { $0.elements() }
        case UInt8(ascii: "\""): string().map { .string($0) }
        case UInt8(ascii: "t"): take(word: "true", .bool(true))
        case UInt8(ascii: "f"): take(word: "false", .bool(false))
        case UInt8(ascii: "n"): take(word: "null", .null)
        default: number()
        }
    }

    private mutating func nested(_ read: (inout JSONParser) -> JSONValue?) -> JSONValue? {
        guard depth < Self.maximumDepth else { return nil }
        depth += 1
        position += 1
        defer { depth -= 1 }
        return read(&self)
    }

    private mutating func members() -> JSONValue? {
        var members: [String: JSONValue] = [:]
        if take(UInt8(ascii: "}")) { return .object(members) }
        repeat {
            guard peek() == UInt8(ascii: "\""), let key = string(), take(UInt8(ascii: ":")), let value = value() else {
                return nil
            }
            guard members.updateValue(value, forKey: key) == nil else {
                repeated = key
                return nil
            }
        } while take(UInt8(ascii: ","))
        return take(UInt8(ascii: "}")) ? .object(members) : nil
    }

    private mutating func elements() -> JSONValue? {
        var elements: [JSONValue] = []
        if take(UInt8(ascii: "]")) { return .array(elements) }
        repeat {
            guard let value = value() else { return nil }
            elements.append(value)
        } while take(UInt8(ascii: ","))
        return take(UInt8(ascii: "]")) ? .array(elements) : nil
    }

    // MARK: Scalars

    private mutating func number() -> JSONValue? {
        let start = position
        if position < bytes.count, bytes[position] == UInt8(ascii: "-") { position += 1 }
        let first = position
        guard digits() > 0 else { return nil }
        if bytes[first] == UInt8(ascii: "0"), position - first > 1 { return nil }
        var isInteger = true
        if position < bytes.count, bytes[position] == UInt8(ascii: ".") {
            isInteger = false
            position += 1
            guard digits() > 0 else { return nil }
        }
        if position < bytes.count, bytes[position] | 0x20 == UInt8(ascii: "e") {
            isInteger = false
            position += 1
            if position < bytes.count, bytes[position] == UInt8(ascii: "+") || bytes[position] == UInt8(ascii: "-") {
                position += 1
            }
            guard digits() > 0 else { return nil }
        }
        guard position - start <= 400 else { return nil }
        let text = String(decoding: bytes[start..<position], as: UTF8.self)
        if isInteger, let whole = Int64(text) { return .integer(whole) }
        guard let value = Double(text), value.isFinite else { return nil }
        return .number(value)
    }

    private mutating func digits() -> Int {
        let start = position
        while position < bytes.count, (0x30...0x39).contains(bytes[position]) { position += 1 }
        return position - start
    }

    /// Reads a string whose quote is next.
    private mutating func string() -> String? {
        position += 1
        let start = position
        while position < bytes.count {
            let byte = bytes[position]
            if byte == UInt8(ascii: "\"") {
                let text = String(validating: bytes[start..<position], as: UTF8.self)
                position += 1
                return text
            }
            if byte == UInt8(ascii: "\\") { return escapedString(from: start) }
            guard byte >= 0x20 else { return nil }
            position += 1
        }
        return nil
    }

    private mutating func escapedString(from start: Int) -> String? {
        var decoded = Array(bytes[start..<position])
        while position < bytes.count {
            let byte = bytes[position]
            position += 1
            switch byte {
            case UInt8(ascii: "\""): return String(validating: decoded, as: UTF8.self)
            case UInt8(ascii: "\\"):
                guard let scalar = escape() else { return nil }
                decoded.append(contentsOf: String(Character(scalar)).utf8)
            case 0..<0x20: return nil
            default: decoded.append(byte)
            }
        }
        return nil
    }

    private mutating func escape() -> Unicode.Scalar? {
        guard position < bytes.count else { return nil }
        let letter = bytes[position]
        position += 1
        switch letter {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(letter)
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"): return unicodeEscape()
        default: return nil
        }
    }

    /// `\uXXXX`, or two of them that are a surrogate pair; half a pair is no character.
    private mutating func unicodeEscape() -> Unicode.Scalar? {
        guard let high = unit() else { return nil }
        if let scalar = Unicode.Scalar(high) { return scalar }
        guard high < 0xDC00, bytes.count - position >= 2, bytes[position] == UInt8(ascii: "\\"),
            bytes[position + 1] == UInt8(ascii: "u")
        else { return nil }
        position += 2
        guard let low = unit(), (0xDC00...0xDFFF).contains(low) else { return nil }
        return Unicode.Scalar(0x10000 + (high - 0xD800) << 10 + (low - 0xDC00))
    }

    private mutating func unit() -> UInt32? {
        guard bytes.count - position >= 4 else { return nil }
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard let digit = hexadecimalValue(bytes[position]) else { return nil }
            position += 1
            value = value << 4 | UInt32(digit)
        }
        return value
    }
}

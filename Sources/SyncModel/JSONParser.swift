/// Parses JSON, token by token. RFC 8259, strict: UTF-8, no comments, no byte order mark, no duplicate keys, nothing
/// after the value. Or JSON5 (https://spec.json5.org), for people: with comments, trailing commas, unquoted keys,
/// single quotes and more number formats. Total: no input traps, and nesting is limited.
package struct JSONParser {
    /// A syntax error, with the byte where it was found.
    package struct Fault: Error {
        package let position: Int
        package let detail: String
        /// The duplicate key, if that is the error.
        package var repeated: String?
    }

    private let bytes: UnsafeRawBufferPointer
    private let isJSON5: Bool
    private let mostDepth: Int
    private var position = 0
    private var depth = 0
    /// The line number at a position up to which lines have been counted.
    private var counted = (position: 0, line: 1)

    /// Most nested arrays and objects.
    package static let maximumDepth = 128

    private init(_ bytes: UnsafeRawBufferPointer, isJSON5: Bool, mostDepth: Int) {
        (self.bytes, self.isJSON5, self.mostDepth) = (bytes, isJSON5, mostDepth)
    }

    /// Parses JSON; `nil` if it is invalid.
    package static func parse(_ bytes: UnsafeRawBufferPointer) -> JSONValue? { try? read(bytes) }

    /// Parses JSON; `nil` if it is invalid.
    package static func parse(_ text: String) -> JSONValue? { Array(text.utf8).withUnsafeBytes { parse($0) } }

    /// Parses JSON.
    package static func read(_ bytes: UnsafeRawBufferPointer) throws(Fault) -> JSONValue {
        var parser = JSONParser(bytes, isJSON5: false, mostDepth: maximumDepth)
        let value = try parser.value()
        try parser.end()
        return value
    }

    /// Parses JSON5: `read` consumes one value.
    ///
    /// - Parameter mostDepth: Most nested arrays and objects.
    package static func json5<R>(
        _ bytes: UnsafeRawBufferPointer, mostDepth: Int, _ read: (inout JSONParser) throws(Fault) -> R
    ) throws(Fault) -> R {
        var parser = JSONParser(bytes, isJSON5: true, mostDepth: mostDepth)
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { parser.position = 3 }
        guard try parser.peek() != nil else { throw parser.fault("the file is empty; write {} for no settings") }
        let value = try read(&parser)
        try parser.end()
        return value
    }

    private mutating func end() throws(Fault) {
        if try peek() != nil { throw fault("text after the end of the value") }
    }

    private func fault(_ detail: String, at place: Int? = nil, repeated: String? = nil) -> Fault {
        Fault(position: place ?? position, detail: detail, repeated: repeated)
    }

    /// The line of the next byte, counted from 1.
    package mutating func line() -> Int {
        counted = (
            position, counted.line + bytes[counted.position..<max(counted.position, position)].count { $0 == 0x0A }
        )
        return counted.line
    }

    // MARK: Structure

    private mutating func value() throws(Fault) -> JSONValue {
        switch try peek() {
        case UInt8(ascii: "{"):
            var members: [String: JSONValue] = [:]
            try self.members { parser, key, _ throws(Fault) in members[key] = try parser.value() }
            return .object(members)
        case UInt8(ascii: "["):
            var elements: [JSONValue] = []
            try self.elements { parser throws(Fault) in elements.append(try parser.value()) }
            return .array(elements)
        default: return try scalar()
        }
    }

    /// Parses an object; `read` consumes the value of each key, and receives the line of the key for JSON5.
    package mutating func members(_ read: (inout JSONParser, String, _ line: Int) throws(Fault) -> Void) throws(Fault) {
        var keys: Set<String> = []
        try each(upTo: "}") { parser throws(Fault) in
            let (start, line) = (parser.position, parser.isJSON5 ? parser.line() : 0)
            let key = try parser.key()
            guard keys.insert(key).inserted else {
                throw parser.fault("this key appears twice in one object; keep one of them", at: start, repeated: key)
            }
            guard try parser.take(":") else { throw parser.fault("a colon is missing after the key") }
            _ = try parser.peek()
            try read(&parser, key, line)
        }
    }

    /// Parses an array; `read` consumes each element.
    package mutating func elements(_ read: (inout JSONParser) throws(Fault) -> Void) throws(Fault) {
        try each(upTo: "]", read)
    }

    private mutating func each(upTo close: Unicode.Scalar, _ read: (inout JSONParser) throws(Fault) -> Void)
        throws(Fault)
    {
        position += 1
        depth += 1
        defer { depth -= 1 }
        guard depth <= mostDepth else { throw fault("nested deeper than \(mostDepth) levels") }
        if try take(close) { return }
        while true {
            _ = try peek()
            try read(&self)
            if try take(close) { return }
            guard try take(",") else { throw fault("a comma or \(close) is missing before this") }
            if isJSON5, try take(close) { return }
        }
    }

    /// Skips white space and returns the next byte without consuming it; `nil` at the end.
    package mutating func peek() throws(Fault) -> UInt8? {
        while position < bytes.count {
            let byte = bytes[position]
            if byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 {
                position += 1
            } else if isJSON5, try skipsBlank(byte) {
                continue
            } else {
                return byte
            }
        }
        return nil
    }

    /// Skips white space and comments of JSON5.
    private mutating func skipsBlank(_ byte: UInt8) throws(Fault) -> Bool {
        let rest = bytes[position...]
        if byte == 0x0B || byte == 0x0C {
            position += 1
        } else if rest.starts(with: [0xC2, 0xA0]) {
            // A no-break space, which editors may insert.
            position += 2
        } else if rest.starts(with: "//".utf8) {
            position = rest.firstIndex(of: 0x0A) ?? bytes.count
        } else if rest.starts(with: "/*".utf8) {
            var end = position + 2
            while !bytes[end...].starts(with: "*/".utf8) {
                guard end < bytes.count else { throw fault("a comment that never ends; close it with */") }
                end += 1
            }
            position = end + 2
        } else {
            return false
        }
        return true
    }

    private mutating func take(_ character: Unicode.Scalar) throws(Fault) -> Bool {
        guard try peek() == UInt8(ascii: character) else { return false }
        position += 1
        return true
    }

    private mutating func key() throws(Fault) -> String {
        let start = position
        guard let quote = try peek() else { throw fault("a key or } is missing here") }
        if quote == UInt8(ascii: "\"") || isJSON5 && quote == UInt8(ascii: "'") { return try string(quote) }
        while isJSON5, position < bytes.count, Self.isIdentifier(bytes[position]) { position += 1 }
        guard position > start, let name = String(validating: bytes[start..<position], as: UTF8.self) else {
            throw fault("a key or } is missing here")
        }
        return name
    }

    private static func isIdentifier(_ byte: UInt8) -> Bool {
        isAlphanumeric(byte) || byte == UInt8(ascii: "_") || byte == UInt8(ascii: "$") || byte >= 0x80
    }

    // MARK: Scalars

    /// Parses a value that is neither an object nor an array.
    package mutating func scalar() throws(Fault) -> JSONValue {
        guard let first = try peek() else { throw fault("a value is missing here") }
        if first == UInt8(ascii: "\"") || isJSON5 && first == UInt8(ascii: "'") { return .string(try string(first)) }
        if take(word: "true") { return .bool(true) }
        if take(word: "false") { return .bool(false) }
        if take(word: "null") { return .null }
        let start = position
        guard let number = isJSON5 ? json5Number() : number() else { throw fault("a value is missing here", at: start) }
        return number
    }

    private mutating func take(word: String) -> Bool {
        let end = position + word.utf8.count
        guard bytes[position...].starts(with: word.utf8), end == bytes.count || !Self.isIdentifier(bytes[end]) else {
            return false
        }
        position = end
        return true
    }

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

    /// Parses a number in any of JSON5's formats; it may be infinite or NaN.
    private mutating func json5Number() -> JSONValue? {
        let first = position
        while position < bytes.count, Self.isIdentifier(bytes[position]) || "+-.".utf8.contains(bytes[position]) {
            position += 1
        }
        var text = Substring(String(decoding: bytes[first..<position], as: UTF8.self))
        let isNegative = text.hasPrefix("-")
        if isNegative || text.hasPrefix("+") { text.removeFirst() }
        guard let head = text.first else { return nil }
        let sign: Double = isNegative ? -1 : 1
        if text == "Infinity" { return .number(sign * .infinity) }
        if text == "NaN" { return .number(.nan) }
        if text.hasPrefix("0x") || text.hasPrefix("0X") {
            let digits = text.dropFirst(2)
            guard digits.allSatisfy(\.isHexDigit) else { return nil }
            return Int64((isNegative ? "-" : "") + digits, radix: 16).map { .integer($0) }
        }
        // A leading point is followed by a digit, and a leading zero is not.
        let isDigitNext = text.dropFirst().first?.isNumber == true
        guard text.allSatisfy(\.isASCII), head == "." ? isDigitNext : head.isNumber && !(head == "0" && isDigitNext)
        else { return nil }
        if let value = Int64((isNegative ? "-" : "") + text) { return .integer(value) }
        let padded = (text.hasPrefix(".") ? "0" : "") + text + (text.hasSuffix(".") ? "0" : "")
        guard let value = Double(padded) else { return nil }
        return Int64(exactly: value).map { .integer(isNegative ? -$0 : $0) } ?? .number(sign * value)
    }

    /// Parses a string that begins with the next quote.
    private mutating func string(_ quote: UInt8) throws(Fault) -> String {
        let open = position
        position += 1
        let start = position
        var decoded: [UInt8]?
        while position < bytes.count {
            let byte = bytes[position]
            switch byte {
            case quote:
                let text =
                    decoded.map { String(validating: $0, as: UTF8.self) }
                    ?? String(validating: bytes[start..<position], as: UTF8.self)
                guard let text else { throw fault("not UTF-8", at: open) }
                position += 1
                return text
            case UInt8(ascii: "\\"):
                if decoded == nil { decoded = Array(bytes[start..<position]) }
                position += 1
                decoded? += try escape(in: open)
                continue
            case 0..<0x20 where !isJSON5 || byte == 0x0A || byte == 0x0D:
                throw fault("a string that never ends", at: open)
            default: decoded?.append(byte)
            }
            position += 1
        }
        throw fault("a string that never ends", at: open)
    }

    /// Decodes an escape after its backslash.
    private mutating func escape(in open: Int) throws(Fault) -> [UInt8] {
        guard position < bytes.count else { throw fault("a string that never ends", at: open) }
        let (start, letter) = (position, bytes[position])
        position += 1
        switch letter {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return [letter]
        case UInt8(ascii: "b"): return [0x08]
        case UInt8(ascii: "f"): return [0x0C]
        case UInt8(ascii: "n"): return [0x0A]
        case UInt8(ascii: "r"): return [0x0D]
        case UInt8(ascii: "t"): return [0x09]
        case UInt8(ascii: "u"): if let scalar = unicodeEscape() { return Array(String(Character(scalar)).utf8) }
        case _ where !isJSON5, 0x30...0x39: break
        case UInt8(ascii: "v"): return [0x0B]
        case UInt8(ascii: "x"):
            if let scalar = unit(digits: 2).flatMap(Unicode.Scalar.init) {
                return Array(String(Character(scalar)).utf8)
            }
        case 0x0A: return []  // A line continuation.
        case 0x0D:
            if position < bytes.count, bytes[position] == 0x0A { position += 1 }
            return []
        default: return [letter]
        }
        throw fault("JSON5 has no such escape", at: start)
    }

    /// `\uXXXX`, or two of them as a surrogate pair; half a pair is invalid.
    private mutating func unicodeEscape() -> Unicode.Scalar? {
        guard let high = unit(digits: 4) else { return nil }
        if let scalar = Unicode.Scalar(high) { return scalar }
        guard high < 0xDC00, bytes[position...].starts(with: "\\u".utf8) else { return nil }
        position += 2
        guard let low = unit(digits: 4), (0xDC00...0xDFFF).contains(low) else { return nil }
        return Unicode.Scalar(0x10000 + (high - 0xD800) << 10 + (low - 0xDC00))
    }

    private mutating func unit(digits: Int) -> UInt32? {
        guard bytes.count - position >= digits else { return nil }
        var value: UInt32 = 0
        for _ in 0..<digits {
            guard let digit = hexadecimalValue(bytes[position]) else { return nil }
            position += 1
            value = value << 4 | UInt32(digit)
        }
        return value
    }
}

import SyncModel

/// Reads JSON5 (https://spec.json5.org): JSON with comments, trailing commas, unquoted keys and single quotes.
///
/// Not Foundation's reader: that one keeps the first of two equal keys in silence and gives no line of a mistake.
/// Messages name line and column and never quote the file, which may hold secrets.
package struct JSON5Reader {
    let bytes: [UInt8]
    var position = 0
    private var line = 1
    private var lineStart = 0
    private var depth = 0

    /// Deeper nesting than any setting has is a mistake.
    private static let maximumDepth = 16

    private init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Reads one value and nothing after it.
    ///
    /// - Throws: ``SettingsError`` that begins with the line and the column, from 1.
    package static func read(_ bytes: [UInt8]) throws(SettingsError) -> ConfigurationNode {
        guard String(validating: bytes, as: UTF8.self) != nil else { throw SettingsError("1:1: not UTF-8") }
        var reader = JSON5Reader(bytes)
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { reader.position = 3 }
        try reader.skipBlanks()
        guard !reader.isAtEnd else { throw reader.fault("the file is empty; write {} for no settings") }
        let node = try reader.value()
        try reader.skipBlanks()
        guard reader.isAtEnd else { throw reader.fault("text after the end of the value") }
        return node
    }

    var isAtEnd: Bool { position >= bytes.count }
    var next: UInt8? { position < bytes.count ? bytes[position] : nil }

    func fault(_ detail: String) -> SettingsError { SettingsError("\(line):\(position - lineStart + 1): \(detail)") }

    mutating func advance() {
        if bytes[position] == UInt8(ascii: "\n") {
            line += 1
            lineStart = position + 1
        }
        position += 1
    }

    mutating func take(_ character: Character) -> Bool {
        guard let wanted = character.asciiValue, next == wanted else { return false }
        advance()
        return true
    }

    mutating func take(word: String) -> Bool {
        guard bytes[position...].starts(with: word.utf8) else { return false }
        let end = position + word.utf8.count
        if end < bytes.count, Self.isIdentifier(bytes[end]) { return false }
        position = end
        return true
    }

    mutating func skipBlanks() throws(SettingsError) {
        while let byte = next {
            if byte == 0x20 || (0x09...0x0D).contains(byte) {
                advance()
            } else if bytes[position...].starts(with: [0xC2, 0xA0]) {
                // A no-break space, as editors leave them.
                position += 2
            } else if bytes[position...].starts(with: "//".utf8) {
                while let byte = next, byte != UInt8(ascii: "\n") { position += 1 }
            } else if bytes[position...].starts(with: "/*".utf8) {
                let start = fault("a comment that never ends; close it with */")
                position += 2
                while !bytes[position...].starts(with: "*/".utf8) {
                    guard !isAtEnd else { throw start }
                    advance()
                }
                position += 2
            } else {
                return
            }
        }
    }

    private mutating func value() throws(SettingsError) -> ConfigurationNode {
        let start = line
        func node(_ value: ConfigurationNode.Value) -> ConfigurationNode {
            ConfigurationNode(line: start, value: value)
        }
        switch next {
        case UInt8(ascii: "{"): return node(.object(try members()))
        case UInt8(ascii: "["): return node(.list(try elements()))
        case UInt8(ascii: "\""), UInt8(ascii: "'"): return node(.text(try text()))
        default: break
        }
        if take(word: "true") { return node(.boolean(true)) }
        if take(word: "false") { return node(.boolean(false)) }
        if take(word: "null") { return node(.null) }
        return node(try number())
    }

    private mutating func enter() throws(SettingsError) {
        advance()
        depth += 1
        guard depth <= Self.maximumDepth else { throw fault("nested deeper than \(Self.maximumDepth) levels") }
        try skipBlanks()
    }

    /// After a value inside brackets: a comma, or the end.
    private mutating func endsOrGoesOn(_ close: Character) throws(SettingsError) -> Bool {
        try skipBlanks()
        if take(close) { return true }
        guard take(",") else { throw fault("a comma or \(close) is missing before this") }
        try skipBlanks()
        return take(close)
    }

    private mutating func members() throws(SettingsError) -> [ConfigurationNode.Member] {
        try enter()
        defer { depth -= 1 }
        var members: [ConfigurationNode.Member] = []
        var keys: Set<String> = []
        if take("}") { return members }
        while true {
            let start = fault("this key appears twice in one object; keep one of them")
            let keyLine = line
            let key = try key()
            guard keys.insert(key).inserted else { throw start }
            try skipBlanks()
            guard take(":") else { throw fault("a colon is missing after the key") }
            try skipBlanks()
            members.append(ConfigurationNode.Member(key: key, line: keyLine, node: try value()))
            if try endsOrGoesOn("}") { return members }
        }
    }

    private mutating func elements() throws(SettingsError) -> [ConfigurationNode] {
        try enter()
        defer { depth -= 1 }
        var elements: [ConfigurationNode] = []
        if take("]") { return elements }
        while true {
            elements.append(try value())
            if try endsOrGoesOn("]") { return elements }
        }
    }

    private mutating func key() throws(SettingsError) -> String {
        if next == UInt8(ascii: "\"") || next == UInt8(ascii: "'") { return try text() }
        let start = position
        while let byte = next, Self.isIdentifier(byte) { position += 1 }
        guard position > start else { throw fault("a key or } is missing here") }
        return String(decoding: bytes[start..<position], as: UTF8.self)
    }

    static func isIdentifier(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "$"), 0x80...:
            true
        default: false
        }
    }
}

extension JSON5Reader {
    /// A text in single or double quotes.
    mutating func text() throws(SettingsError) -> String {
        let open = fault("a string that never ends")
        let quote = next
        advance()
        var result: [UInt8] = []
        while let byte = next {
            if byte == quote {
                advance()
                return String(decoding: result, as: UTF8.self)
            }
            guard byte != UInt8(ascii: "\n"), byte != UInt8(ascii: "\r") else { throw open }
            if byte == UInt8(ascii: "\\") {
                advance()
                try escape(into: &result)
            } else {
                result.append(byte)
                position += 1
            }
        }
        throw open
    }

    private mutating func escape(into result: inout [UInt8]) throws(SettingsError) {
        guard let byte = next else { throw fault("a string that never ends") }
        let start = fault("JSON5 has no such escape")
        advance()
        switch byte {
        case UInt8(ascii: "n"): result.append(0x0A)
        case UInt8(ascii: "t"): result.append(0x09)
        case UInt8(ascii: "r"): result.append(0x0D)
        case UInt8(ascii: "b"): result.append(0x08)
        case UInt8(ascii: "f"): result.append(0x0C)
        case UInt8(ascii: "v"): result.append(0x0B)
        case UInt8(ascii: "\n"): break  // A line that goes on.
        case UInt8(ascii: "\r"): _ = take("\n")
        case UInt8(ascii: "x"):
            guard let unit = hexadecimal(2), let scalar = Unicode.Scalar(unit) else { throw start }
            result += Array(String(Character(scalar)).utf8)
        case UInt8(ascii: "u"):
            guard var unit = hexadecimal(4) else { throw start }
            if (0xD800..<0xDC00).contains(unit) {
                guard take("\\"), take("u"), let low = hexadecimal(4), (0xDC00..<0xE000).contains(low) else {
                    throw start
                }
                unit = 0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00)
            }
            guard let scalar = Unicode.Scalar(unit) else { throw start }
            result += Array(String(Character(scalar)).utf8)
        case UInt8(ascii: "0")...UInt8(ascii: "9"): throw start
        default: result.append(byte)
        }
    }

    private mutating func hexadecimal(_ digits: Int) -> UInt32? {
        guard bytes.count - position >= digits else { return nil }
        let text = bytes[position..<position + digits]
        guard text.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }) else { return nil }
        position += digits
        return UInt32(String(decoding: text, as: UTF8.self), radix: 16)
    }

    /// A number in any of JSON5's forms.
    mutating func number() throws(SettingsError) -> ConfigurationNode.Value {
        let start = fault("a value is missing here")
        let first = position
        while let byte = next, Self.isIdentifier(byte) || byte == 0x2B || byte == 0x2D || byte == 0x2E { position += 1 }
        var text = Substring(String(decoding: bytes[first..<position], as: UTF8.self))
        let isNegative = text.hasPrefix("-")
        if isNegative || text.hasPrefix("+") { text.removeFirst() }
        guard let head = text.first else { throw start }
        let sign: Double = isNegative ? -1 : 1
        if text == "Infinity" { return .number(sign * .infinity) }
        if text == "NaN" { return .number(.nan) }
        if text.hasPrefix("0x") || text.hasPrefix("0X") {
            let digits = text.dropFirst(2)
            guard digits.allSatisfy(\.isHexDigit), let value = Int64((isNegative ? "-" : "") + digits, radix: 16) else {
                throw start
            }
            return .integer(value)
        }
        // A point that comes first has a digit behind it, and a zero that comes first has none.
        let isDigitNext = text.dropFirst().first?.isNumber == true
        guard text.allSatisfy(\.isASCII), head == "." ? isDigitNext : head.isNumber && !(head == "0" && isDigitNext)
        else { throw start }
        if let value = Int64((isNegative ? "-" : "") + text) { return .integer(value) }
        let padded = (text.hasPrefix(".") ? "0" : "") + text + (text.hasSuffix(".") ? "0" : "")
        guard let value = Double(padded) else { throw start }
        if let whole = Int64(exactly: value) { return .integer(isNegative ? -whole : whole) }
        return .number(sign * value)
    }
}

/// One value of a configuration file and the line it stands on.
package struct ConfigurationNode: Sendable, Equatable {
    /// The kinds of value that JSON5 has.
    package enum Value: Sendable, Equatable {
        case null
        case boolean(Bool)
        /// A number without fraction that 64 bits hold.
        case integer(Int64)
        /// Any other number; may be infinite or not a number.
        case number(Double)
        case text(String)
        case list([ConfigurationNode])
        /// In the order of the file; no key twice.
        case object([Member])
    }

    /// One `key: value`.
    package struct Member: Sendable, Equatable {
        package let key: String
        /// Of the key, from 1.
        package let line: Int
        package let node: ConfigurationNode
    }

    /// From 1.
    package let line: Int
    package let value: Value

    /// For messages: the kind, and the value itself where it is short and no string. Strings may be secrets.
    package var kind: String {
        switch value {
        case .null: "null"
        case .boolean(let value): value ? "true" : "false"
        case .integer(let value): "\(value)"
        case .number(let value): "\(value)"
        case .text(let text): text.isEmpty ? "an empty string" : "a string"
        case .list(let list): list.isEmpty ? "an empty list" : "a list"
        case .object: "an object"
        }
    }
}

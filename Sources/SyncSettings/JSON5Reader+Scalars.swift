extension JSON5Reader {
    /// A text in single or double quotes.
    mutating func text() throws(SettingsError) -> String {
        let open = fault("a string without its end")
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
        guard let byte = next else { throw fault("a string without its end") }
        let start = fault("this escape is none that JSON5 knows")
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
        while let byte = next, Self.isIdentifier(byte) || byte == 0x2B || byte == 0x2D || byte == 0x2E {
            position += 1
        }
        var text = Substring(String(decoding: bytes[first..<position], as: UTF8.self))
        let isNegative = text.hasPrefix("-")
        if isNegative || text.hasPrefix("+") { text.removeFirst() }
        guard let head = text.first else { throw start }
        let sign: Double = isNegative ? -1 : 1
        if text == "Infinity" { return .number(sign * .infinity) }
        if text == "NaN" { return .number(.nan) }
        if text.hasPrefix("0x") || text.hasPrefix("0X") {
            guard let value = Int64((isNegative ? "-" : "") + text.dropFirst(2), radix: 16) else {
                throw start
            }
            return .integer(value)
        }
        guard head.isNumber || head == ".", text.allSatisfy({ $0.isASCII }) else { throw start }
        if text.allSatisfy(\.isNumber) {
            guard text.count == 1 || head != "0" else { throw start }
            if let value = Int64((isNegative ? "-" : "") + text) { return .integer(value) }
        }
        let padded = (text.hasPrefix(".") ? "0" : "") + text + (text.hasSuffix(".") ? "0" : "")
        guard let value = Double(padded) else { throw start }
        if let whole = Int64(exactly: value) { return .integer(isNegative ? -whole : whole) }
        return .number(sign * value)
    }
}

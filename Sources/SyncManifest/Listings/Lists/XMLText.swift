import SyncModel

/// Reads XML 1.0 piece by piece, as far as documents of data use it. A document type is refused, and with it every
/// entity that is not one of XML's own five, so that no text is longer than what was received.
package struct XMLText {
    package enum Piece {
        case start(name: String, attributes: [String: String])
        case end(name: String)
        case text([UInt8])
    }

    private let bytes: [UInt8]
    private var position = 0
    private var open: [String] = []
    /// The name of an element such as `<a/>`, whose end comes next.
    private var owed: String?
    private var hasRoot = false

    /// Most elements that are open at a time.
    private static let depth = 32
    /// Most **bytes** of a name, and of the value of an attribute.
    private static let longestName = 256
    private static let longestValue = 8_192
    private static let mostAttributes = 64

    package init(_ bytes: [UInt8]) throws(ListingError) {
        self.bytes = bytes
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { position = 3 }
        if bytes.starts(with: [0xFE, 0xFF]) || bytes.starts(with: [0xFF, 0xFE]) || bytes.contains(0) {
            throw ListingError("", "the XML is not UTF-8")
        }
        guard String(validating: bytes, as: UTF8.self) != nil else { throw ListingError("", "the XML is not UTF-8") }
    }

    /// The line that reading has reached, counted from 1.
    package var line: Int { bytes[..<position].count(where: { $0 == 0x0A }) + 1 }

    /// The next piece; `nil` after the end of the outermost element.
    package mutating func next() throws(ListingError) -> Piece? {
        if let name = owed {
            owed = nil
            return .end(name: name)
        }
        while position < bytes.count {
            if bytes[position] != 0x3C {
                let text = try takeText()
                if open.isEmpty {
                    guard text.allSatisfy(Self.isSpace) else { throw broken("text outside of the outermost element") }
                    continue
                }
                return .text(text)
            }
            if take("<!--") {
                try skip(past: "-->")
            } else if take("<![CDATA[") {
                let start = position
                try skip(past: "]]>")
                guard !open.isEmpty else { throw broken("text outside of the outermost element") }
                return .text(Array(bytes[start..<(position - 3)]))
            } else if take("<?") {
                let start = position
                try skip(past: "?>")
                try checkDeclaration(bytes[start..<(position - 2)])
            } else if bytes[position...].starts(with: "<!".utf8) {
                throw broken("a document type, which could define entities; remove it")
            } else if take("</") {
                let name = try takeName()
                skipSpace()
                guard take(">"), open.last == name else { throw broken("an end that fits no beginning") }
                open.removeLast()
                return .end(name: name)
            } else {
                position += 1
                return try takeStart()
            }
        }
        guard open.isEmpty, hasRoot else { throw broken("the XML ends early") }
        return nil
    }

    private mutating func takeStart() throws(ListingError) -> Piece {
        let name = try takeName()
        guard !open.isEmpty || !hasRoot else { throw broken("a second outermost element") }
        guard open.count < Self.depth else { throw broken("more than \(Self.depth) nested elements") }
        var attributes: [String: String] = [:]
        while true {
            let hadSpace = skipSpace()
            if take("/>") {
                owed = name
                break
            }
            if take(">") {
                open.append(name)
                break
            }
            guard hadSpace else { throw broken("not XML") }
            let key = try takeName()
            skipSpace()
            guard take("=") else { throw broken("an attribute without a value") }
            skipSpace()
            guard let quote = bytes[position...].first, quote == 0x22 || quote == 0x27,
                let end = bytes[(position + 1)...].firstIndex(of: quote), end - position <= Self.longestValue
            else { throw broken("the value of an attribute is not quoted, or too long") }
            let raw = bytes[(position + 1)..<end]
            guard !raw.contains(0x3C) else { throw broken("“<” in the value of an attribute") }
            position = end + 1
            let value = String(decoding: try decoded(raw), as: UTF8.self)
            guard attributes.updateValue(value, forKey: key) == nil else { throw broken("the same attribute twice") }
            guard attributes.count <= Self.mostAttributes else { throw broken("too many attributes") }
        }
        hasRoot = true
        return .start(name: name, attributes: attributes)
    }

    /// `xml version="1.0" encoding="…"`
    private func checkDeclaration(_ text: ArraySlice<UInt8>) throws(ListingError) {
        guard text.starts(with: "xml ".utf8) else { return }
        let words = String(decoding: text, as: UTF8.self).lowercased()
        guard let range = words.firstRange(of: "encoding") else { return }
        let name = words[range.upperBound...].filter { $0.isLetter || $0.isNumber || $0 == "-" }
        guard name.hasPrefix("utf-8") || name.hasPrefix("us-ascii") else { throw broken("the XML is not UTF-8") }
    }

    private mutating func takeText() throws(ListingError) -> [UInt8] {
        let end = bytes[position...].firstIndex(of: 0x3C) ?? bytes.count
        defer { position = end }
        return try decoded(bytes[position..<end])
    }

    /// A text with its references resolved.
    private func decoded(_ raw: ArraySlice<UInt8>) throws(ListingError) -> [UInt8] {
        guard raw.contains(0x26) else { return Array(raw) }
        var result: [UInt8] = []
        var rest = raw
        while let byte = rest.popFirst() {
            guard byte == 0x26 else {
                result.append(byte)
                continue
            }
            guard let end = rest.prefix(12).firstIndex(of: 0x3B) else { throw broken("“&” begins no reference") }
            let name = String(decoding: rest[..<end], as: UTF8.self)
            rest = rest[(end + 1)...]
            switch name {
            case "lt": result.append(0x3C)
            case "gt": result.append(0x3E)
            case "amp": result.append(0x26)
            case "quot": result.append(0x22)
            case "apos": result.append(0x27)
            default:
                let isHex = name.hasPrefix("#x")
                guard name.hasPrefix("#"), let value = UInt32(name.dropFirst(isHex ? 2 : 1), radix: isHex ? 16 : 10),
                    value != 0, let scalar = Unicode.Scalar(value)
                else { throw broken("the entity “\(escaped(name))” is not one of XML's own") }
                result += Array(String(Character(scalar)).utf8)
            }
        }
        return result
    }

    private mutating func takeName() throws(ListingError) -> String {
        let name = bytes[position...].prefix {
            isAlphanumeric($0) || $0 >= 0x80 || [0x2D, 0x2E, 0x3A, 0x5F].contains($0)
        }
        guard !name.isEmpty, name.count <= Self.longestName else { throw broken("not XML") }
        position += name.count
        return String(decoding: name, as: UTF8.self)
    }

    private mutating func take(_ text: StaticString) -> Bool {
        let word = UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
        guard bytes[position...].starts(with: word) else { return false }
        position += word.count
        return true
    }

    private mutating func skip(past text: String) throws(ListingError) {
        let word = Array(text.utf8)
        while position + word.count <= bytes.count {
            if bytes[position] == word[0], bytes[position...].starts(with: word) {
                position += word.count
                return
            }
            position += 1
        }
        throw broken("the XML ends early")
    }

    @discardableResult private mutating func skipSpace() -> Bool {
        let start = position
        while position < bytes.count, Self.isSpace(bytes[position]) { position += 1 }
        return position > start
    }

    static func isSpace(_ byte: UInt8) -> Bool { [0x20, 0x09, 0x0A, 0x0D].contains(byte) }

    func broken(_ reason: String) -> ListingError { ListingError("line \(line)", reason) }
}

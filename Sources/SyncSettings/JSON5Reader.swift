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
        guard !reader.isAtEnd else { throw reader.fault("nothing here; write {} for no settings") }
        let node = try reader.value()
        try reader.skipBlanks()
        guard reader.isAtEnd else { throw reader.fault("more after the end of the value") }
        return node
    }

    var isAtEnd: Bool { position >= bytes.count }
    var next: UInt8? { position < bytes.count ? bytes[position] : nil }

    func fault(_ detail: String) -> SettingsError {
        SettingsError("\(line):\(position - lineStart + 1): \(detail)")
    }

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
                let start = fault("a comment without its end, */")
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
        guard depth <= Self.maximumDepth else {
            throw fault("nested deeper than \(Self.maximumDepth) levels")
        }
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
            let start = fault("this key comes twice in one object; keep one of them")
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

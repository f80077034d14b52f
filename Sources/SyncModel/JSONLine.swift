/// Writes one JSON value as text, keys in the order they are added. RFC 8259; no spaces, no newline.
///
/// For events, reports and manifests: output is deterministic, and only necessary characters are escaped.
public struct JSONLine: Sendable {
    /// The text so far, UTF-8.
    public private(set) var bytes: [UInt8] = []
    private var needsComma = false

    /// An empty line.
    public init() {}

    /// The text as a string.
    public var text: String { String(decoding: bytes, as: UTF8.self) }

    /// Takes the text since the last call, so that a line of any length can be written in pieces.
    package mutating func take() -> [UInt8] {
        defer { bytes.removeAll(keepingCapacity: true) }
        return bytes
    }

    /// Makes one object on one line: `JSONLine.object { $0.field("path", "a") }`.
    public static func object(_ fill: (inout JSONLine) -> Void) -> JSONLine {
        var line = JSONLine()
        line.object(fill)
        return line
    }

    /// Adds fields at the end of the line, which must be a single object.
    package mutating func extend(_ fill: (inout JSONLine) -> Void) {
        bytes.removeLast()
        needsComma = bytes.count > 1
        fill(&self)
        bytes.append(0x7D)
        needsComma = true
    }

    /// Adds an object.
    public mutating func object(_ fill: (inout JSONLine) -> Void) { nested(0x7B, 0x7D, fill) }

    /// Adds an array.
    public mutating func array(_ fill: (inout JSONLine) -> Void) { nested(0x5B, 0x5D, fill) }

    /// Adds a key with an object.
    package mutating func object(_ name: String, _ fill: (inout JSONLine) -> Void) {
        key(name)
        object(fill)
    }

    /// Adds a key with an array.
    package mutating func array(_ name: String, _ fill: (inout JSONLine) -> Void) {
        key(name)
        array(fill)
    }

    /// Adds a key; a value must follow.
    public mutating func key(_ name: String) {
        separate()
        quote(name)
        bytes.append(0x3A)
        needsComma = false
    }

    /// Adds a string.
    public mutating func value(_ text: String) {
        separate()
        quote(text)
    }

    /// Adds an integer.
    public mutating func value(_ number: some BinaryInteger) { raw(String(number)) }

    /// Adds `true` or `false`.
    public mutating func value(_ flag: Bool) { raw(flag ? "true" : "false") }

    /// Adds `null`.
    public mutating func null() { raw("null") }

    /// Adds a key with a string.
    public mutating func field(_ name: String, _ text: String) {
        key(name)
        value(text)
    }

    /// Adds a key with the raw value of a state, a result or a reason.
    public mutating func field(_ name: String, _ word: some RawRepresentable<String>) { field(name, word.rawValue) }

    /// Adds a key with such a value, unless it is missing.
    public mutating func field(_ name: String, optional word: (some RawRepresentable<String>)?) {
        field(name, optional: word?.rawValue)
    }

    /// Adds a key with an integer.
    public mutating func field(_ name: String, _ number: some BinaryInteger) {
        key(name)
        value(number)
    }

    /// Adds a key with `true` or `false`.
    public mutating func field(_ name: String, _ flag: Bool) {
        key(name)
        value(flag)
    }

    /// Adds a key with a string, unless it is missing.
    public mutating func field(_ name: String, optional text: String?) { if let text { field(name, text) } }

    /// Adds a key with an integer, unless it is missing.
    public mutating func field(_ name: String, optional number: (some BinaryInteger)?) {
        if let number { field(name, number) }
    }

    /// Adds a key with an array of strings.
    package mutating func field(_ name: String, _ texts: some Sequence<String>) {
        array(name) { array in for text in texts { array.value(text) } }
    }

    /// Adds a key with a time, RFC 3339 in UTC, unless it is missing.
    package mutating func time(_ name: String, _ milliseconds: Int64?) {
        if let milliseconds { field(name, timestamp(milliseconds: milliseconds)) }
    }

    /// Adds a key with a list of objects.
    package mutating func list<Elements: Sequence>(
        _ name: String, _ elements: Elements, _ write: (Elements.Element, inout JSONLine) -> Void
    ) { array(name) { array in for element in elements { array.object { write(element, &$0) } } } }

    /// Adds `"range":[first, end]`, in **bytes**, half open.
    package mutating func range(_ range: Range<UInt64>) {
        array("range") { array in
            array.value(range.lowerBound)
            array.value(range.upperBound)
        }
    }

    /// Adds a key with text that is already JSON, unless it is missing.
    public mutating func json(_ name: String, _ text: String?) {
        guard let text else { return }
        key(name)
        raw(text)
    }

    /// Adds text that is already JSON.
    public mutating func raw(_ json: String) {
        separate()
        bytes.append(contentsOf: json.utf8)
    }

    private mutating func nested(_ open: UInt8, _ close: UInt8, _ fill: (inout JSONLine) -> Void) {
        separate()
        bytes.append(open)
        needsComma = false
        fill(&self)
        bytes.append(close)
        needsComma = true
    }

    private mutating func separate() {
        if needsComma { bytes.append(0x2C) }
        needsComma = true
    }

    private mutating func quote(_ text: String) {
        var text = text
        bytes.append(0x22)
        text.withUTF8 { text in
            for byte in text { if Self.isEscaped(byte) { escape(byte) } else { bytes.append(byte) } }
        }
        bytes.append(0x22)
    }

    private static func isEscaped(_ byte: UInt8) -> Bool { byte < 0x20 || byte == 0x22 || byte == 0x5C || byte == 0x7F }

    private mutating func escape(_ byte: UInt8) {
        bytes.append(0x5C)
        switch byte {
        case 0x22, 0x5C: bytes.append(byte)
        case 0x0A: bytes.append(0x6E)
        default:
            bytes.append(contentsOf: "u00".utf8)
            bytes.append(Self.digit(byte >> 4))
            bytes.append(Self.digit(byte & 15))
        }
    }

    private static func digit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x57 + value }
}

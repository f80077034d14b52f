import SyncModel

/// Reads JSON text from front to back, one token at a time, without building a tree. RFC 8259.
///
/// Strict: no byte order mark, comments, trailing commas, NaN or text after the value; UTF-8 is checked.
/// Total and linear: every byte is looked at a fixed number of times, and nothing in the text traps.
///
/// `begin…` opens an object or array; `nextKey` or `nextElement` is called until it reports the end, and each value is
/// read before the next call.
package struct JSONReader {
    let bytes: UnsafeBufferPointer<UInt8>
    /// The next byte to read.
    var position = 0
    let maximumDepth: Int
    let maximumExtensionMembers: Int
    private(set) var depth = 0
    /// Whether a container was opened and nothing in it was read yet.
    private var isFirst = false
    /// Strings that have escapes are decoded here.
    let scratch = ScratchBytes()

    package init(_ bytes: UnsafeBufferPointer<UInt8>, limits: ManifestLimits) {
        self.bytes = bytes
        maximumDepth = limits.depth
        maximumExtensionMembers = limits.extensionMembers
    }

    // MARK: Structure

    /// Skips white space and returns the next byte, which stays unread; `nil` at the end.
    @inline(__always) mutating func peek() -> UInt8? {
        while position < bytes.count {
            let byte = bytes[position]
            guard byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 else { return byte }
            position += 1
        }
        return nil
    }

    package mutating func beginObject() throws(ManifestError) {
        guard peek() == 0x7B else { throw expected("an object") }
        try open()
    }

    package mutating func beginArray() throws(ManifestError) {
        guard peek() == 0x5B else { throw expected("an array") }
        try open()
    }

    /// The next key of the open object, or `nil` when it ends here.
    ///
    /// The bytes are valid until the next string is read.
    package mutating func nextKey() throws(ManifestError) -> UnsafeBufferPointer<UInt8>? {
        guard try next(closedBy: 0x7D) else { return nil }
        guard peek() == 0x22 else { throw syntax("a key in double quotes") }
        let key = try string()
        guard peek() == 0x3A else { throw syntax("“:” after a key") }
        position += 1
        return key
    }

    /// Whether the open array has one more element.
    package mutating func nextElement() throws(ManifestError) -> Bool { try next(closedBy: 0x5D) }

    /// Whether an object comes next.
    package mutating func isAtObject() -> Bool { peek() == 0x7B }

    /// Makes sure that nothing but white space follows.
    package mutating func end() throws(ManifestError) {
        if peek() != nil {
            throw ManifestError("text follows the end of the JSON value", "remove everything after the last “}”")
        }
    }

    private mutating func open() throws(ManifestError) {
        guard depth < maximumDepth else {
            throw ManifestError("more than \(maximumDepth) nested arrays and objects", "flatten the document")
        }
        depth += 1
        position += 1
        isFirst = true
    }

    @inline(__always) private mutating func next(closedBy close: UInt8) throws(ManifestError) -> Bool {
        let byte = peek()
        if byte == close {
            position += 1
            depth -= 1
            isFirst = false
            return false
        }
        if isFirst {
            isFirst = false
            return true
        }
        guard byte == 0x2C else { throw syntax(close == 0x7D ? "“,” or “}”" : "“,” or “]”") }
        position += 1
        if peek() == close { throw syntax("a value after “,”") }
        return true
    }

    // MARK: Scalars

    /// A whole number from 0 to 2⁶³ − 1. Fractions and exponents are refused, even `1.0`.
    package mutating func integer() throws(ManifestError) -> UInt64 {
        guard let first = peek() else { throw expected("an integer") }
        if first == 0x2D { throw ManifestError("a negative number", "write an integer of at least 0") }
        guard first >= 0x30, first <= 0x39 else { throw expected("an integer") }
        let start = position
        var value: UInt64 = 0
        var isTooLarge = false
        while position < bytes.count {
            let digit = bytes[position] &- 0x30
            guard digit <= 9 else { break }
            if value > (UInt64(Int64.max) - UInt64(digit)) / 10 { isTooLarge = true }
            value = value &* 10 &+ UInt64(digit)
            position += 1
        }
        if first == 0x30, position - start > 1 {
            throw ManifestError("a number that starts with 0", "write it without leading zeros")
        }
        if position < bytes.count {
            switch bytes[position] {
            case 0x2E, 0x45, 0x65: throw ManifestError("a number with a fraction or exponent", "write an integer")
            default: break
            }
        }
        if isTooLarge { throw ManifestError("a number above 9223372036854775807", "write an integer below 2^63") }
        return value
    }

    package mutating func bool() throws(ManifestError) -> Bool {
        switch peek() {
        case 0x74 where take("true"): return true
        case 0x66 where take("false"): return false
        default: throw expected("true or false")
        }
    }

    /// Takes a word of JSON, if it stands here.
    mutating func take(_ word: StaticString) -> Bool {
        let length = word.utf8CodeUnitCount
        guard bytes.count - position >= length else { return false }
        guard equals(UnsafeBufferPointer(rebasing: bytes[position..<(position + length)]), word) else { return false }
        position += length
        return true
    }

    // MARK: Faults

    /// The error for a value of another kind.
    package mutating func expected(_ what: String) -> ManifestError {
        let place = position
        defer { position = place }
        let found =
            switch peek() {
            case nil: "the end of the text"
            case 0x7B: "an object"
            case 0x5B: "an array"
            case 0x22: "a string"
            case 0x74 where take("true"), 0x66 where take("false"): "true or false"
            case 0x6E where take("null"): "null"
            case 0x2D, .some(0x30...0x39): "a number"
            default: "something that is not JSON"
            }
        return ManifestError("expected \(what), found \(found)", "write \(what) here")
    }

    mutating func syntax(_ what: String) -> ManifestError {
        let found = peek().map { quoted(CollectionOfOne($0)) } ?? "the end of the text"
        return ManifestError("not JSON: expected \(what), found \(found)", "write JSON as in RFC 8259")
    }
}

/// Whether bytes spell a word.
@inline(__always) func equals(_ bytes: UnsafeBufferPointer<UInt8>, _ word: StaticString) -> Bool {
    guard bytes.count == word.utf8CodeUnitCount else { return false }
    let letters = word.utf8Start
    for index in 0..<bytes.count where bytes[index] != letters[index] { return false }
    return true
}

extension JSONReader {
    /// Reads a string: UTF-8, with its escapes decoded.
    ///
    /// The bytes lie in the text itself, or in ``scratch`` when there are escapes; they are valid until the
    /// next string is read.
    package mutating func string() throws(ManifestError) -> UnsafeBufferPointer<UInt8> {
        guard peek() == 0x22 else { throw expected("a string") }
        position += 1
        let start = position
        while position < bytes.count {
            let byte = bytes[position]
            if byte == 0x22 {
                let text = UnsafeBufferPointer(rebasing: bytes[start..<position])
                position += 1
                return text
            }
            if byte == 0x5C { return try escapedString(from: start) }
            try step(over: byte)
        }
        throw unterminated
    }

    /// Goes past a string without decoding it.
    mutating func skipString() throws(ManifestError) {
        guard peek() == 0x22 else { throw expected("a string") }
        position += 1
        while position < bytes.count {
            let byte = bytes[position]
            switch byte {
            case 0x22:
                position += 1
                return
            case 0x5C:
                position += 1
                try appendEscape()
                scratch.removeAll()
            default: try step(over: byte)
            }
        }
        throw unterminated
    }

    /// Most **bytes** of a decoded string with escapes: no text that a manifest has a use for is as long.
    private static let longestEscaped = 1 << 20

    /// The rest of a string that has an escape at `position`.
    private mutating func escapedString(from start: Int) throws(ManifestError) -> UnsafeBufferPointer<UInt8> {
        scratch.removeAll()
        scratch.append(UnsafeBufferPointer(rebasing: bytes[start..<position].prefix(Self.longestEscaped)))
        while position < bytes.count {
            guard scratch.contents.count < Self.longestEscaped else {
                throw ManifestError("a string of more than \(Self.longestEscaped) bytes", "shorten it")
            }
            let byte = bytes[position]
            switch byte {
            case 0x22:
                position += 1
                return scratch.contents
            case 0x5C:
                position += 1
                try appendEscape()
            default:
                let first = position
                try step(over: byte)
                scratch.append(UnsafeBufferPointer(rebasing: bytes[first..<position]))
            }
        }
        throw unterminated
    }

    /// Goes past one character that stands for itself.
    @inline(__always) private mutating func step(over byte: UInt8) throws(ManifestError) {
        if byte < 0x80 {
            guard byte >= 0x20 else {
                throw ManifestError("a control character inside a string", "write it as an escape, such as \\n")
            }
            position += 1
        } else {
            let length = utf8Length(bytes, at: position)
            guard length > 0 else {
                throw ManifestError("bytes that are not UTF-8 inside a string", "save the manifest as UTF-8")
            }
            position += length
        }
    }

    /// Decodes what follows a backslash.
    private mutating func appendEscape() throws(ManifestError) {
        guard position < bytes.count else { throw unterminated }
        let letter = bytes[position]
        position += 1
        switch letter {
        case 0x22, 0x5C, 0x2F: scratch.append(letter)
        case 0x62: scratch.append(0x08)
        case 0x66: scratch.append(0x0C)
        case 0x6E: scratch.append(0x0A)
        case 0x72: scratch.append(0x0D)
        case 0x74: scratch.append(0x09)
        case 0x75:
            for unit in Unicode.UTF8.encode(try escapedScalar()) ?? Unicode.UTF8.encodedReplacementCharacter {
                scratch.append(unit)
            }
        default:
            throw ManifestError("an unknown escape in a string", "use \\\" \\\\ \\/ \\b \\f \\n \\r \\t or \\uXXXX")
        }
    }

    /// The scalar of `\uXXXX`, or of two of them that are a surrogate pair.
    private mutating func escapedScalar() throws(ManifestError) -> Unicode.Scalar {
        let high = try hexadecimalUnit()
        if let scalar = Unicode.Scalar(high) { return scalar }
        guard high < 0xDC00, take("\\u") else { throw loneSurrogate }
        let low = try hexadecimalUnit()
        guard (0xDC00...0xDFFF).contains(low),
            let scalar = Unicode.Scalar(0x10000 + (high - 0xD800) << 10 + (low - 0xDC00))
        else { throw loneSurrogate }
        return scalar
    }

    private mutating func hexadecimalUnit() throws(ManifestError) -> UInt32 {
        guard bytes.count - position >= 4 else { throw unterminated }
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard let digit = hexadecimalValue(bytes[position]) else {
                throw ManifestError("a broken \\u escape in a string", "write four hexadecimal digits after \\u")
            }
            value = value << 4 | UInt32(digit)
            position += 1
        }
        return value
    }

    private var unterminated: ManifestError {
        ManifestError("the text ends inside a string", "fetch or write the manifest again, whole")
    }

    private var loneSurrogate: ManifestError {
        ManifestError("half a surrogate pair in a string", "write both halves, or the character itself")
    }
}

/// The length in **bytes** of the well-formed UTF-8 sequence at `index`, or 0. RFC 3629 section 4.
func utf8Length(_ bytes: UnsafeBufferPointer<UInt8>, at index: Int) -> Int {
    func continues(_ step: Int, _ range: ClosedRange<UInt8> = 0x80...0xBF) -> Bool {
        index + step < bytes.count && range.contains(bytes[index + step])
    }
    switch bytes[index] {
    case 0x00...0x7F: return 1
    case 0xC2...0xDF: return continues(1) ? 2 : 0
    case 0xE0: return continues(1, 0xA0...0xBF) && continues(2) ? 3 : 0
    case 0xED: return continues(1, 0x80...0x9F) && continues(2) ? 3 : 0
    case 0xE1...0xEF: return continues(1) && continues(2) ? 3 : 0
    case 0xF0: return continues(1, 0x90...0xBF) && continues(2) && continues(3) ? 4 : 0
    case 0xF1...0xF3: return continues(1) && continues(2) && continues(3) ? 4 : 0
    case 0xF4: return continues(1, 0x80...0x8F) && continues(2) && continues(3) ? 4 : 0
    default: return 0
    }
}

/// A growing run of bytes whose address stays the same until it grows.
final class ScratchBytes {
    private var base = UnsafeMutablePointer<UInt8>.allocate(capacity: 256)
    private var capacity = 256
    private var count = 0

    deinit { base.deallocate() }

    var contents: UnsafeBufferPointer<UInt8> { UnsafeBufferPointer(start: base, count: count) }

    func removeAll() { count = 0 }

    func append(_ byte: UInt8) {
        reserve(1)
        base[count] = byte
        count += 1
    }

    func append(_ bytes: UnsafeBufferPointer<UInt8>) {
        guard let source = bytes.baseAddress else { return }
        reserve(bytes.count)
        (base + count).update(from: source, count: bytes.count)
        count += bytes.count
    }

    /// Makes room; doubling keeps the whole linear.
    private func reserve(_ more: Int) {
        guard count + more > capacity else { return }
        let larger = max(capacity * 2, count + more)
        let fresh = UnsafeMutablePointer<UInt8>.allocate(capacity: larger)
        fresh.update(from: base, count: count)
        base.deallocate()
        base = fresh
        capacity = larger
    }
}

extension JSONReader {
    /// Skips one value of any kind, which must be well-formed, without duplicate keys, and not too deep.
    ///
    /// Recursion is bounded by ``maximumDepth``.
    package mutating func skipValue() throws(ManifestError) {
        switch peek() {
        case 0x22: try skipString()
        case 0x7B: try skipObject()
        case 0x5B:
            try beginArray()
            while try nextElement() { try skipValue() }
        case 0x2D, .some(0x30...0x39): try skipNumber()
        case 0x74 where take("true"): break
        case 0x66 where take("false"): break
        case 0x6E where take("null"): break
        default: throw syntax("a value")
        }
    }

    private mutating func skipObject() throws(ManifestError) {
        try beginObject()
        var seen: Set<[UInt8]> = []
        while let key = try nextKey() {
            try insert(key, into: &seen)
            try skipValue()
        }
    }

    /// Most **bytes** of a key under `x-`: all keys of an object are kept while it is read.
    private static let longestKey = 4_096

    /// Notes a key; refuses one that was noted before, and too many.
    func insert(_ key: UnsafeBufferPointer<UInt8>, into seen: inout Set<[UInt8]>) throws(ManifestError) {
        guard seen.count < maximumExtensionMembers else {
            throw ManifestError("more than \(maximumExtensionMembers) extension keys in one object", "use fewer")
        }
        guard key.count <= Self.longestKey else {
            throw ManifestError("a key of more than \(Self.longestKey) bytes", "shorten it")
        }
        guard seen.insert(Array(key)).inserted else { throw duplicateKey(key) }
    }

    /// The error for a key that appears twice in one object: two readers could see two documents.
    func duplicateKey(_ key: some Collection<UInt8>) -> ManifestError {
        ManifestError("the key \(quoted(key)) appears twice in one object", "keep one of them")
    }

    private mutating func skipNumber() throws(ManifestError) {
        if bytes[position] == 0x2D { position += 1 }
        let start = position
        let whole = skipDigits()
        guard whole > 0 else { throw syntax("a digit") }
        if whole > 1, bytes[start] == 0x30 { throw syntax("a number without leading zeros") }
        if position < bytes.count, bytes[position] == 0x2E {
            position += 1
            guard skipDigits() > 0 else { throw syntax("a digit after “.”") }
        }
        if position < bytes.count, bytes[position] | 0x20 == 0x65 {
            position += 1
            if position < bytes.count, bytes[position] == 0x2B || bytes[position] == 0x2D { position += 1 }
            guard skipDigits() > 0 else { throw syntax("a digit in the exponent") }
        }
    }

    private mutating func skipDigits() -> Int {
        let start = position
        while position < bytes.count, bytes[position] &- 0x30 <= 9 { position += 1 }
        return position - start
    }
}

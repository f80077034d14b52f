/// Reads JSON text from front to back, one token at a time, without building a tree. RFC 8259.
///
/// Strict (V41): no byte order mark, comments, trailing commas, NaN or text after the value; UTF-8 is checked.
/// Total and linear (V49): every byte is looked at a fixed number of times, and nothing in the text traps.
///
/// `begin…` opens an object or array; `nextKey` or `nextElement` is called until it says that it has ended,
/// and each value is read before the next call.
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
    @inline(__always)
    mutating func peek() -> UInt8? {
        while position < bytes.count {
            let byte = bytes[position]
            guard byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 else { return byte }
            position += 1
        }
        return nil
    }

    package mutating func beginObject() throws(ManifestFault) {
        guard peek() == 0x7B else { throw expected("an object") }
        try open()
    }

    package mutating func beginArray() throws(ManifestFault) {
        guard peek() == 0x5B else { throw expected("an array") }
        try open()
    }

    /// The next key of the open object, or `nil` when it ends here.
    ///
    /// The bytes are valid until the next string is read.
    package mutating func nextKey() throws(ManifestFault) -> UnsafeBufferPointer<UInt8>? {
        guard try next(closedBy: 0x7D) else { return nil }
        guard peek() == 0x22 else { throw syntax("a key in double quotes") }
        let key = try string()
        guard peek() == 0x3A else { throw syntax("“:” after a key") }
        position += 1
        return key
    }

    /// Whether the open array has one more element.
    package mutating func nextElement() throws(ManifestFault) -> Bool { try next(closedBy: 0x5D) }

    /// Makes sure that nothing but white space follows.
    package mutating func end() throws(ManifestFault) {
        if peek() != nil {
            throw ManifestFault(
                "text follows the end of the JSON value",
                "remove everything after the last “}”"
            )
        }
    }

    private mutating func open() throws(ManifestFault) {
        guard depth < maximumDepth else {
            throw ManifestFault("more than \(maximumDepth) nested arrays and objects", "flatten the document")
        }
        depth += 1
        position += 1
        isFirst = true
    }

    @inline(__always)
    private mutating func next(closedBy close: UInt8) throws(ManifestFault) -> Bool {
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

    /// A whole number from 0 to 2⁶³ − 1 (V47, F109). Fractions and exponents are refused, even `1.0`.
    package mutating func integer() throws(ManifestFault) -> UInt64 {
        guard let first = peek() else { throw expected("an integer") }
        if first == 0x2D { throw ManifestFault("a negative number", "write an integer of at least 0") }
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
            throw ManifestFault("a number that starts with 0", "write it without leading zeros")
        }
        if position < bytes.count {
            switch bytes[position] {
            case 0x2E, 0x45, 0x65:
                throw ManifestFault("a number with a fraction or exponent", "write an integer")
            default: break
            }
        }
        if isTooLarge {
            throw ManifestFault("a number above 9223372036854775807", "write an integer below 2^63")
        }
        return value
    }

    package mutating func bool() throws(ManifestFault) -> Bool {
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
        guard equals(UnsafeBufferPointer(rebasing: bytes[position..<(position + length)]), word) else {
            return false
        }
        position += length
        return true
    }

    // MARK: Faults

    /// Another kind of value was wanted.
    package mutating func expected(_ what: String) -> ManifestFault {
        let found =
            switch peek() {
            case nil: "the end of the text"
            case 0x7B: "an object"
            case 0x5B: "an array"
            case 0x22: "a string"
            case 0x74, 0x66: "true or false"
            case 0x6E: "null"
            case 0x2D, .some(0x30...0x39): "a number"
            default: "something that is not JSON"
            }
        return ManifestFault("expected \(what), found \(found)", "write \(what) here")
    }

    /// Not JSON at all.
    mutating func syntax(_ what: String) -> ManifestFault {
        let found = peek().map { quoted(CollectionOfOne($0)) } ?? "the end of the text"
        return ManifestFault("not JSON: expected \(what), found \(found)", "write JSON as in RFC 8259")
    }
}

/// Whether bytes spell a word.
@inline(__always)
func equals(_ bytes: UnsafeBufferPointer<UInt8>, _ word: StaticString) -> Bool {
    guard bytes.count == word.utf8CodeUnitCount else { return false }
    let letters = word.utf8Start
    for index in 0..<bytes.count where bytes[index] != letters[index] { return false }
    return true
}

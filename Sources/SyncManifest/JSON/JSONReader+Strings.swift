extension JSONReader {
    /// Reads a string: UTF-8, with its escapes decoded.
    ///
    /// The bytes lie in the text itself, or in ``scratch`` when there are escapes; they are valid until the
    /// next string is read.
    package mutating func string() throws(ManifestFault) -> UnsafeBufferPointer<UInt8> {
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
    mutating func skipString() throws(ManifestFault) {
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
    private mutating func escapedString(from start: Int) throws(ManifestFault) -> UnsafeBufferPointer<UInt8> {
        scratch.removeAll()
        scratch.append(UnsafeBufferPointer(rebasing: bytes[start..<position].prefix(Self.longestEscaped)))
        while position < bytes.count {
            guard scratch.contents.count < Self.longestEscaped else {
                throw ManifestFault("a string of more than \(Self.longestEscaped) bytes", "shorten it")
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
    @inline(__always)
    private mutating func step(over byte: UInt8) throws(ManifestFault) {
        if byte < 0x80 {
            guard byte >= 0x20 else {
                throw ManifestFault(
                    "a control character inside a string",
                    "write it as an escape, such as \\n"
                )
            }
            position += 1
        } else {
            let length = utf8Length(bytes, at: position)
            guard length > 0 else {
                throw ManifestFault("bytes that are not UTF-8 inside a string", "save the manifest as UTF-8")
            }
            position += length
        }
    }

    /// Decodes what follows a backslash.
    private mutating func appendEscape() throws(ManifestFault) {
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
            throw ManifestFault(
                "an unknown escape in a string",
                "use \\\" \\\\ \\/ \\b \\f \\n \\r \\t or \\uXXXX"
            )
        }
    }

    /// The scalar of `\uXXXX`, or of two of them that are a surrogate pair.
    private mutating func escapedScalar() throws(ManifestFault) -> Unicode.Scalar {
        let high = try hexadecimalUnit()
        if let scalar = Unicode.Scalar(high) { return scalar }
        guard high < 0xDC00, take("\\u") else { throw loneSurrogate }
        let low = try hexadecimalUnit()
        guard (0xDC00...0xDFFF).contains(low),
            let scalar = Unicode.Scalar(0x10000 + (high - 0xD800) << 10 + (low - 0xDC00))
        else { throw loneSurrogate }
        return scalar
    }

    private mutating func hexadecimalUnit() throws(ManifestFault) -> UInt32 {
        guard bytes.count - position >= 4 else { throw unterminated }
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard let digit = hexadecimalValue(bytes[position]) else {
                throw ManifestFault(
                    "a broken \\u escape in a string",
                    "write four hexadecimal digits after \\u"
                )
            }
            value = value << 4 | UInt32(digit)
            position += 1
        }
        return value
    }

    private var unterminated: ManifestFault {
        ManifestFault("the text ends inside a string", "fetch or write the manifest again, whole")
    }

    private var loneSurrogate: ManifestFault {
        ManifestFault("half a surrogate pair in a string", "write both halves, or the character itself")
    }
}

/// The value of a hexadecimal digit of either case.
@inline(__always)
func hexadecimalValue(_ digit: UInt8) -> UInt8? {
    switch digit {
    case 0x30...0x39: digit - 0x30
    case 0x61...0x66: digit - 0x61 + 10
    case 0x41...0x46: digit - 0x41 + 10
    default: nil
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

extension JSONReader {
    /// Reads one value of any kind and forgets it: well-formed, without duplicate keys, not too deep.
    ///
    /// Recursion is bounded by ``maximumDepth``.
    package mutating func skipValue() throws(ManifestFault) {
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

    private mutating func skipObject() throws(ManifestFault) {
        try beginObject()
        var seen: Set<[UInt8]> = []
        while let key = try nextKey() {
            try insert(key, into: &seen)
            try skipValue()
        }
    }

    /// Most **bytes** of a key under `x-`: all keys of an object are kept while it is read.
    private static let longestKey = 4_096

    /// Notes a key that was seen; refuses the second time, and too many.
    func insert(_ key: UnsafeBufferPointer<UInt8>, into seen: inout Set<[UInt8]>) throws(ManifestFault) {
        guard seen.count < maximumExtensionMembers else {
            throw ManifestFault(
                "more than \(maximumExtensionMembers) extension keys in one object",
                "use fewer"
            )
        }
        guard key.count <= Self.longestKey else {
            throw ManifestFault("a key of more than \(Self.longestKey) bytes", "shorten it")
        }
        guard seen.insert(Array(key)).inserted else { throw duplicateKey(key) }
    }

    /// The same key twice in one object: two readers could see two documents (V41).
    func duplicateKey(_ key: some Collection<UInt8>) -> ManifestFault {
        ManifestFault("the key \(quoted(key)) appears twice in one object", "keep one of them")
    }

    private mutating func skipNumber() throws(ManifestFault) {
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

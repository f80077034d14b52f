/// A SHA-256 digest: **32 bytes** in four words, so that it is `Hashable` and needs no heap.
public struct SHA256Digest: Hashable, Sendable {
    private let w0, w1, w2, w3: UInt64

    /// The digest's length in **bytes**. FIPS 180-4.
    public static let byteCount = 32

    /// Takes the 32 bytes of a finished hash; `nil` for any other length.
    public init?(bytes: UnsafeRawBufferPointer) {
        guard bytes.count == Self.byteCount else { return nil }
        func word(_ index: Int) -> UInt64 {
            UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: index * 8, as: UInt64.self))
        }
        (w0, w1, w2, w3) = (word(0), word(1), word(2), word(3))
    }

    /// All zero bits: not the digest of any known data, for places that need a value.
    public static let zero = SHA256Digest(0, 0, 0, 0)

    /// SHA-256 of no bytes. FIPS 180-4.
    public static let ofNothing = SHA256Digest(
        0xE3B0_C442_98FC_1C14, 0x9AFB_F4C8_996F_B924, 0x27AE_41E4_649B_934C, 0xA495_991B_7852_B855)

    private init(_ w0: UInt64, _ w1: UInt64, _ w2: UInt64, _ w3: UInt64) {
        (self.w0, self.w1, self.w2, self.w3) = (w0, w1, w2, w3)
    }

    /// Parses 64 hexadecimal digits of either case in place; `nil` for anything else.
    public init?(hex: UnsafeBufferPointer<UInt8>) {
        guard hex.count == 64 else { return nil }
        func word(_ start: Int) -> UInt64? {
            var value: UInt64 = 0
            var bad: UInt8 = 0
            for index in start..<(start + 16) {
                let digit = Self.hexValues[Int(hex[index])]
                bad |= digit
                value = value << 4 | UInt64(digit & 15)
            }
            return bad < 16 ? value : nil
        }
        guard let a = word(0), let b = word(16), let c = word(32), let d = word(48) else { return nil }
        (w0, w1, w2, w3) = (a, b, c, d)
    }

    /// The value of every byte as a hexadecimal digit; 255 if it is not one.
    private static let hexValues = (UInt8.min...UInt8.max).map { hexadecimalValue($0) ?? 255 }

    /// Parses 64 hexadecimal digits of either case; `nil` for anything else.
    public init?(hex: some Collection<UInt8>) {
        guard hex.count == 64, let read = Array(hex).withUnsafeBufferPointer({ SHA256Digest(hex: $0) }) else {
            return nil
        }
        self = read
    }

    /// Parses 64 hexadecimal digits of either case; `nil` for anything else.
    public init?(hex: String) { self.init(hex: hex.utf8) }

    /// 64 lower-case hexadecimal digits, as in the manifest.
    public var hex: String {
        String(unsafeUninitializedCapacity: 64) { buffer in
            writeHex { buffer[$0] = $1 }
            return 64
        }
    }

    /// Calls `put` with each position 0..<64 and its lower-case hexadecimal digit.
    @inlinable public func writeHex(_ put: (_ position: Int, _ digit: UInt8) -> Void) {
        for index in 0..<32 {
            let byte = self[byte: index]
            put(index * 2, Self.hexDigit(byte >> 4))
            put(index * 2 + 1, Self.hexDigit(byte & 15))
        }
    }

    /// The digest's byte at `index`, 0..<32.
    public subscript(byte index: Int) -> UInt8 {
        let word =
            switch index >> 3 {
            case 0: w0
            case 1: w1
            case 2: w2
            default: w3
            }
        return UInt8(truncatingIfNeeded: word >> UInt64((7 - index & 7) * 8))
    }

    /// The first 8 bytes, for tables that tolerate collisions.
    public var firstWord: UInt64 { w0 }

    /// The first 16 bytes, with zeros behind them. To find two contents that have these in common takes some 2⁶⁴
    /// attempts, and one like a given other some 2¹²⁸.
    package var head: SHA256Digest { SHA256Digest(w0, w1, 0, 0) }

    /// Whether this is a ``head``, so that the rest of the digest is unknown: no known digest ends with 16 zero bytes.
    package var isHead: Bool { w2 == 0 && w3 == 0 }

    /// Whether both are the same, as far as both are known.
    package func agrees(with other: SHA256Digest) -> Bool {
        self == other || (isHead || other.isHead) && head == other.head
    }

    /// Writes the 32 bytes to `target`, which must have room for them.
    public func store(to target: UnsafeMutableRawPointer) {
        target.storeBytes(of: w0.bigEndian, toByteOffset: 0, as: UInt64.self)
        target.storeBytes(of: w1.bigEndian, toByteOffset: 8, as: UInt64.self)
        target.storeBytes(of: w2.bigEndian, toByteOffset: 16, as: UInt64.self)
        target.storeBytes(of: w3.bigEndian, toByteOffset: 24, as: UInt64.self)
    }

    @usableFromInline static func hexDigit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x57 + value }
}

extension SHA256Digest: CustomStringConvertible {
    /// The digest in hexadecimal.
    public var description: String { hex }
}

extension SHA256Digest: Comparable {
    /// Byte order, as of the hexadecimal text.
    public static func < (a: SHA256Digest, b: SHA256Digest) -> Bool {
        (a.w0, a.w1, a.w2, a.w3) < (b.w0, b.w1, b.w2, b.w3)
    }
}

extension SHA256Digest: Codable {
    /// Reads 64 hexadecimal digits.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let digest = SHA256Digest(hex: try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not 64 hexadecimal digits")
        }
        self = digest
    }

    /// Writes 64 hexadecimal digits.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(hex)
    }
}

/// Permission bits that new files and directories do not get. umask(2)
///
/// A process has one, but an agent works for many clients: each run has its own, that of its requester.
public struct Umask: Sendable, Hashable, Codable, CustomStringConvertible {
    /// 0...0o777.
    public let bits: UInt16

    /// Keeps only permission bits.
    public init(bits: UInt16) { self.bits = bits & 0o777 }

    /// Parses one to four octal digits, such as `022`, as umask(1) accepts and prints them.
    ///
    /// - Returns: `nil` for other text, and for bits other than permissions.
    public init?(_ text: some StringProtocol) {
        guard (1...4).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x37).contains($0) }),
            let bits = UInt16(text, radix: 8), bits <= 0o777
        else { return nil }
        self.bits = bits
    }

    /// Three octal digits.
    public var description: String { FileTraits.text(mode: bits) }

    /// Decodes a string of octal digits.
    public init(from decoder: any Decoder) throws {
        let value = try decoder.singleValueContainer()
        guard let found = Umask(try value.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(
                in: value, debugDescription: "not one to three octal digits, such as \"022\"")
        }
        self = found
    }

    /// Encodes three octal digits as a string.
    public func encode(to encoder: any Encoder) throws {
        var value = encoder.singleValueContainer()
        try value.encode(description)
    }
}

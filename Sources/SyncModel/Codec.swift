/// How a blob's stored bytes become its raw bytes.
public enum Codec: UInt8, Sendable, CaseIterable {
    /// Stored as they are.
    case identity = 0
    /// One zstd frame. RFC 8878.
    case zstd = 1
    /// One zstd frame that was made with the manifest's dictionary. RFC 8878 section 5.
    case zstdDictionary = 2

    /// The name in a manifest.
    package var word: StaticString {
        switch self {
        case .identity: "none"
        case .zstd: "zstd"
        case .zstdDictionary: "zstd-dictionary"
        }
    }

    /// The same as text.
    public var name: String { "\(word)" }

    /// All of them, the most frequent first.
    package static let byUse = [zstd, identity, zstdDictionary]

    /// The codec a manifest names, or `nil`.
    public init?(name: String) {
        guard let codec = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = codec
    }

    /// Whether stored bytes must be decoded.
    package var isCompressed: Bool { self != .identity }

    /// Whether it takes the manifest's dictionary to decode.
    package var needsDictionary: Bool { self == .zstdDictionary }

    /// The most raw **bytes** that a stored byte can give.
    package var highestRatio: UInt64 {
        switch self {
        case .identity: 1
        // The smallest block has 4 bytes, the largest gives 128 KiB. RFC 8878 section 3.1.1.2.
        case .zstd, .zstdDictionary: (128 << 10) / 4
        }
    }

    /// What parts of manifests and dictionaries are stored as where that is shorter.
    package static let ofParts = zstd
}

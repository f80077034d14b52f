/// The encoding of a blob's stored bytes.
public enum Codec: UInt8, Sendable, CaseIterable {
    /// Stored unchanged.
    case identity = 0
    /// One zstd frame. RFC 8878.
    case zstd = 1
    /// One zstd frame made with the manifest's dictionary. RFC 8878 section 5.
    case zstdDictionary = 2

    /// The name in a manifest.
    package var word: StaticString {
        switch self {
        case .identity: "none"
        case .zstd: "zstd"
        case .zstdDictionary: "zstd-dictionary"
        }
    }

    /// The name in a manifest, as text.
    public var name: String { "\(word)" }

    /// All codecs, the most frequent first.
    package static let byUse = [zstd, identity, zstdDictionary]

    /// The codec with a name in a manifest; `nil` if unknown.
    public init?(name: String) {
        guard let codec = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = codec
    }

    /// Whether stored bytes must be decoded.
    package var isCompressed: Bool { self != .identity }

    /// Whether decoding requires the manifest's dictionary.
    package var needsDictionary: Bool { self == .zstdDictionary }

    /// The most raw **bytes** per stored byte.
    package var highestRatio: UInt64 {
        switch self {
        case .identity: 1
        // The smallest block has 4 bytes, the largest yields 128 KiB. RFC 8878 section 3.1.1.2.
        case .zstd, .zstdDictionary: (128 << 10) / 4
        }
    }

    /// The codec for parts of manifests and dictionaries, where it makes them smaller.
    package static let ofParts = zstd
}

/// How a blob's stored bytes become its raw bytes.
public enum Codec: UInt8, Sendable, CaseIterable {
    /// Stored as they are.
    case identity = 0
    /// One zstd frame. RFC 8878.
    case zstd = 1
    /// One zstd frame that was made with the manifest's dictionary. RFC 8878 section 5.
    case zstdDictionary = 2

    /// The name in a manifest.
    public var name: String {
        switch self {
        case .identity: "none"
        case .zstd: "zstd"
        case .zstdDictionary: "zstd-dictionary"
        }
    }

    /// The codec a manifest names, or `nil`.
    public init?(name: String) {
        guard let codec = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = codec
    }
}

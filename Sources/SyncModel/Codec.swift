/// How a blob's stored bytes become its raw bytes.
public enum Codec: UInt8, Sendable, CaseIterable {
    /// Stored as they are.
    case identity = 0
    /// One zstd frame. RFC 8878.
    case zstd = 1

    /// The name in a manifest.
    public var name: String { self == .zstd ? "zstd" : "none" }

    /// The codec a manifest names, or `nil`.
    public init?(name: String) {
        switch name {
        case "none": self = .identity
        case "zstd": self = .zstd
        default: return nil
        }
    }
}

import SyncContent
import SyncModel

/// Bytes a ``FaultServer`` has, with what a server says about them.
public struct ServedObject: Sendable {
    /// The whole content.
    public var bytes: [UInt8]
    /// `ETag` as sent, quotes included; `nil` sends none.
    public var etag: String?
    /// `Last-Modified` as sent (RFC 9110 §5.6.7); `nil` sends none.
    public var lastModified: String?
    /// `Content-Type` as sent; `nil` sends none.
    public var contentType: String?

    /// Makes an object from bytes, with a strong `ETag` made of them.
    public init(
        _ bytes: [UInt8], etag: String?, lastModified: String? = "Sun, 01 Feb 2026 10:00:00 GMT",
        contentType: String? = "application/octet-stream"
    ) {
        self.bytes = bytes
        self.etag = etag
        self.lastModified = lastModified
        self.contentType = contentType
    }

    /// Makes an object from bytes, with a strong `ETag` that equal bytes share.
    public init(_ bytes: [UInt8]) {
        self.init(bytes, etag: nil)
        etag = "\"\(sha256.prefix(16))\""
    }

    /// Makes an object from text in UTF-8.
    public init(text: String, contentType: String = "text/plain; charset=utf-8") {
        self.init(Array(text.utf8))
        self.contentType = contentType
    }

    /// SHA-256 of its bytes, 64 digits; empty where there is no memory.
    public var sha256: String { (try? bytes.withUnsafeBytes { try SyncContent.sha256($0) })?.hex ?? "" }

    /// Makes `size` **bytes** that look random and are the same for the same seed.
    ///
    /// No two positions nearby look alike, so bytes put at a wrong offset are found.
    public static func patterned(size: Int, seed: UInt64 = 1) -> ServedObject {
        ServedObject(patternedBytes(size: size, seed: seed))
    }
}

/// `size` **bytes** from the generator SplitMix64 (Steele, Lea, Flood 2014): equal for equal seeds.
public func patternedBytes(size: Int, seed: UInt64) -> [UInt8] {
    [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
        var state = seed
        var position = 0
        while position < size {
            var word = nextSplitMix64(&state)
            for _ in 0..<min(8, size - position) {
                buffer[position] = UInt8(truncatingIfNeeded: word)
                word >>= 8
                position += 1
            }
        }
        count = size
    }
}

/// The next number of SplitMix64.
func nextSplitMix64(_ state: inout UInt64) -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var word = state
    word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
    word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
    return word ^ (word >> 31)
}

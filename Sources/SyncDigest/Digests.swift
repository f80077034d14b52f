package import SyncModel

/// The SHA-256 of bytes in memory.
package func sha256(_ bytes: UnsafeRawBufferPointer) throws(DigestError) -> SHA256Digest {
    var hasher = try SHA256Hasher()
    return try hasher.digest(of: bytes)
}

/// The SHA-256 of bytes in memory.
package func sha256(_ bytes: [UInt8]) throws(DigestError) -> SHA256Digest {
    try bytes.withUnsafeBufferPointer { bytes throws(DigestError) in
        try sha256(UnsafeRawBufferPointer(bytes))
    }
}

/// The SHA-256 of text in UTF-8.
package func sha256(_ text: String) throws(DigestError) -> SHA256Digest { try sha256(Array(text.utf8)) }

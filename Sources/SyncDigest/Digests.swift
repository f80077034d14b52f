package import SyncModel

/// The SHA-256 of bytes in memory.
package func sha256(_ bytes: UnsafeRawBufferPointer) throws(DigestError) -> SHA256Digest {
    var hasher = try SHA256Hasher()
    return try hasher.digest(of: bytes)
}

/// The SHA-256 of text in UTF-8.
package func sha256(_ text: String) throws(DigestError) -> SHA256Digest {
    let bytes = Array(text.utf8)
    var hasher = try SHA256Hasher()
    try unsafe(bytes, &hasher)
    return try hasher.finish()
}

private func unsafe(_ bytes: [UInt8], _ hasher: inout SHA256Hasher) throws(DigestError) {
    var failure: DigestError?
    bytes.withUnsafeBytes { buffer in
        do { try hasher.update(buffer) } catch { failure = error as? DigestError }
    }
    if let failure { throw failure }
}

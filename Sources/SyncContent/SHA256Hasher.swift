import COpenSSL
package import SyncModel

/// OpenSSL refused a call: out of memory, or SHA-256 is switched off by policy.
package struct DigestError: Error, Equatable, CustomStringConvertible {
    /// The function that failed.
    package let function: String

    package var description: String { "OpenSSL: \(function) failed; is SHA-256 allowed by openssl.cnf?" }
}

/// SHA-256 over one message after another, with one context kept for all of them.
///
/// The algorithm is fetched once for the process: `EVP_sha256()` would look it up again at each start,
/// which costs more than hashing a small file. See `EVP_MD_fetch(3)`, "Performance".
///
/// Not `Sendable`: one hasher belongs to one thread at a time.
package struct SHA256Hasher: ~Copyable {
    private let context: OpaquePointer
    private let algorithm: OpaquePointer

    /// Starts an empty message.
    package init() throws(DigestError) {
        guard let algorithm = Self.algorithm else { throw DigestError(function: "EVP_MD_fetch") }
        guard let context = EVP_MD_CTX_new() else { throw DigestError(function: "EVP_MD_CTX_new") }
        guard EVP_DigestInit_ex2(context, algorithm, nil) == 1 else {
            EVP_MD_CTX_free(context)
            throw DigestError(function: "EVP_DigestInit_ex2")
        }
        self.context = context
        self.algorithm = algorithm
    }

    deinit { EVP_MD_CTX_free(context) }

    /// Adds bytes to the message. `EVP_DigestUpdate(3)`.
    package mutating func update(_ bytes: UnsafeRawBufferPointer) throws(DigestError) {
        guard EVP_DigestUpdate(context, bytes.baseAddress, bytes.count) == 1 else {
            throw DigestError(function: "EVP_DigestUpdate")
        }
    }

    /// Ends the message and starts an empty one.
    package mutating func finish() throws(DigestError) -> SHA256Digest {
        let digest: SHA256Digest? = withUnsafeTemporaryAllocation(byteCount: 32, alignment: 8) { out in
            guard EVP_DigestFinal_ex(context, out.baseAddress, nil) == 1 else { return nil }
            return SHA256Digest(bytes: UnsafeRawBufferPointer(out))
        }
        guard let digest else { throw DigestError(function: "EVP_DigestFinal_ex") }
        try reset()
        return digest
    }

    /// Discards the message and starts an empty one.
    package mutating func reset() throws(DigestError) {
        guard EVP_DigestInit_ex2(context, algorithm, nil) == 1 else {
            throw DigestError(function: "EVP_DigestInit_ex2")
        }
    }

    /// The digest of one whole message.
    package mutating func digest(of bytes: UnsafeRawBufferPointer) throws(DigestError) -> SHA256Digest {
        try update(bytes)
        return try finish()
    }

    /// A fetched `EVP_MD` is never changed, and its reference count is atomic, so every thread may use it:
    /// `EVP_MD_fetch(3)`. Never freed: it lives as long as the process.
    nonisolated(unsafe) private static let algorithm = EVP_MD_fetch(nil, "SHA256", nil)  // Safe: immutable.
}

/// The SHA-256 of bytes in memory.
package func sha256(_ bytes: UnsafeRawBufferPointer) throws(DigestError) -> SHA256Digest {
    var hasher = try SHA256Hasher()
    return try hasher.digest(of: bytes)
}

/// The SHA-256 of bytes in memory.
package func sha256(_ bytes: [UInt8]) throws(DigestError) -> SHA256Digest {
    try bytes.withUnsafeBufferPointer { bytes throws(DigestError) in try sha256(UnsafeRawBufferPointer(bytes)) }
}

/// The SHA-256 of text in UTF-8.
package func sha256(_ text: String) throws(DigestError) -> SHA256Digest { try sha256(Array(text.utf8)) }

/// The version of the OpenSSL in use, such as `OpenSSL 3.0.17 1 Jul 2025`. OpenSSL_version(3)
package func opensslVersion() -> String { OpenSSL_version(OPENSSL_VERSION).map { String(cString: $0) } ?? "?" }

/// HMAC-SHA256, RFC 2104. EVP_Q_mac(3)
package func hmacSHA256(_ message: [UInt8], key: [UInt8]) throws(DigestError) -> [UInt8] {
    var code = [UInt8](repeating: 0, count: SHA256Digest.byteCount)
    var count = 0
    guard
        EVP_Q_mac(
            nil, "HMAC", nil, "SHA256", nil, key, key.count, message, message.count, &code, code.count, &count) != nil,
        count == code.count
    else { throw DigestError(function: "EVP_Q_mac") }
    return code
}

/// MD5 in hexadecimal, for servers that name contents by it; `nil` if a policy of openssl.cnf forbids it.
/// EVP_Q_digest(3)
package func md5(_ bytes: [UInt8]) -> String? {
    var digest = [UInt8](repeating: 0, count: 16)
    var count = digest.count
    guard EVP_Q_digest(nil, "MD5", nil, bytes, bytes.count, &digest, &count) == 1 else { return nil }
    return digest.map { padded(UInt64($0), 2, radix: 16) }.joined()
}

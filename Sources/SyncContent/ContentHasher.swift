import COpenSSL
package import SyncManifest
package import SyncModel

/// Hashes one file whose SHA-256 is unknown, together with the digest that a listing gives for it, in one pass.
///
/// Not `Sendable`: one hasher belongs to one thread at a time.
package struct ContentHasher: ~Copyable {
    private var sha256: SHA256Hasher
    /// `nil` if the listing gives no other digest.
    private let other: OpaquePointer?
    private let wanted: String

    /// - Parameters:
    ///   - check: The listing's digest and size.
    ///   - size: **Bytes** of the file; git's digests begin with it.
    package init(_ check: ContentCheck, size: UInt64) throws(DigestError) {
        let context = try Self.context(check, size: size)
        do throws(DigestError) { sha256 = try SHA256Hasher() } catch {
            EVP_MD_CTX_free(context)
            throw error
        }
        other = context
        wanted = check.digest?.hex ?? ""
    }

    /// Begins the other digest, if there is one.
    private static func context(_ check: ContentCheck, size: UInt64) throws(DigestError) -> OpaquePointer? {
        guard let algorithm = check.digest?.algorithm, algorithm != .sha256 else { return nil }
        let name =
            switch algorithm {
            case .sha256: "SHA256"
            case .sha384: "SHA384"
            case .sha512: "SHA512"
            case .gitSHA1, .sha1: "SHA1"
            case .md5: "MD5"
            }
        guard let context = EVP_MD_CTX_new() else { throw DigestError(function: "EVP_MD_CTX_new") }
        // The context keeps what it needs of the method.
        let method = EVP_MD_fetch(nil, name, nil)
        defer { EVP_MD_free(method) }
        let head = algorithm == .gitSHA1 ? Array("blob \(size)".utf8) + [0] : []
        guard method != nil, EVP_DigestInit_ex2(context, method, nil) == 1,
            EVP_DigestUpdate(context, head, head.count) == 1
        else {
            EVP_MD_CTX_free(context)
            throw DigestError(function: "EVP_DigestInit_ex2 with \(name)")
        }
        return context
    }

    deinit { EVP_MD_CTX_free(other) }

    package mutating func update(_ bytes: UnsafeRawBufferPointer) throws(DigestError) {
        try sha256.update(bytes)
        guard let other else { return }
        guard EVP_DigestUpdate(other, bytes.baseAddress, bytes.count) == 1 else {
            throw DigestError(function: "EVP_DigestUpdate")
        }
    }

    /// - Returns: The SHA-256; and the file's digest in the listing's algorithm, if it differs from the listing's.
    package mutating func finish() throws(DigestError) -> (sha256: SHA256Digest, wrong: String?) {
        let digest = try sha256.finish()
        guard let other else { return (digest, wanted.isEmpty || wanted == digest.hex ? nil : digest.hex) }
        var count: UInt32 = 0
        var bytes = [UInt8](repeating: 0, count: 64)
        guard EVP_DigestFinal_ex(other, &bytes, &count) == 1, count <= 64 else {
            throw DigestError(function: "EVP_DigestFinal_ex")
        }
        let hex = bytes.prefix(Int(count)).map { padded(UInt64($0), 2, radix: 16) }.joined()
        return (digest, hex == wanted ? nil : hex)
    }
}

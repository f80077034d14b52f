import COpenSSL
import SyncContent

// The calls into OpenSSL for signatures and key files. Each frees what it has created.

/// The error of an OpenSSL call that cannot fail with good input: no memory, or a policy of openssl.cnf.
func refusedByOpenSSL(_ function: String) -> TrustFault {
    TrustFault("OpenSSL: \(function) failed; is Ed25519 allowed by openssl.cnf?")
}

extension PublicKey {
    /// Whether an Ed25519 signature by this key is right. EVP_DigestVerify(3), RFC 8032. A key that is no point of the
    /// curve verifies nothing.
    ///
    /// - Parameter signature: 64 **bytes**; anything else is wrong.
    func hasSigned(_ message: [UInt8], _ signature: [UInt8]) -> Bool {
        guard signature.count == 64,
            let key = EVP_PKEY_new_raw_public_key_ex(nil, "ED25519", nil, bytes, bytes.count)
        else { return false }
        defer { EVP_PKEY_free(key) }
        guard let context = EVP_MD_CTX_new() else { return false }
        defer { EVP_MD_CTX_free(context) }
        return EVP_DigestVerifyInit(context, nil, nil, nil, key) == 1
            && EVP_DigestVerify(context, signature, signature.count, message, message.count) == 1
    }

    /// The public key of a seed of 32 **bytes**. EVP_PKEY_get_raw_public_key(3)
    init(ofSeed seed: [UInt8]) throws(TrustFault) {
        let key = try openSSLKey(seed)
        defer { EVP_PKEY_free(key) }
        var bytes = [UInt8](repeating: 0, count: 32)
        var length = bytes.count
        guard EVP_PKEY_get_raw_public_key(key, &bytes, &length) == 1, length == 32, let own = PublicKey(bytes: bytes)
        else { throw refusedByOpenSSL("EVP_PKEY_get_raw_public_key") }
        self = own
    }
}

extension PrivateKey {
    /// Signs a message. EVP_DigestSign(3)
    func sign(_ message: [UInt8]) throws(TrustFault) -> [UInt8] {
        let key = try openSSLKey(seed)
        defer { EVP_PKEY_free(key) }
        guard let context = EVP_MD_CTX_new() else { throw refusedByOpenSSL("EVP_MD_CTX_new") }
        defer { EVP_MD_CTX_free(context) }
        var signature = [UInt8](repeating: 0, count: 64)
        var length = signature.count
        guard EVP_DigestSignInit(context, nil, nil, nil, key) == 1,
            EVP_DigestSign(context, &signature, &length, message, message.count) == 1, length == 64
        else { throw refusedByOpenSSL("EVP_DigestSign") }
        return signature
    }
}

private func openSSLKey(_ seed: [UInt8]) throws(TrustFault) -> OpaquePointer {
    guard seed.count == 32, let key = EVP_PKEY_new_raw_private_key_ex(nil, "ED25519", nil, seed, 32) else {
        throw refusedByOpenSSL("EVP_PKEY_new_raw_private_key_ex")
    }
    return key
}

/// EVP_Q_digest(3)
///
/// - Parameter name: `SHA256` or `SHA512`.
func messageDigest(_ name: String, _ bytes: [UInt8]) throws(TrustFault) -> [UInt8] {
    var digest = [UInt8](repeating: 0, count: 64)
    var length = digest.count
    guard EVP_Q_digest(nil, name, nil, bytes, bytes.count, &digest, &length) == 1 else {
        throw refusedByOpenSSL("EVP_Q_digest")
    }
    return Array(digest.prefix(length))
}

/// Unpredictable bytes. RAND_priv_bytes(3)
func randomBytes(_ count: Int) throws(TrustFault) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    guard RAND_priv_bytes(&bytes, Int32(clamping: count)) == 1 else { throw refusedByOpenSSL("RAND_priv_bytes") }
    return bytes
}

/// A block as OpenSSH writes it: Base64 in lines of 70 characters, between a first and a last line, with a newline at
/// its end.
func armour(_ bytes: [UInt8], from begin: String, to end: String) -> String {
    var rest = base64(bytes)[...]
    var text = begin + "\n"
    while !rest.isEmpty {
        text += rest.prefix(70) + "\n"
        rest = rest.dropFirst(70)
    }
    return text + end + "\n"
}

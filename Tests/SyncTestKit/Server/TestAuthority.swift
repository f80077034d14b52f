import CLibSSL
import Synchronization

/// A certificate authority for tests: made anew in memory, trusted by nobody but those who are given its file.
public final class TestAuthority: Sendable {
    /// What a certificate says that a client looks at.
    public struct Terms: Sendable {
        /// Names it is good for: `DNS:localhost`, `IP:127.0.0.1`. `X509V3_EXT_nconf(3)`
        public var names = ["DNS:localhost", "IP:127.0.0.1"]
        /// **Seconds** from now from which it is good; below 0 is the past.
        public var notBefore = -3_600
        /// **Seconds** from now until which it is good.
        public var notAfter = 86_400

        /// Good for this machine, now.
        public init() {}

        /// Ended an hour ago.
        public static var expired: Terms {
            var terms = Terms()
            (terms.notBefore, terms.notAfter) = (-86_400, -3_600)
            return terms
        }

        /// Begins tomorrow.
        public static var notYetValid: Terms {
            var terms = Terms()
            (terms.notBefore, terms.notAfter) = (86_400, 172_800)
            return terms
        }

        /// Good for another host only.
        public static var wrongName: Terms {
            var terms = Terms()
            terms.names = ["DNS:other.example"]
            return terms
        }
    }

    /// The authority's certificate in PEM: what a client must trust.
    public var certificate: String { identity.certificate }
    private let identity: TestIdentity
    private static let made = Atomic<Int>(0)

    /// Makes an authority with a key of its own.
    public init() throws(TestKitError) {
        var terms = Terms()
        terms.names = []
        // A name of its own: clients look an issuer up by name, and would try another one's key.
        let name = "Test Authority \(Self.made.wrappingAdd(1, ordering: .relaxed).newValue)"
        identity = try makeIdentity(commonName: name, terms, signedBy: nil)
    }

    /// Signs a certificate with a key of its own, for a server or a client.
    public func issue(_ terms: Terms = Terms(), commonName: String = "localhost") throws(TestKitError) -> TestIdentity {
        try makeIdentity(commonName: commonName, terms, signedBy: identity)
    }
}

/// A certificate and its private key, both PEM. For tests only: the key is held in the open.
public struct TestIdentity: Sendable {
    /// The certificate.
    public let certificate: String
    /// The private key, PKCS #8, not encrypted.
    public let privateKey: String
}

/// Makes a key on P-256 and a certificate, signed by `issuer` or by itself. RFC 5280.
private func makeIdentity(commonName: String, _ terms: TestAuthority.Terms, signedBy issuer: TestIdentity?)
    throws(TestKitError) -> TestIdentity
{
    guard let key = sa_new_ec_key() else { throw .openSSL("EVP_EC_gen") }
    defer { EVP_PKEY_free(key) }
    guard let certificate = X509_new() else { throw .openSSL("X509_new") }
    defer { X509_free(certificate) }

    var serial: UInt64 = 0
    withUnsafeMutableBytes(of: &serial) { _ = RAND_bytes($0.baseAddress, Int32($0.count)) }
    X509_set_version(certificate, 2)
    ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1)
    X509_gmtime_adj(X509_getm_notBefore(certificate), terms.notBefore)
    X509_gmtime_adj(X509_getm_notAfter(certificate), terms.notAfter)
    X509_set_pubkey(certificate, key)
    let name = X509_get_subject_name(certificate)
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_FLAG | 1, commonName, -1, -1, 0)

    var issuerCertificate: OpaquePointer?
    var issuerKey: OpaquePointer?
    defer {
        X509_free(issuerCertificate)
        EVP_PKEY_free(issuerKey)
    }
    if let issuer {
        issuerCertificate = try readCertificate(issuer.certificate)
        issuerKey = try readKey(issuer.privateKey)
        X509_set_issuer_name(certificate, X509_get_subject_name(issuerCertificate))
    } else {
        X509_set_issuer_name(certificate, name)
    }

    var extensions = [(NID_basic_constraints, issuer == nil ? "critical,CA:TRUE" : "critical,CA:FALSE")]
    if issuer == nil { extensions.append((NID_key_usage, "critical,keyCertSign,cRLSign")) }
    if !terms.names.isEmpty { extensions.append((NID_subject_alt_name, terms.names.joined(separator: ","))) }
    for (number, value) in extensions {
        guard let made = X509V3_EXT_conf_nid(nil, nil, number, value) else {
            throw .openSSL("X509V3_EXT_conf_nid \(value)")
        }
        X509_add_ext(certificate, made, -1)
        X509_EXTENSION_free(made)
    }
    guard X509_sign(certificate, issuerKey ?? key, EVP_sha256()) > 0 else { throw .openSSL("X509_sign") }
    return TestIdentity(
        certificate: try pem { PEM_write_bio_X509($0, certificate) },
        privateKey: try pem { PEM_write_bio_PrivateKey($0, key, nil, nil, 0, nil, nil) })
}

/// The text that `write` puts into a memory BIO.
private func pem(_ write: (OpaquePointer) -> Int32) throws(TestKitError) -> String {
    guard let bio = BIO_new(BIO_s_mem()) else { throw .openSSL("BIO_new") }
    defer { BIO_free(bio) }
    var bytes: UnsafeMutablePointer<CChar>?
    guard write(bio) == 1, case let count = sa_bio_bytes(bio, &bytes), count > 0, let bytes else {
        throw .openSSL("PEM_write_bio")
    }
    return String(decoding: UnsafeRawBufferPointer(start: bytes, count: count), as: UTF8.self)
}

/// The certificate in a PEM text; the caller frees it.
func readCertificate(_ text: String) throws(TestKitError) -> OpaquePointer {
    let bio = try filledBIO(text)
    defer { BIO_free(bio) }
    guard let certificate = PEM_read_bio_X509(bio, nil, nil, nil) else { throw .openSSL("PEM_read_bio_X509") }
    return certificate
}

/// The private key in a PEM text; the caller frees it.
func readKey(_ text: String) throws(TestKitError) -> OpaquePointer {
    let bio = try filledBIO(text)
    defer { BIO_free(bio) }
    guard let key = PEM_read_bio_PrivateKey(bio, nil, nil, nil) else { throw .openSSL("PEM_read_bio_PrivateKey") }
    return key
}

/// A memory BIO with a copy of `text`: BIO_new_mem_buf(3) would keep a pointer that ends with the call.
private func filledBIO(_ text: String) throws(TestKitError) -> OpaquePointer {
    guard let bio = BIO_new(BIO_s_mem()) else { throw .openSSL("BIO_new") }
    let count = Int32(clamping: text.utf8.count)
    guard BIO_write(bio, text, count) == count else {
        BIO_free(bio)
        throw .openSSL("BIO_write")
    }
    return bio
}

extension TestKitError {
    /// The error behind OpenSSL's queue, for the call named `function`.
    static func openSSL(_ function: String) -> TestKitError {
        var text = [CChar](repeating: 0, count: 256)
        ERR_error_string_n(ERR_get_error(), &text, text.count)
        return TestKitError("\(function): \(String(decoding: text.prefix { $0 != 0 }.map(UInt8.init), as: UTF8.self))")
    }
}

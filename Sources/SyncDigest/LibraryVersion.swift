import COpenSSL

/// The version of OpenSSL that is in use, such as `OpenSSL 3.0.17 1 Jul 2025`. OpenSSL_version(3)
package func opensslVersion() -> String {
    OpenSSL_version(OPENSSL_VERSION).map { String(cString: $0) } ?? "?"
}

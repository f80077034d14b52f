import CCurl
package import SyncModel

/// Trust and identity for https.
package struct TLSConfiguration: Sendable {
    /// A PEM file of authorities to trust in place of the system's. `CURLOPT_CAINFO`.
    package var authorities: String?
    /// A PEM file with the client's certificate, shown to a transfer's original origin only. `CURLOPT_SSLCERT`.
    package var certificate: String?
    /// A PEM file with the key of ``certificate``. `CURLOPT_SSLKEY`.
    package var key: String?
    /// The minimum version: TLS 1.2 or later, as RFC 8996 requires.
    package var minimumVersion = TLSVersion.tls12

    /// The system's trust, and no client certificate.
    package init() {}
}

extension EasyHandle {
    /// Applies the configuration's trust, and its client certificate if `showsCertificate`.
    package func apply(_ tls: TLSConfiguration, showsCertificate: Bool) throws(CurlError) {
        let version = tls.minimumVersion == .tls13 ? CURL_SSLVERSION_TLSv1_3 : CURL_SSLVERSION_TLSv1_2
        try set(CURLOPT_SSLVERSION, Int(version))
        try set(CURLOPT_SSL_VERIFYPEER, 1)
        try set(CURLOPT_SSL_VERIFYHOST, 2)
        if let authorities = tls.authorities {
            try set(CURLOPT_CAINFO, authorities)
            try set(CURLOPT_CAPATH, nil)
            try set(CURLOPT_PROXY_CAINFO, authorities)
        }
        guard showsCertificate, let certificate = tls.certificate else { return }
        try set(CURLOPT_SSLCERT, certificate)
        try set(CURLOPT_SSLKEY, tls.key ?? certificate)
    }
}

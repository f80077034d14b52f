import CCurl

/// The libcurl in use.
package enum Libcurl {
    /// Initializes libcurl and checks, once per process, that it is recent enough and obeys its restrictions.
    ///
    /// - Throws: If it is too old, has no TLS, or allows protocols that are switched off.
    package static func check() throws(CurlError) { if let problem { throw CurlError(detail: problem) } }

    /// The version of libcurl, such as `7.88.1`, and that of its TLS library.
    package static var versions: (libcurl: String, tls: String) {
        guard let version = sa_curl_version()?.pointee else { return ("?", "?") }
        return (String(cString: version.version), version.ssl_version.map { String(cString: $0) } ?? "none")
    }

    private static let problem: String? = findProblem()

    /// The problem with this libcurl; `nil` for none.
    ///
    /// - Parameter restrict: Restricts a handle to http and https.
    static func findProblem(restrict: (EasyHandle) throws -> Void = { try $0.restrictProtocols() }) -> String? {
        guard sa_curl_global_init() == CURLE_OK else { return "curl_global_init failed" }
        guard let version = sa_curl_version()?.pointee else { return "curl_version_info failed" }
        if let lacking = lacking(version) { return lacking }
        // The effect of the policy is tested, not the setter. None of these URLs reaches the network.
        for url in ["file:///dev/null", "ftp://127.0.0.1:9/", "gopher://127.0.0.1:9/", "dict://127.0.0.1:9/"] {
            guard refuses(url, restrict) else {
                return "libcurl would fetch \(url) although only http and https are allowed"
            }
        }
        return nil
    }

    /// A required feature that a libcurl with this version information lacks; `nil` for none.
    static func lacking(_ version: curl_version_info_data) -> String? {
        // CURLOPT_PROTOCOLS_STR came with 7.85.0.
        guard version.version_num >= 0x075500 else {
            return "libcurl \(String(cString: version.version)) is too old; 7.85.0 or later is needed"
        }
        return version.features & CURL_VERSION_SSL != 0 ? nil : "this libcurl has no TLS"
    }

    private static func refuses(_ url: String, _ restrict: (EasyHandle) throws -> Void) -> Bool {
        do {
            let easy = try EasyHandle()
            try restrict(easy)
            try easy.set(CURLOPT_CONNECT_ONLY, 1)
            try easy.set(CURLOPT_URL, url)
            return curl_easy_perform(easy.raw) == CURLE_UNSUPPORTED_PROTOCOL
        } catch { return false }
    }
}

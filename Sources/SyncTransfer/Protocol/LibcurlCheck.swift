import CCurl
import SyncPlugins

/// Asks libcurl, once a process, whether it is what this program was written for.
enum LibcurlCheck {
    static func run() throws(TransferError) {
        if let problem { throw TransferError(code: .misuse, url: "", detail: problem) }
    }

    private static let problem: String? = findProblem()

    private static func findProblem() -> String? {
        guard sa_curl_global_init() == CURLE_OK else { return "curl_global_init failed" }
        guard let version = sa_curl_version()?.pointee else { return "curl_version_info failed" }
        // CURLOPT_PROTOCOLS_STR came with 7.85.0.
        guard version.version_num >= 0x075500 else {
            return "libcurl \(String(cString: version.version)) is too old; 7.85.0 or later is needed"
        }
        guard version.features & CURL_VERSION_SSL != 0 else { return "this libcurl has no TLS" }
        // V26: the effective policy is asked, not the setter. None of these reaches the network.
        for url in ["file:///dev/null", "ftp://127.0.0.1:9/", "gopher://127.0.0.1:9/", "dict://127.0.0.1:9/"]
        {
            guard refuses(url) else {
                return "libcurl would fetch \(url) although only http and https are allowed"
            }
        }
        return nil
    }

    private static func refuses(_ url: String) -> Bool {
        do {
            let easy = try EasyHandle()
            try easy.restrictProtocols()
            try easy.set(CURLOPT_CONNECT_ONLY, 1)
            try easy.set(CURLOPT_URL, url)
            return curl_easy_perform(easy.raw) == CURLE_UNSUPPORTED_PROTOCOL
        } catch {
            return false
        }
    }
}

extension EasyHandle {
    /// Http and https only, and redirects are never libcurl's (S80, V26).
    func restrictProtocols() throws(CurlError) {
        try set(CURLOPT_PROTOCOLS_STR, "http,https")
        try set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https")
        try set(CURLOPT_FOLLOWLOCATION, 0)
    }
}

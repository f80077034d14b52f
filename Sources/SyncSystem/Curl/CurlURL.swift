import CCurl
import SyncModel

/// Scheme, host and port: the key for credentials, policies and limits. RFC 6454.
///
/// The host is lower case, in ASCII (`xn--…`) and otherwise as written, so `host.` is another origin than `host`.
package struct Origin: Hashable, Sendable, CustomStringConvertible {
    /// `http` or `https`.
    package let scheme: String
    /// The host in lower case; an IPv6 address has its brackets.
    package let host: String
    /// The port, also if it is the default one.
    package let port: UInt16

    /// Creates an origin from parts that are already in lower case.
    package init(scheme: String, host: String, port: UInt16) {
        self.scheme = scheme
        self.host = host
        self.port = port
    }

    /// The text of an `Origin` header: a default port is left out.
    package var description: String {
        let isDefault = (scheme == "https" && port == 443) || (scheme == "http" && port == 80)
        return isDefault ? "\(scheme)://\(host)" : "\(scheme)://\(host):\(port)"
    }
}

/// Why a text is not a URL that this program requests.
package struct URLError: Error, Equatable, CustomStringConvertible {
    /// One line for people, without the URL itself.
    package let description: String

    package init(description: String) { self.description = description }
}

/// An absolute http or https URL, parsed and joined by `curl_url(3)` alone.
///
/// One parser serves both, so libcurl connects to the host that the policies here have checked.
package struct CurlURL: Hashable, Sendable {
    /// The URL as it will be requested, without fragment, its host in ASCII.
    package let text: String
    /// Scheme, host and port.
    package let origin: Origin
    /// The path; begins with `/`.
    package let path: String
    /// The query without `?`; `nil` if there is none.
    package let query: String?
}

extension CurlURL {
    /// Parses an absolute URL.
    ///
    /// - Throws: ``URLError`` for control characters, user names or passwords, other schemes, or no URL at all.
    package init(_ text: String) throws(URLError) { self = try Self.parse(text, base: nil) }

    /// Resolves a reference, such as a `Location`, against this URL. RFC 3986 §5.
    package func joined(_ reference: String) throws(URLError) -> CurlURL { try Self.parse(reference, base: text) }

    /// The URL up to and including the last `/` of the path, without query.
    package var directory: Substring {
        let end = text.firstIndex(of: "?") ?? text.endIndex
        let slash = text[..<end].lastIndex(of: "/") ?? text.startIndex
        return text[...slash]
    }

    /// Path and query, as they are sent.
    package var target: Substring {
        let authority = text.index(text.startIndex, offsetBy: origin.scheme.count + 3, limitedBy: text.endIndex)
        return text[(authority ?? text.endIndex)...].drop { $0 != "/" && $0 != "?" }
    }

    private static func parse(_ text: String, base: String?) throws(URLError) -> CurlURL {
        // No byte below 0x21 may reach a request line; libcurl encodes blanks inside the URL.
        guard text.isOneLine else { throw URLError(description: "a URL with control characters") }
        guard text.utf8.count <= maximumLength else {
            throw URLError(description: "a URL of more than \(maximumLength) bytes")
        }
        guard let handle = curl_url() else { throw URLError(description: "curl_url: out of memory") }
        defer { curl_url_cleanup(handle) }

        let flags = UInt32(CURLU_DISALLOW_USER | CURLU_URLENCODE | CURLU_NON_SUPPORT_SCHEME)
        if let base { try check(curl_url_set(handle, CURLUPART_URL, base, flags)) }
        try check(curl_url_set(handle, CURLUPART_URL, withPlainDots(text), flags))
        try check(curl_url_set(handle, CURLUPART_FRAGMENT, nil, 0))

        let scheme = try part(CURLUPART_SCHEME, of: handle, flags: 0).lowercased()
        guard scheme == "https" || scheme == "http" else {
            throw URLError(description: "the scheme \(scheme), which is neither http nor https")
        }
        let host = try part(CURLUPART_HOST, of: handle, flags: 0).lowercased()
        let portText = try part(CURLUPART_PORT, of: handle, flags: UInt32(CURLU_DEFAULT_PORT))
        guard let port = UInt16(portText), port != 0 else { throw URLError(description: "port \(portText)") }
        let path = try part(CURLUPART_PATH, of: handle, flags: 0)
        let whole = try part(CURLUPART_URL, of: handle, flags: 0)
        var query: String?
        // A `?` alone has no query.
        if whole.contains("?") { query = try? part(CURLUPART_QUERY, of: handle, flags: 0) }
        return CurlURL(text: whole, origin: Origin(scheme: scheme, host: host, port: port), path: path, query: query)
    }

    /// The text of a URL with path segments such as `%2e` and `%2e%2e` written as `.` and `..`. Servers and RFC 3986
    /// §6.2.2 do not distinguish them, and comparisons of paths must see where they lead. libcurl then resolves them.
    private static func withPlainDots(_ text: String) -> String {
        guard text.contains("%2e") || text.contains("%2E") else { return text }
        let end = text.firstIndex { $0 == "?" || $0 == "#" } ?? text.endIndex
        let steps = text[..<end].split(separator: "/", omittingEmptySubsequences: false).map { step in
            let plain = step.replacing("%2e", with: ".").replacing("%2E", with: ".")
            return plain == "." || plain == ".." ? plain[...] : step
        }
        return steps.joined(separator: "/") + text[end...]
    }

    private static func part(_ what: CURLUPart, of handle: OpaquePointer, flags: UInt32) throws(URLError) -> String {
        var text: UnsafeMutablePointer<CChar>?
        try check(sa_curl_url_get_ascii(handle, what, &text, flags))
        guard let text else { return "" }
        defer { curl_free(text) }
        return String(cString: text)
    }

    private static func check(_ code: CURLUcode) throws(URLError) {
        guard code != CURLUE_USER_NOT_ALLOWED else {
            throw URLError(description: "a user name in a URL; put it in the credentials file")
        }
        guard code == CURLUE_OK else { throw URLError(description: String(cString: curl_url_strerror(code))) }
    }

    /// Most **bytes** of a URL. Common servers and CDNs accept at most 8 to 16 KiB.
    private static let maximumLength = 16_384
}

extension String {
    /// Whether percent-decoding produces a control character, such as a line end or a NUL, that a system behind the
    /// server would take for its own.
    package var hasEncodedControl: Bool {
        let bytes = Array(utf8)
        return bytes.indices.dropLast(2).contains { index in
            guard bytes[index] == UInt8(ascii: "%"), let high = hexadecimalValue(bytes[index + 1]),
                let low = hexadecimalValue(bytes[index + 2])
            else { return false }
            return high < 2 || high == 7 && low == 15
        }
    }
}

extension CurlURL {
    /// Whether the query has a signature. Such a URL carries its own authority, and other credentials would break it.
    package var isSigned: Bool {
        guard let query else { return false }
        return query.split(separator: "&").contains { parameter in
            let name = parameter.prefix { $0 != "=" }.lowercased()
            return ["x-amz-signature", "x-goog-signature", "signature", "sig", "key-pair-id"].contains(name)
        }
    }
}

/// The URL as shown in events and errors.
package func redacted(_ url: CurlURL) -> String { SyncModel.redacted(url: url.text) }

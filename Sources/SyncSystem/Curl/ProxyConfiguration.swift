import CCurl
import SyncModel

/// A proxy and its credentials.
package struct ProxyConfiguration: Sendable {
    /// `http://host:port`, or with https or a SOCKS scheme; without user name. Empty for none.
    package var url: String
    /// The user name, sent to the proxy only.
    package var user: String?
    /// The password, sent to the proxy only.
    package var password: String?
    /// Hosts that are reached directly. `CURLOPT_NOPROXY`.
    package var exceptions: [String]

    package init(url: String, user: String? = nil, password: String? = nil, exceptions: [String] = []) {
        self.url = url
        self.user = user
        self.password = password
        self.exceptions = exceptions
    }
}

extension ProxyConfiguration {
    /// The proxy as shown to people, without user and password.
    package var named: String { "the proxy \(SyncModel.redacted(url: url))" }

    /// Whether a host is reached directly: it, a domain it is in, or a network its address is in is an exception.
    /// The forms are those of curl(1) `--noproxy`; libcurl itself gets none, so that only one place decides. A dot at
    /// the end of a domain name is ignored on both sides.
    ///
    /// - Parameter host: In lower case; an IPv6 address has its brackets.
    package func isException(_ host: String) -> Bool {
        let address = addressBytes(host)
        let host = host.hasSuffix(".") ? host.dropLast() : host[...]
        return exceptions.contains { exception in
            if exception == "*" { return true }
            var name = exception.lowercased().drop { $0 == "." }
            if let address { return isAddress(address, in: name) }
            if name.last == "." { name.removeLast() }
            return !name.isEmpty && (host == name || host.hasSuffix("." + name))
        }
    }
}

extension EasyHandle {
    /// Sends requests through a proxy, or directly.
    package func apply(_ proxy: ProxyConfiguration?) throws(CurlError) {
        try set(CURLOPT_PROXY, proxy?.url ?? "")  // Empty: not even the environment's proxy.
        try set(CURLOPT_NOPROXY, "")  // Exceptions are checked before, and the environment's are ignored.
        guard let proxy else { return }
        if let user = proxy.user {
            try set(CURLOPT_PROXYAUTH, sa_curl_auth_basic())
            try set(CURLOPT_PROXYUSERNAME, user)
            try set(CURLOPT_PROXYPASSWORD, proxy.password ?? "")
        }
    }
}

/// The 4 or 16 bytes of a literal address, with or without brackets; `nil` for anything else.
package func addressBytes(_ text: some StringProtocol) -> [UInt8]? {
    let isInBrackets = text.hasPrefix("[") && text.hasSuffix("]")
    var bytes = [UInt8](repeating: 0, count: 16)
    let count = sa_curl_address(isInBrackets ? String(text.dropFirst().dropLast()) : String(text), &bytes)
    return count > 0 ? Array(bytes[..<Int(count)]) : nil
}

/// Whether an address equals a given one, or is in a network such as `10.0.0.0/8`.
private func isAddress(_ address: [UInt8], in network: Substring) -> Bool {
    let parts = network.split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count <= 2, let own = parts.first.flatMap({ addressBytes($0) }), own.count == address.count,
        let bits = parts.count == 2 ? Int(parts[1]) : own.count * 8, (0...own.count * 8).contains(bits)
    else { return false }
    return (0..<bits).allSatisfy { (own[$0 / 8] ^ address[$0 / 8]) & (0x80 >> ($0 % 8)) == 0 }
}

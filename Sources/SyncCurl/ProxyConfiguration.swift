import CCurl

/// An HTTP proxy and what to tell it.
package struct ProxyConfiguration: Sendable {
    /// `http://host:port` or `https://host:port`, without user name.
    package var url: String
    /// Sent to the proxy only.
    package var user: String?
    /// Sent to the proxy only.
    package var password: String?
    /// Hosts that are asked directly. `CURLOPT_NOPROXY`.
    package var exceptions: [String]

    /// Makes a proxy; see the properties.
    package init(url: String, user: String? = nil, password: String? = nil, exceptions: [String] = []) {
        self.url = url
        self.user = user
        self.password = password
        self.exceptions = exceptions
    }
}

extension ProxyConfiguration {
    /// Whether a host is asked directly: it, a domain it is in, or a network its address is in is an exception.
    /// The forms are those of curl(1) `--noproxy`; libcurl itself gets none, so that only one place decides.
    ///
    /// - Parameter host: In lower case; an IPv6 address has its brackets.
    package func isException(_ host: String) -> Bool {
        let address = IPAddress(host)
        return exceptions.contains { exception in
            if exception == "*" { return true }
            let name = exception.lowercased().drop { $0 == "." }
            if let address { return IPNetwork(String(name))?.contains(address) ?? false }
            return host == name || (!name.isEmpty && host.hasSuffix("." + name))
        }
    }
}

extension EasyHandle {
    /// Asks through a proxy, or through none at all.
    package func apply(_ proxy: ProxyConfiguration?) throws(CurlError) {
        try set(CURLOPT_PROXY, proxy?.url ?? "")  // Empty: not even the environment's.
        try set(CURLOPT_NOPROXY, "")  // Exceptions have been looked at, and the environment's do not count.
        guard let proxy else { return }
        if let user = proxy.user {
            try set(CURLOPT_PROXYAUTH, sa_curl_auth_basic())
            try set(CURLOPT_PROXYUSERNAME, user)
            try set(CURLOPT_PROXYPASSWORD, proxy.password ?? "")
        }
    }
}

/// The bytes of a literal address.
private struct IPAddress: Equatable {
    let bytes: [UInt8]

    init?(_ text: String) {
        var text = text
        if text.hasPrefix("["), text.hasSuffix("]") { text = String(text.dropFirst().dropLast()) }
        var bytes = [UInt8](repeating: 0, count: 16)
        let count = Int(sa_curl_address(text, &bytes))
        guard count > 0 else { return nil }
        self.bytes = Array(bytes[..<count])
    }
}

/// An address, or a network as `10.0.0.0/8`.
private struct IPNetwork {
    let address: IPAddress
    let bits: Int

    init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count <= 2, let first = parts.first, let address = IPAddress(String(first)) else {
            return nil
        }
        let all = address.bytes.count * 8
        guard let bits = parts.count == 2 ? Int(parts[1]) : all, (0...all).contains(bits) else { return nil }
        self.address = address
        self.bits = bits
    }

    func contains(_ other: IPAddress) -> Bool {
        guard other.bytes.count == address.bytes.count else { return false }
        for bit in 0..<bits where (address.bytes[bit / 8] ^ other.bytes[bit / 8]) & (0x80 >> (bit % 8)) != 0 {
            return false
        }
        return true
    }
}

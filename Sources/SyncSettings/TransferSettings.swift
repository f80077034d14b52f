package import SyncCurl
package import SyncTransfer

/// What a person wants of transfers, from the command line, the configuration file or the environment: three values of
/// this type, put together with ``over(_:)``. Whatever is `nil` or empty was not said there.
///
/// `Codable`, so that a background run can keep what its command line said, see ``KeptSettings``. A list that is new here is
/// ``Omittable``, so that what was kept earlier can be read.
package struct TransferSettings: Sendable, Equatable, Codable {
    /// Most connections at a time, 1 to 256.
    package var connections: Int?
    /// Most connections at a time to one origin, 1 to 64.
    package var connectionsPerHost: Int?
    /// Most **bytes** a second over everything.
    package var rateLimit: UInt64?
    /// Most **bytes** of a manifest's own text, raw or compressed.
    package var manifestLimit: UInt64?
    /// Longest time of a transfer, waiting included.
    package var deadline: Duration?
    /// Longest time that servers give nothing of what they are asked for.
    package var patience: Duration?
    /// Longest time for name, TCP and TLS together.
    package var connectTimeout: Duration?
    /// Longest time without a byte.
    package var idleTimeout: Duration?
    /// Least **bytes** a second of an answer; 0 for none.
    package var speedLimit: UInt64?
    /// The time over which that is measured.
    package var speedTime: Duration?
    /// Rules as ``RewriteRule`` reads them, first match wins.
    package var rewrite: [String] = []
    /// Absolute path of a file as ``CredentialsFile`` reads it.
    package var credentialsFile: String?
    /// Header lines, or files with header lines.
    package var headers: [HeaderSetting] = []
    /// For http URLs.
    package var plainProxy: ProxySettings?
    /// For https URLs.
    package var secureProxy: ProxySettings?
    /// Hosts, domains and networks that no proxy is asked for.
    package var proxyExceptions: [String]?
    /// Absolute path of a PEM file with authorities to trust in place of the system's.
    package var authorities: String?
    /// Absolute path of a PEM file with the client's certificate.
    package var certificate: String?
    /// Absolute path of a PEM file with the certificate's key; `nil` when it is in the same file.
    package var certificateKey: String?
    /// The oldest TLS version to speak.
    package var minimumTLS: TLSConfiguration.Version?
    /// Which requests may use HTTP/2.
    package var http2: HTTP2Use?
    /// Most redirects of one request, 0 to 50.
    package var redirectLimit: Int?
    /// Hosts that a redirect may lead to by http although it came by https.
    package var downgrade = RedirectPolicy.Exemption.none
    /// Hosts that a redirect may lead to although their address is private.
    package var privateTargets = RedirectPolicy.Exemption.none

    /// Nothing said.
    package init() {}

    /// One proxy for all URLs; an empty URL is no proxy, whatever comes below.
    package mutating func setProxy(_ proxy: ProxySettings) {
        plainProxy = proxy
        secureProxy = proxy
    }

    /// These settings where they say something, `lower` elsewhere. Lists are put together, these first.
    package func over(_ lower: TransferSettings) -> TransferSettings {
        var result = self
        for row in TransferKey.all { row.merge(&result, lower) }
        return result
    }

    /// Connections that a plan counts with, 1 to 64; `nil` when nobody says a number and it adapts.
    package var plannedConnections: Int? {
        guard connections != nil || connectionsPerHost != nil else { return nil }
        return min(max(1, min(connections ?? 64, connectionsPerHost ?? 64)), 64)
    }

    /// What a run starts with when nobody says a number.
    package static let usualConnections = 8

    /// Names the settings that hold a secret themselves instead of the path of a file that does.
    package var inlineSecrets: [String] {
        var names = headers.compactMap(\.secretName).map { "the header \($0)" }
        // A query is where signatures and tokens stand.
        for (index, rule) in rewrite.enumerated() where rule.split(separator: " ").last?.contains("?") == true
        {
            names.append("rewriting rule \(index + 1)")
        }
        if plainProxy?.password != nil || secureProxy?.password != nil {
            names.append("the proxy's password")
        }
        return names
    }
}

/// A proxy and who to be there.
package struct ProxySettings: Sendable, Equatable, Codable {
    /// `http://host:port`, or with https or a SOCKS scheme; without user name. Empty for none.
    package var url: String
    /// Sent to the proxy only.
    package var user: String?
    /// Absolute path of a file whose first line is the password.
    package var passwordFile: String?
    /// The password itself, where the environment had it; never encoded.
    package var password: String?

    /// Makes a proxy; see the properties.
    package init(url: String, user: String? = nil, passwordFile: String? = nil, password: String? = nil) {
        self.url = url
        self.user = user
        self.passwordFile = passwordFile
        self.password = password
    }

    private enum CodingKeys: String, CodingKey { case url, user, passwordFile }
}

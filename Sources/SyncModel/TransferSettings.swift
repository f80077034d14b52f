/// The transfer settings of a run, from the command line, a configuration file, the environment, or the options of a
/// program that embeds a pull. Part of every ``RunRecipe``. A value that is `nil` or empty is not set.
///
/// It names files that contain secrets; a secret itself is never stored.
public struct TransferSettings: Sendable, Equatable, Codable, HasDefault {
    /// Most concurrent connections, 1...64, in a configuration file 1...256; `nil` to adapt.
    public var connections: Int?
    /// The valid range of ``connections``, except in a configuration file.
    package static let connectionsOfRun = 1...64
    /// Most concurrent connections to one origin, 1...64.
    public var connectionsPerHost: Int?
    /// Most **bytes** per second in total, at least 1.
    public var limitRate: UInt64?
    /// Largest text of a manifest in **bytes**, raw or compressed.
    public var manifestLimit: UInt64?
    /// Longest time of a transfer, including waits.
    public var deadline: Duration?
    /// Longest time in which servers send nothing that was requested.
    public var patience: Duration?
    /// Longest time for name resolution, TCP and TLS together.
    public var connectTimeout: Duration?
    /// Longest time without a byte.
    public var idleTimeout: Duration?
    /// Lowest rate of an answer in **bytes** per second; 0 for none.
    public var speedLimit: UInt64?
    /// The time over which that rate is measured.
    public var speedTime: Duration?
    /// Rules for URLs, `PREFIX REPLACEMENT` or `~EXPRESSION REPLACEMENT`; the first match wins.
    @Omittable public var rewrite: [String] = []
    /// The absolute path of a file with the credentials for each origin.
    public var credentialsFile: String?
    /// Header lines, or files with header lines, for the manifest's origin.
    @Omittable public var headers: [TransferHeader] = []
    /// For http URLs.
    public var plainProxy: ProxySettings?
    /// For https URLs.
    public var secureProxy: ProxySettings?
    /// Hosts, domains and networks for which no proxy is used.
    public var proxyExceptions: [String]?
    /// The absolute path of a PEM file with authorities to trust instead of the system's.
    public var authorities: String?
    /// The absolute path of a PEM file with the client's certificate.
    public var certificate: String?
    /// The absolute path of a PEM file with the certificate's key; `nil` if it is in the same file.
    public var certificateKey: String?
    /// The oldest permitted TLS version.
    public var tlsMinimum: TLSVersion?
    /// Which requests may use HTTP/2.
    public var http2: HTTP2Use?
    /// Most redirects of one request, 0...50.
    public var redirectLimit: Int?
    /// Hosts to which a redirect from https may lead by http.
    @Omittable public var downgrade = HostExemption.none
    /// Hosts to which a redirect may lead although their address is private.
    @Omittable public var privateTargets = HostExemption.none

    /// Sets nothing.
    public init() {}

    /// Sets one proxy for all URLs; an empty URL means no proxy, whatever is configured elsewhere.
    public mutating func setProxy(_ proxy: ProxySettings) {
        plainProxy = proxy
        secureProxy = proxy
    }
}

/// Headers to send: one line, or a file with lines, as in curl(1) `--header`.
public enum TransferHeader: Sendable, Equatable, Codable {
    /// `Name: value`.
    case line(String)
    /// The absolute path of a file with one line each.
    case file(String)

    /// Decodes a line, or `@` and a path.
    public init(from decoder: any Decoder) throws {
        let text = try decoder.singleValueContainer().decode(String.self)
        self = text.hasPrefix("@") ? .file(String(text.dropFirst())) : .line(text)
    }

    /// Encodes a line, or `@` and a path.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .line(let line): try container.encode(line)
        case .file(let path): try container.encode("@" + path)
        }
    }
}

/// A proxy with its credentials.
public struct ProxySettings: Sendable, Equatable, Codable {
    /// `http://host:port`, or with https or a SOCKS scheme; without user name. Empty for none.
    public var url: String
    /// Sent to the proxy only.
    public var user: String?
    /// The absolute path of a file whose first line is the password.
    public var passwordFile: String?
    /// The password itself, if it came from the environment; never encoded.
    package var password: String?

    private enum CodingKeys: String, CodingKey { case url, user, passwordFile }

    /// A proxy; see the properties.
    public init(url: String, user: String? = nil, passwordFile: String? = nil) {
        self.url = url
        self.user = user
        self.passwordFile = passwordFile
    }
}

/// A version of TLS.
public enum TLSVersion: String, Sendable, Codable, CaseIterable {
    case tls12 = "1.2"
    case tls13 = "1.3"
}

/// The requests that may use HTTP/2. Several TCP connections carry large ranges better than one does.
public enum HTTP2Use: String, Sendable, Codable, CaseIterable {
    /// HTTP/1.1 for everything.
    case never
    /// HTTP/2 if the server supports it, for requests without a range, except for large objects.
    case wholeObjects = "whole"
    /// HTTP/2 if the server supports it.
    case always
}

/// Hosts for which one rule about redirects is relaxed.
public enum HostExemption: Sendable, Equatable, Codable, HasDefault {
    /// Redirect targets with one of these host names, in lower case; an IPv6 address has its brackets.
    case hosts(Set<String>)
    /// Every redirect target.
    case all

    /// No host.
    public static var none: HostExemption { .hosts([]) }

    /// No host.
    public init() { self = .hosts([]) }

    /// Combines two exemptions.
    public func union(_ other: HostExemption) -> HostExemption {
        guard case .hosts(let these) = self, case .hosts(let those) = other else { return .all }
        return .hosts(these.union(those))
    }

    /// Whether `host`, in lower case, is exempt.
    public func covers(_ host: String) -> Bool {
        switch self {
        case .hosts(let hosts): hosts.contains(host)
        case .all: true
        }
    }
}

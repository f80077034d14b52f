/// How a run transfers, as people say it: on the command line, in a configuration file, in the environment, in the options of a
/// program that embeds a pull. Part of every ``RunRecipe``. Whatever is `nil` or empty was not said.
///
/// It names files with secrets; what holds a secret itself is kept nowhere.
public struct TransferSettings: Sendable, Equatable, Codable, HasDefault {
    /// The most connections at a time, 1...64, in a configuration file 1...256; `nil` to adapt.
    public var connections: Int?
    /// What ``connections`` may be, but for a configuration file.
    package static let connectionsOfRun = 1...64
    /// The most connections at a time to one origin, 1...64.
    public var connectionsPerHost: Int?
    /// The most **bytes** per second over everything, at least 1.
    public var limitRate: UInt64?
    /// The most **bytes** of a manifest's own text, raw or compressed.
    public var manifestLimit: UInt64?
    /// The longest time of a transfer, waits included.
    public var deadline: Duration?
    /// The longest time that servers send nothing of what they are asked for.
    public var patience: Duration?
    /// The longest time for name, TCP and TLS together.
    public var connectTimeout: Duration?
    /// The longest time without a byte.
    public var idleTimeout: Duration?
    /// The least **bytes** per second of an answer; 0 for none.
    public var speedLimit: UInt64?
    /// The time over which that is measured.
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
    /// Hosts, domains and networks that no proxy is asked for.
    public var proxyExceptions: [String]?
    /// The absolute path of a PEM file with authorities to trust in place of the system's.
    public var authorities: String?
    /// The absolute path of a PEM file with the client's certificate.
    public var certificate: String?
    /// The absolute path of a PEM file with the certificate's key; `nil` if it is in the same file.
    public var certificateKey: String?
    /// The oldest TLS version to speak.
    public var tlsMinimum: TLSVersion?
    /// Which requests may use HTTP/2.
    public var http2: HTTP2Use?
    /// The most redirects of one request, 0...50.
    public var redirectLimit: Int?
    /// Hosts that a redirect may lead to by http although it came by https.
    @Omittable public var downgrade = HostExemption.none
    /// Hosts that a redirect may lead to although their address is private.
    @Omittable public var privateTargets = HostExemption.none

    /// Nothing said.
    public init() {}

    /// One proxy for all URLs; an empty URL is no proxy, whatever is said elsewhere.
    public mutating func setProxy(_ proxy: ProxySettings) {
        plainProxy = proxy
        secureProxy = proxy
    }
}

/// Headers to send: one line, or a file with lines, as curl(1) `--header` takes them.
public enum TransferHeader: Sendable, Equatable, Codable {
    /// `Name: value`.
    case line(String)
    /// The absolute path of a file with one line each.
    case file(String)

    /// Reads a line, or `@` and a path.
    public init(from decoder: any Decoder) throws {
        let text = try decoder.singleValueContainer().decode(String.self)
        self = text.hasPrefix("@") ? .file(String(text.dropFirst())) : .line(text)
    }

    /// Writes a line, or `@` and a path.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .line(let line): try container.encode(line)
        case .file(let path): try container.encode("@" + path)
        }
    }
}

/// A proxy, and the credentials to use with it.
public struct ProxySettings: Sendable, Equatable, Codable {
    /// `http://host:port`, or with https or a SOCKS scheme; without user name. Empty for none.
    public var url: String
    /// Sent to the proxy only.
    public var user: String?
    /// The absolute path of a file whose first line is the password.
    public var passwordFile: String?
    /// The password itself, where the environment had it; never encoded.
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

/// Which requests may use HTTP/2. Several TCP connections carry large ranges better than one does.
public enum HTTP2Use: String, Sendable, Codable, CaseIterable {
    /// HTTP/1.1 for everything.
    case never
    /// HTTP/2 where the server speaks it, for requests without a range, except of large objects.
    case wholeObjects = "whole"
    /// HTTP/2 where the server speaks it.
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

    /// Whatever either of the two exempts.
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

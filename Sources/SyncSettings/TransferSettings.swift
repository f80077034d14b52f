package import SyncCurl
import SyncModel
import SyncPlugins
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

extension TransferSettings {
    /// Puts what these settings say into a transport's configuration, and reads the files they name.
    ///
    /// - Throws: ``SettingsError`` that names the file that cannot be used.
    package func apply(to configuration: inout TransportConfiguration) throws(SettingsError) {
        applyConnections(to: &configuration)
        if let rateLimit { configuration.rateLimit = rateLimit }
        if let deadline { configuration.resourceDeadline = deadline }
        if let connectTimeout { configuration.connectTimeout = connectTimeout }
        if let idleTimeout { configuration.idleTimeout = idleTimeout }
        if let patience {
            configuration.patience = Patience(patience)
        } else if let idleTimeout, let usual = configuration.patience {
            // Who lets a server be silent for long means it.
            configuration.patience = Patience(
                firstContact: max(usual.firstContact, idleTimeout),
                silence: max(usual.silence, idleTimeout)
            )
        }
        if let speedLimit { configuration.speedLimit = speedLimit }
        // Who lets a server be silent for long does not mean it to be cut off earlier for being slow.
        configuration.speedTime = speedTime ?? max(configuration.speedTime, configuration.idleTimeout)
        var rules: [RewriteRule] = []
        for text in rewrite {
            do throws(RewriteRule.SyntaxError) {
                rules.append(try RewriteRule(text))
            } catch {
                throw SettingsError("a rewriting rule: \(escaped(error.description))")
            }
        }
        configuration.rewriteRules = rules
        if let credentialsFile {
            do throws(CredentialsFile.Refusal) {
                configuration.credentials = try CredentialsFile.read(path: credentialsFile)
            } catch {
                throw SettingsError(escaped(error.description))
            }
        }
        configuration.headers = try headerLines()
        configuration.plainProxy = try proxy(plainProxy, configuration.credentials)
        configuration.secureProxy = try proxy(secureProxy, configuration.credentials)
        configuration.tls.authorities = authorities
        configuration.tls.certificate = certificate
        configuration.tls.key = certificateKey
        if let minimumTLS { configuration.tls.minimumVersion = minimumTLS }
        if let http2 { configuration.http2 = http2 }
        if let redirectLimit { configuration.redirects.limit = redirectLimit }
        configuration.redirects.downgrade = downgrade
        configuration.redirects.privateTargets = privateTargets
    }

    /// Without a word about it, few connections that become more where that helps; with one, never more than that.
    private func applyConnections(to configuration: inout TransportConfiguration) {
        let isSaid = connections != nil || connectionsPerHost != nil
        configuration.connections = connections ?? Self.mostConnections
        configuration.connectionsPerHost = min(
            connectionsPerHost ?? Self.mostConnectionsPerHost,
            min(configuration.connections, 64)
        )
        if !isSaid { configuration.initialConnections = Self.usualConnections }
    }

    /// Most connections where nobody says a number.
    private static let mostConnections = 64
    /// Most connections to one origin where nobody says a number: beyond it servers begin to refuse.
    private static let mostConnectionsPerHost = 32

    private func headerLines() throws(SettingsError) -> [String] {
        var lines: [String] = []
        for header in headers {
            switch header {
            case .line(let line): lines.append(line)
            case .file(let path):
                for (index, line) in try secretLines(path).enumerated() where !line.isEmpty {
                    if let problem = HeaderSetting.problem(with: line) {
                        throw SettingsError("\(escaped(path)):\(index + 1): \(problem)")
                    }
                    lines.append(line)
                }
            }
        }
        return lines
    }

    /// The proxy with its password: from the file, or else from the credentials file's section for the proxy.
    private func proxy(
        _ settings: ProxySettings?,
        _ credentials: Credentials
    ) throws(SettingsError) -> ProxyConfiguration? {
        guard let settings, !settings.url.isEmpty else { return nil }
        var proxy = ProxyConfiguration(url: settings.url, exceptions: proxyExceptions ?? [])
        proxy.user = settings.user
        proxy.password = settings.password
        if let file = settings.passwordFile {
            guard let password = try secretLines(file).first, !password.isEmpty else {
                throw SettingsError(
                    "\(escaped(file)): the first line is empty; the proxy's password belongs there"
                )
            }
            proxy.password = password
        }
        if proxy.user == nil, let origin = try? CurlURL(settings.url).origin,
            case .basic(let user, let password)? = credentials[origin]
        {
            proxy.user = user
            proxy.password = password
        }
        return proxy
    }
}

extension TransferSettings {
    /// What the environment says, as curl(1) reads it: `http_proxy` in lower case only, `https_proxy`, `all_proxy` and
    /// `no_proxy` in lower case before upper case, and OpenSSL's `SSL_CERT_FILE`.
    ///
    /// - Parameters:
    ///   - base: What a path is relative to.
    ///   - lookup: Gives a variable's value.
    /// - Throws: ``SettingsError`` that names the variable and never its value.
    package init(environment lookup: (String) -> String?, _ base: PathBase) throws(SettingsError) {
        self.init()
        func value(_ name: String) -> (name: String, text: String)? {
            lookup(name).flatMap { $0.isEmpty ? nil : (name, $0) }
        }
        func proxy(_ found: (name: String, text: String)?) throws(SettingsError) -> ProxySettings? {
            guard let found else { return nil }
            do throws(SettingsError) {
                return try SettingValue.proxy(found.text, allowsUser: true)
            } catch {
                throw SettingsError("the environment variable \(found.name): \(error)")
            }
        }
        let other = value("all_proxy") ?? value("ALL_PROXY")
        // Not HTTP_PROXY: in a CGI program that is a header of the request.
        plainProxy = try proxy(value("http_proxy") ?? other)
        secureProxy = try proxy(value("https_proxy") ?? value("HTTPS_PROXY") ?? other)
        proxyExceptions = (value("no_proxy") ?? value("NO_PROXY")).map { SettingValue.hostList($0.text) }
        if let file = value("SSL_CERT_FILE") {
            authorities = try base.absolute(file.text)
        }
    }
}

import SyncCurl
import SyncModel
import SyncPlugins
package import SyncTransfer

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

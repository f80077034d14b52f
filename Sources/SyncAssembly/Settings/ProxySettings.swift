import SyncModel
import SyncPlugins
import SyncSystem
import SyncTransfer

extension TransferKey {
    /// A proxy with its credentials: one for all URLs, or one each for http and https, as in the environment; and the
    /// hosts that are reached without a proxy.
    static let proxy = TransferKey(
        object: "proxy", keys: ["url", "user", "password_file", "exceptions"],
        read: { object, base, settings throws(SettingsError) in try readProxy(object, base, into: &settings) },
        merge: { upper, lower in
            if upper.plainProxy == nil, upper.secureProxy == nil {
                upper.plainProxy = lower.plainProxy
                upper.secureProxy = lower.secureProxy
            }
            upper.proxyExceptions = upper.proxyExceptions ?? lower.proxyExceptions
        },
        put: { said, configuration throws(SettingsError) in
            configuration.plainProxy = try said.proxy(said.plainProxy, configuration.credentials)
            configuration.secureProxy = try said.proxy(said.secureProxy, configuration.credentials)
        })

    private static func readProxy(_ object: StrictObject, _ base: PathBase, into settings: inout TransferSettings)
        throws(SettingsError)
    {
        let user = try object.text("user", "the user's name")
        let passwordFile = try object.path("password_file", base)
        if let list = try object.texts("exceptions", "hosts, domains or networks") {
            settings.proxyExceptions = list.map(\.text)
        }
        guard let node = object.node("url") else {
            for key in ["user", "password_file"] {
                guard let node = object.node(key) else { continue }
                throw object.fault(node, key, "it needs proxy.url")
            }
            return
        }
        // An empty string is a value here: no proxy, whatever the environment says.
        guard case .text(let url) = node.value else {
            throw object.fault(node, "url", "\(node.kind) was found; a URL such as \"http://proxy:3128\" is expected")
        }
        var proxy = try object.reading(node, "url", SettingValue.proxy(url))
        if let node = object.node("password_file"), user == nil {
            throw object.fault(node, "password_file", "it needs proxy.user")
        }
        proxy.user = user
        proxy.passwordFile = passwordFile
        settings.setProxy(proxy)
    }
}

extension TransferSettings {
    /// The proxy with its password: from the password file, or else from the proxy's section of the credentials file.
    fileprivate func proxy(_ settings: ProxySettings?, _ credentials: Credentials) throws(SettingsError)
        -> ProxyConfiguration?
    {
        guard let settings, !settings.url.isEmpty else { return nil }
        var proxy = ProxyConfiguration(url: settings.url, exceptions: proxyExceptions ?? [])
        proxy.user = settings.user
        proxy.password = settings.password
        if let file = settings.passwordFile {
            guard let password = try secretLines(file, "the proxy's password file").first, !password.isEmpty else {
                throw SettingsError("\(escaped(file)): the first line is empty; the proxy's password belongs there")
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
    /// The settings of the environment, as curl(1) reads it: `http_proxy` in lower case only, `https_proxy`,
    /// `all_proxy` and `no_proxy` in lower case before upper case, and OpenSSL's `SSL_CERT_FILE`.
    ///
    /// - Parameters:
    ///   - base: The base of a relative path.
    ///   - lookup: Returns a variable's value.
    /// - Throws: ``SettingsError`` that names the variable and never its value.
    package init(environment lookup: (String) -> String?, _ base: PathBase) throws(SettingsError) {
        self.init()
        func value(_ name: String) -> (name: String, text: String)? {
            lookup(name).flatMap { $0.isEmpty ? nil : (name, $0) }
        }
        func proxy(_ found: (name: String, text: String)?) throws(SettingsError) -> ProxySettings? {
            guard let found else { return nil }
            return try rethrowing(SettingValue.proxy(found.text, allowsUser: true)) { (error: SettingsError) in
                SettingsError("the environment variable \(found.name): \(error)")
            }
        }
        let other = value("all_proxy") ?? value("ALL_PROXY")
        // Not HTTP_PROXY: in a CGI program that is a header of the request.
        plainProxy = try proxy(value("http_proxy") ?? other)
        secureProxy = try proxy(value("https_proxy") ?? value("HTTPS_PROXY") ?? other)
        proxyExceptions = (value("no_proxy") ?? value("NO_PROXY")).map { SettingValue.hostList($0.text) }
        if let file = value("SSL_CERT_FILE") { authorities = try base.absolute(file.text) }
    }
}

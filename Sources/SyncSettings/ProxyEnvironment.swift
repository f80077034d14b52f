import SyncModel

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

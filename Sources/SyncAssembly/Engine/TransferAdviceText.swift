package import SyncTransfer

extension TransferAdvice {
    /// The advice as text, to follow the failure and a semicolon; it names this program's options and keys.
    ///
    /// - Parameter hasOptions: Whether the command has the options of a pull; otherwise keys of the configuration are
    ///   named.
    package func words(hasOptions: Bool = true) -> String {
        func setting(_ option: String, _ key: String) -> String {
            hasOptions ? option : "\(key) in the configuration"
        }
        func host(_ option: String, _ key: String) -> String {
            hasOptions ? "\(option) HOST" : "the host to \(setting(option, key))"
        }
        let credentials = setting("--credentials", "credentials_file")
        let authorities = setting("--cacert", "tls.ca_file")
        return switch self {
        case .nameCredentials: "it asks for credentials: \(credentials) names a file with them"
        case .renewCredentials: "are they right and still valid, and may they read this?"
        case .checkAccess: "it refuses access: are credentials missing (\(credentials)), or has a link expired?"
        case .checkUpload: "it is not there: was all of the set uploaded, and is this the newest manifest?"
        case .waitForServer: "the server is overloaded or broken; pull again later"
        case .nameProxyCredentials:
            "set proxy.user and proxy.password_file, or add a section for the proxy to the credentials file"
        case .renewProxyCredentials:
            "are proxy.user and proxy.password_file, or the proxy's section of the credentials file, right?"
        case .askProxyOwner:
            "ask whoever runs it to allow that host, or name the host with \(setting("--noproxy", "proxy.exceptions")) to go "
                + "there directly"
        case .checkProxy: "is that a proxy? \(setting("--proxy", "proxy.url")) names it"
        case .logIn: "open any page of that host in a browser, log in, and pull again"
        case .sendUncompressed: "make the server send these files uncompressed"
        case .checkVersion:
            "it has a different or incomplete version: was the upload complete, or does a cache hold an old copy?"
        case .nameAuthority: "if the authority is your own, name it with \(authorities)"
        case .isPlainHTTP: "is that a plain HTTP port? Then the URL must begin with http://, or needs another port"
        case .isTLS: "is that a TLS port? Then the URL must begin with https://"
        case .checkTLSVersion:
            "the server speaks only older versions of TLS than \(setting("--tls-min", "tls.minimum_version")) allows, by "
                + "default 1.2"
        case .installAuthorities:
            "no CA certificates can be read there: install the package ca-certificates, or name a PEM file with \(authorities)"
        case .checkKey:
            "do \(setting("--cert and --key", "tls.certificate and tls.key")) name a certificate and its own key, both PEM and "
                + "without a passphrase?"
        case .checkClock: "is this machine's clock right?"
        case .renewCertificate: "its owner has to renew it; is this machine's clock right?"
        case .allowDowngrade:
            "if that is intended, add \(host("--allow-redirect-downgrade", "redirects.allow_downgrade"))"
        case .leaveLoop:
            "it leads in a circle: are the host and the scheme, http or https, what the server calls itself?"
        case .doWithoutCookie:
            "it sets a cookie and expects it back, as a log-in or consent page does: use a URL that works without one"
        case .allowPrivateTarget:
            "if that is intended, add \(host("--allow-private-redirect", "redirects.allow_private"))"
        }
    }
}

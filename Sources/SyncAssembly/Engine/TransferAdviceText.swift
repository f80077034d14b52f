package import SyncTransfer

extension TransferAdvice {
    /// What to do, behind a semicolon after what happened: this program's options and keys by name.
    package var words: String {
        switch self {
        case .nameCredentials: "it asks for credentials: --credentials names a file with them"
        case .renewCredentials: "are those of --credentials right and still valid, and may they read this?"
        case .checkAccess: "it refuses access: are credentials missing (--credentials), or has a link expired?"
        case .checkUpload: "it is not there: was all of the set uploaded, and is this the newest manifest?"
        case .waitForServer: "the server is overloaded or broken; pull again later"
        case .nameProxyCredentials:
            "set proxy.user and proxy.password_file, or add a section for the proxy to the credentials file"
        case .renewProxyCredentials:
            "are proxy.user and proxy.password_file, or the proxy's section of the credentials file, right?"
        case .askProxyOwner:
            "ask whoever runs it to allow that host, or name the host with --noproxy to go there directly"
        case .checkProxy: "is that a proxy? --proxy names it"
        case .logIn: "open any page of that host in a browser, log in, and pull again"
        case .sendUncompressed: "make the server send these files uncompressed"
        case .checkVersion:
            "it has a different or incomplete version: was the upload complete, or does a cache hold an old copy?"
        case .nameAuthority: "if the authority is your own, name it with --cacert"
        case .isPlainHTTP: "is that a plain HTTP port? Then the URL must begin with http://, or needs another port"
        case .isTLS: "is that a TLS port? Then the URL must begin with https://"
        case .installAuthorities:
            "no CA certificates can be read there: install the package ca-certificates, or name a PEM file with --cacert"
        case .checkKey: "do --cert and --key name a certificate and its own key, both PEM and without a passphrase?"
        case .checkClock: "is this machine's clock right?"
        case .renewCertificate: "its owner has to renew it; is this machine's clock right?"
        case .allowDowngrade: "if that is intended, add --allow-redirect-downgrade HOST"
        case .leaveLoop:
            "it leads in a circle: are the host and the scheme, http or https, what the server calls itself?"
        case .doWithoutCookie:
            "it sets a cookie and expects it back, as a log-in or consent page does: use a URL that works without one"
        case .allowPrivateTarget: "if that is intended, add --allow-private-redirect HOST"
        }
    }
}

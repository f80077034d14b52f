package import SyncTransfer

extension TransferAdvice {
    /// What to do, behind a semicolon after what happened: this program's options and keys by name.
    package var words: String {
        switch self {
        case .nameCredentials: "it asks for credentials: --credentials names a file with them"
        case .checkAccess:
            "it refuses access: are credentials missing (--credentials), or has a link expired?"
        case .checkUpload:
            "it is not there: was all of the set uploaded, and is this the newest manifest?"
        case .waitForServer: "the server is overloaded or broken; pull again later"
        case .nameProxyCredentials:
            "set proxy.user and proxy.password_file, or add a section for the proxy to the credentials file"
        case .logIn: "open any page of that host in a browser, log in, and pull again"
        case .sendUncompressed: "make the server send these files uncompressed"
        case .checkVersion:
            "it has a different or incomplete version: was the upload complete, or does a cache hold an old copy?"
        case .nameAuthority: "if the authority is your own, name it with --cacert"
        case .isPlainHTTP:
            "is that a plain HTTP port? Then the URL must begin with http://, or needs another port"
        case .isTLS: "is that a TLS port? Then the URL must begin with https://"
        case .installAuthorities:
            "no CA certificates can be read there: install the package ca-certificates, or name a PEM file with --cacert"
        case .checkClock: "is this machine's clock right?"
        case .renewCertificate: "its owner has to renew it; is this machine's clock right?"
        case .allowDowngrade: "if that is intended, add --allow-redirect-downgrade HOST"
        case .allowPrivateTarget: "if that is intended, add --allow-private-redirect HOST"
        }
    }
}

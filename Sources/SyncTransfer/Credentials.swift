/// Who we are to which origin.
package struct Credentials: Sendable, Equatable {
    /// How to prove it.
    package enum Kind: Sendable, Equatable {
        /// RFC 7617.
        case basic(user: String, password: String)
        /// RFC 6750.
        case bearer(token: String)
        /// AWS Signature Version 4. `CURLOPT_AWS_SIGV4`.
        case sigV4(accessKey: String, secretKey: String, sessionToken: String?, region: String, service: String)
    }

    private var byOrigin: [Origin: Kind] = [:]

    /// Nobody.
    package init() {}

    /// What to send to exactly this origin.
    package subscript(origin: Origin) -> Kind? {
        get { byOrigin[origin] }
        set { byOrigin[origin] = newValue }
    }
}

/// Who we are to which origin.
///
/// Its description names origins only, so that no log can hold a secret (V64).
package struct Credentials: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
    /// How to prove it.
    package enum Kind: Sendable, Equatable {
        /// RFC 7617.
        case basic(user: String, password: String)
        /// RFC 6750.
        case bearer(token: String)
        /// AWS Signature Version 4. `CURLOPT_AWS_SIGV4`.
        case sigV4(
            accessKey: String,
            secretKey: String,
            sessionToken: String?,
            region: String,
            service: String
        )
    }

    private var byOrigin: [Origin: Kind] = [:]

    /// The origins, without what is sent to them.
    package var description: String { byOrigin.keys.map(\.description).sorted().joined(separator: ", ") }

    /// As ``description``.
    package var customMirror: Mirror { Mirror(self, children: ["origins": description]) }

    /// Nobody.
    package init() {}

    /// Whether there is nothing to send to anyone.
    package var isEmpty: Bool { byOrigin.isEmpty }

    /// What to send to exactly this origin.
    package subscript(origin: Origin) -> Kind? {
        get { byOrigin[origin] }
        set { byOrigin[origin] = newValue }
    }
}

extension Credentials.Kind {
    /// What a request carries besides what libcurl makes of the credentials itself.
    var headers: [String] {
        switch self {
        case .basic: []
        case .bearer(let token): ["Authorization: Bearer \(token)"]
        case .sigV4(_, _, let token, _, _):
            // S3 wants the digest of the body to be named, here of the empty one; libcurl signs both lines.
            // Amazon S3, "Authenticating Requests: Using the Authorization Header".
            ["X-Amz-Content-Sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"]
                + (token.map { ["X-Amz-Security-Token: \($0)"] } ?? [])
        }
    }
}

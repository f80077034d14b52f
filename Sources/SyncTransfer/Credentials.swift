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

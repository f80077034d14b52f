/// A request for a credential.
public struct CredentialRequest: Sendable, Hashable {
    /// Scheme, host and port, such as `https://assets.example.com:8443`; no port if it is the default one.
    public var origin: String
    /// The status with which the last credential was refused, 401 or 403; `nil` if none was.
    public var refused: Int?
    /// The `WWW-Authenticate` header of the refused request; for ``ChallengeAnswer``.
    package var challenge: String?
    /// Whether the origin has answered from a public address.
    package var isPublic = false

    /// Makes a request; see the properties.
    public init(origin: String, refused: Int? = nil) { (self.origin, self.refused) = (origin, refused) }
}

/// A credential for an origin. Its strings never contain a line end.
public struct Credential: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
    /// The authentication scheme.
    public enum Kind: Sendable, Equatable {
        /// RFC 7617.
        case basic(user: String, password: String)
        /// RFC 6750.
        case bearer(token: String)
        /// AWS Signature Version 4.
        case sigV4(accessKey: String, secretKey: String, sessionToken: String?, region: String, service: String)
        /// These headers, unchanged.
        case headers([HeaderField])
    }

    /// The authentication scheme.
    public var kind: Kind
    /// When it expires, **seconds** since 1970; `nil` if unknown.
    public var expires: Int64?

    /// Makes a credential; see the properties.
    public init(_ kind: Kind, expires: Int64? = nil) { (self.kind, self.expires) = (kind, expires) }

    /// Never the secret.
    public var description: String { "credential" }
    /// As ``description``.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Answers the challenges that servers send in `WWW-Authenticate`, for origins without any other credential.
package protocol ChallengeAnswer: CredentialProvider {
    /// Whether a challenge of this origin can be answered at all; does not block.
    func mayAnswer(_ challenge: String, of origin: String) -> Bool
}

/// Provides credentials for origins. If it fails, the request goes out without credentials, with a warning.
public protocol CredentialProvider: Sendable {
    /// Finds a credential for an origin; blocks. The caller caches the result until it expires or is refused.
    ///
    /// - Returns: `nil` if there is none for this origin.
    func credential(for request: CredentialRequest) throws(PluginError) -> Credential?
}

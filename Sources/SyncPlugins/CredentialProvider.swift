/// Who asks for a credential, and why.
public struct CredentialRequest: Sendable, Hashable {
    /// Scheme, host and port, such as `https://assets.example.com:8443`; no port when it is the scheme's own.
    public var origin: String
    /// The status with which the last credential was refused, 401 or 403; `nil` when none was.
    public var refused: Int?

    /// Makes a request; see the properties.
    public init(origin: String, refused: Int? = nil) {
        self.origin = origin
        self.refused = refused
    }
}

/// What an origin asks for to let somebody in. Its text never has a line end (V28).
public struct Credential: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
    /// How it is shown to the origin.
    public enum Kind: Sendable, Equatable {
        /// RFC 7617.
        case basic(user: String, password: String)
        /// RFC 6750.
        case bearer(token: String)
        /// AWS Signature Version 4.
        case sigV4(
            accessKey: String,
            secretKey: String,
            sessionToken: String?,
            region: String,
            service: String
        )
        /// Headers as they are.
        case headers([HeaderField])
    }

    /// How it is shown.
    public var kind: Kind
    /// When it is no longer good, **seconds** since 1970; `nil` when that is not known.
    public var expires: Int64?

    /// Makes a credential; see the properties.
    public init(_ kind: Kind, expires: Int64? = nil) {
        self.kind = kind
        self.expires = expires
    }

    /// Never the secret.
    public var description: String { "credential" }
    /// As ``description``.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Gives credentials for origins. When it fails, the request goes out without, and a warning is told.
public protocol CredentialProvider: Sendable {
    /// Finds what to show to an origin; blocks. The caller keeps the answer until it expires or is refused.
    ///
    /// - Returns: `nil` when there is nothing for this origin.
    func credential(for request: CredentialRequest) throws(PluginError) -> Credential?
}

import SyncModel
package import SyncPlugins
package import SyncSystem

/// Credentials by origin.
///
/// The description lists origins only, so that no log can hold a secret.
package struct Credentials: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
    private var byOrigin: [Origin: Credential.Kind] = [:]

    /// The origins, without their credentials.
    package var description: String { byOrigin.keys.map(\.description).sorted().joined(separator: ", ") }

    package var customMirror: Mirror { Mirror(self, children: ["origins": description]) }

    /// Whether there are no credentials at all.
    package var isEmpty: Bool { byOrigin.isEmpty }

    /// The credential for exactly this origin.
    package subscript(origin: Origin) -> Credential.Kind? {
        get { byOrigin[origin] }
        set { byOrigin[origin] = newValue }
    }
}

extension Credentials: CredentialProvider {
    /// The file's credential for exactly this origin; never fails.
    package func credential(for request: CredentialRequest) -> Credential? {
        guard request.refused == nil, let origin = (try? CurlURL(request.origin))?.origin else { return nil }
        return byOrigin[origin].map { Credential($0) }
    }
}

extension Credential.Kind {
    /// Headers to send besides those that libcurl creates from the credentials.
    var headers: [String] {
        switch self {
        case .basic: []
        case .bearer(let token): ["Authorization: Bearer \(token)"]
        case .headers(let fields): fields.map { "\($0.name): \($0.value)" }
        case .sigV4(_, _, let token, _, _):
            // S3 wants the body's digest, here of the empty body; libcurl signs both lines. Amazon S3, "Authenticating
            // Requests: Using the Authorization Header".
            ["X-Amz-Content-Sha256: \(SHA256Digest.ofNothing.hex)"]
                + (token.map { ["X-Amz-Security-Token: \($0)"] } ?? [])
        }
    }
}

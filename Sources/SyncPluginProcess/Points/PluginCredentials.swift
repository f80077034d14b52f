import SyncModel
package import SyncPlugins

/// Asks a plugin what to show to an origin: method `credential.get`.
///
/// An answer with a line end or another control character in any text is refused whole (V28).
package struct PluginCredentials: CredentialProvider {
    private let client: PluginClient

    /// Most **bytes** of any of its texts.
    private static let longest = 16 << 10

    /// Asks the plugin of this client, which was made for ``PluginPoint/credential``.
    package init(_ client: PluginClient) { self.client = client }

    package func credential(for request: CredentialRequest) throws(PluginError) -> Credential? {
        let answer = try client.call("credential.get") { line in
            line.field("origin", request.origin)
            line.field("refused", optional: request.refused)
        }
        guard let value = answer["credential"] else { throw bad("it has no 'credential'") }
        if value.isNull { return nil }
        guard let kind = try kind(value) else { throw bad("its 'kind', or what belongs to that, is missing") }
        return Credential(kind, expires: value["expires"]?.integer)
    }

    private func kind(_ value: JSONValue) throws(PluginError) -> Credential.Kind? {
        func text(_ key: String) throws(PluginError) -> String? {
            guard let text = value[key]?.string else { return nil }
            guard WireText.isOneLine(text), text.utf8.count <= Self.longest else {
                throw bad("its '\(key)' is no text of one line")
            }
            return text
        }
        switch value["kind"]?.string {
        case "basic":
            guard let user = try text("user"), let password = try text("password") else { return nil }
            // RFC 7617, section 2.
            if user.utf8.contains(UInt8(ascii: ":")) { throw bad("its 'user' has a colon") }
            return .basic(user: user, password: password)
        case "bearer": return try text("token").map { .bearer(token: $0) }
        case "sigv4":
            guard let accessKey = try text("access_key"), let secretKey = try text("secret_key"),
                let region = try text("region"), let service = try text("service")
            else { return nil }
            return .sigV4(
                accessKey: accessKey,
                secretKey: secretKey,
                sessionToken: try text("session_token"),
                region: region,
                service: service
            )
        case "headers":
            switch WireText.headers(value["headers"]) {
            case .success(let fields): return fields.isEmpty ? nil : .headers(fields)
            case .failure(let refusal): throw bad(refusal.reason)
            }
        default: return nil
        }
    }

    private func bad(_ reason: String) -> PluginError {
        client.failure(.badAnswer, "its answer is no credential: \(reason)")
    }
}

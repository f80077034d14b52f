import SyncModel
package import SyncPlugins
import SyncSystem

/// Asks a plugin for the credential for an origin: method `credential.get`.
///
/// An answer with a line end or another control character in any text is refused as a whole.
extension PluginClient: CredentialProvider {
    /// Most **bytes** of each text.
    private static let longest = 16 << 10

    package func credential(for request: CredentialRequest) throws(PluginError) -> Credential? {
        let answer = try call("credential.get") { line in
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
            guard text.isOneLine, text.utf8.count <= Self.longest else {
                throw bad("its '\(key)' is not a single line of text")
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
                accessKey: accessKey, secretKey: secretKey, sessionToken: try text("session_token"), region: region,
                service: service)
        case "headers":
            let fields = try rethrowing(value["headers"]?.headers() ?? []) { (fault: WireFault) in bad(fault.reason) }
            return fields.isEmpty ? nil : .headers(fields)
        default: return nil
        }
    }

    private func bad(_ reason: String) -> PluginError {
        failure(.badAnswer, "its answer is not a credential: \(reason)")
    }
}

/// Checks a credential provider.
///
/// - Parameters:
///   - credentials: The provider; it is asked several times.
///   - origin: An origin for which it has a credential, if there is one.
///   - now: **Seconds** since 1970.
package func check(credentials: any CredentialProvider, origin: String = "https://assets.example.com", now: Int64)
    -> [CheckResult]
{
    var book: [CheckResult] = []
    func ask(_ origin: String, refused: Int? = nil) -> Result<Credential?, PluginError> {
        Result { () throws(PluginError) in
            try credentials.credential(for: CredentialRequest(origin: origin, refused: refused))
        }
    }

    book.rule(
        "An origin gets a credential or none, without control characters",
        "A line end in a token would become a second header: strip it from the output of a command or file."
    ) { fault(of: ask(origin)) }
    book.rule(
        "An unknown origin gets none, and no error",
        "Answer null for origins that are not yours; an error is shown as a warning."
    ) {
        let result = ask("https://nobody.invalid:4711")
        if let fault = fault(of: result) { return fault }
        guard case .success(.some) = result, case .success(.none) = ask(origin) else { return nil }
        return "the unknown origin got one, and the one it is for did not"
    }
    book.rule(
        "After a refusal it is asked again, and answers",
        "If 'refused' is set, get a new token instead of the cached one; null means that there is none."
    ) { fault(of: ask(origin, refused: 401)) ?? fault(of: ask(origin, refused: 403)) }
    book.rule("A credential that has expired is not given", "Get a new one when less than a minute is left.") {
        guard case .success(.some(let credential)) = ask(origin), let expires = credential.expires, expires <= now
        else { return nil }
        return "it expired \(now.saturatingSubtract(expires)) s ago"
    }
    book.rule("Eight callers at a time all get answers", "Requests arrive before earlier ones are answered.") {
        together(8) { _ in
            fault(
                of: Result { () throws(PluginError) in
                    try credentials.credential(for: CredentialRequest(origin: origin))
                })
        }
    }
    return book
}

private func fault(of result: Result<Credential?, PluginError>) -> String? {
    switch result {
    case .failure(let error): return "it failed: \(error.message)"
    case .success(nil): return nil
    case .success(.some(let credential)):
        switch credential.kind {
        case .basic(let user, let password):
            if user.contains(":") { return "a user name with a colon (RFC 7617, section 2)" }
            return lineFault(user, "the user name") ?? lineFault(password, "the password")
        case .bearer(let token): return token.isEmpty ? "an empty token" : lineFault(token, "the token")
        case .sigV4(let access, let secret, let token, let region, let service):
            return [access, secret, region, service].contains("")
                ? "an empty key, region or service"
                : lineFault(access + secret + (token ?? "") + region + service, "a part")
        case .headers(let fields): return fields.isEmpty ? "no headers" : headerFault(fields)
        }
    }
}

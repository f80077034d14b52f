import SyncModel
package import SyncPlugins

/// Checks a credential provider.
///
/// - Parameters:
///   - credentials: Asked several times.
///   - origin: An origin that it has something for, where there is one.
///   - now: **Seconds** since 1970.
package func check(credentials: any CredentialProvider, origin: String = "https://assets.example.com", now: Int64)
    -> [CheckResult]
{
    var book = RuleBook()
    func ask(_ origin: String, refused: Int? = nil) -> Result<Credential?, PluginError> {
        attempt { () throws(PluginError) in
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
                of: attempt { () throws(PluginError) in
                    try credentials.credential(for: CredentialRequest(origin: origin))
                })
        }
    }
    return book.results
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

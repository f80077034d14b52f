import Foundation
import SyncEngine
import SyncManifest
import SyncModel
import SyncPlugins
import SyncRemotes
import SyncSystem
import SyncTransfer

/// Authenticates to registries: answers a 401 with a token from the registry's token server, or with the user's
/// password. Distribution, "Token Authentication Specification" and "OAuth2 Token Authentication".
///
/// An anonymous token is requested wherever a registry wants one; the user's login is only shown for registries that
/// the user has named, and for those of the credentials file.
final class RegistryTokens: ChallengeAnswer {
    private let logins: DockerLogins
    private let configuration: TransportConfiguration
    private let isStopped: @Sendable () -> Bool
    /// By origin: the repository that the user has named, and why there is no token; the origins that were shown a
    /// password.
    private let state = Mutex(
        (named: [String: String](), troubles: [String: (reason: String, isPassing: Bool)](), shown: Set<String>()))

    /// The name in events.
    static let name = "registry"
    /// The longest time for one token, retries included; the transport waits no longer than half a minute.
    private static let patience = Duration.seconds(25)

    /// - Parameter configuration: Has trust, proxies and the credentials file.
    init(
        _ host: HostEnvironment, _ configuration: TransportConfiguration, isStopped: @escaping @Sendable () -> Bool
    ) {
        logins = DockerLogins(host, isStopped: isStopped)
        (self.configuration, self.isStopped) = (configuration, isStopped)
    }

    /// The engine's access to registries.
    var access: RegistryAccess {
        var access = RegistryAccess()
        access.name = { [self] endpoint, repository in
            guard let origin = (try? CurlURL(endpoint))?.origin.description else { return }
            state.withLock { $0.named[origin] = repository }
        }
        access.trouble = { [self] endpoint in
            guard let origin = (try? CurlURL(endpoint))?.origin.description else { return nil }
            return state.withLock { $0.troubles[origin] }
        }
        return access
    }

    func mayAnswer(_ challenge: String, of origin: String) -> Bool {
        let isNamed = state.withLock { $0.named[origin] != nil }
        switch RegistryChallenge(challenge) {
        case .bearer(_, _, let scope): return isNamed || scope?.hasPrefix("repository:") == true
        case .basic: return isNamed
        case nil: return false
        }
    }

    func credential(for request: CredentialRequest) throws(PluginError) -> Credential? {
        let outcome = Result { () throws(PluginError) in try answer(request) }
        state.withLock { state in
            guard case .failure(let error) = outcome else {
                state.troubles[request.origin] = nil
                return
            }
            state.troubles[request.origin] = (error.message, error.code != .refused)
        }
        return try outcome.get()
    }

    private func answer(_ request: CredentialRequest) throws(PluginError) -> Credential? {
        guard let origin = (try? CurlURL(request.origin))?.origin,
            let challenge = request.challenge.flatMap(RegistryChallenge.init)
        else { return nil }
        switch challenge {
        case .basic:
            let known = try login(origin)
            guard let known, case .password(let user, let password) = known.login else { return nil }
            guard state.withLock({ $0.shown.insert(request.origin).inserted }) || request.refused == nil else {
                throw Self.error(.refused, "it refuses the user name and password of \(known.place)")
            }
            return Credential(.basic(user: user, password: password))
        case .bearer(let realm, let service, let scope):
            let named = state.withLock { $0.named[request.origin] }
            let question = Question(
                realm: try self.realm(realm, of: origin), service: service,
                scope: scope ?? named.map { "repository:\($0):pull" }, login: try login(origin),
                isPublic: request.isPublic)
            let token = try ask(question)
            // A little earlier than the token expires: requests are on their way.
            let seconds = Int64(clamping: min(token.seconds, 86_400))
            let now = configuration.clock.unixTime()
            return Credential(.bearer(token: token.token), expires: now + max(1, seconds - min(10, seconds / 5)))
        }
    }

    private static func error(_ code: PluginError.Code, _ message: String) -> PluginError {
        PluginError(plugin: name, code: code, message: message)
    }

    /// The user's login at a registry, and its source.
    private func login(_ origin: Origin) throws(PluginError) -> (login: DockerLogins.Login, place: String)? {
        if case .basic(let user, let password)? = configuration.credentials[origin] {
            return (.password(user: user, password: password), "the credentials file")
        }
        guard state.withLock({ $0.named[origin.description] != nil }) else { return nil }
        let isDefault = origin.description.hasSuffix(origin.host)
        return try logins.login(isDefault ? origin.host : "\(origin.host):\(origin.port)")
    }

    // MARK: Tokens

    private struct Question {
        let realm: CurlURL
        let service, scope: String?
        let login: (login: DockerLogins.Login, place: String)?
        /// Whether the registry has a public address: then only public addresses are asked for its token.
        let isPublic: Bool
    }

    /// The URL of the token server: over https, or on this machine for a registry on it.
    private func realm(_ text: String, of origin: Origin) throws(PluginError) -> CurlURL {
        guard let realm = try? CurlURL(text) else {
            throw Self.error(.badAnswer, "it names '\(redacted(url: text))' for tokens, which is not a URL")
        }
        let isHere = origin.isOfThisMachine && realm.origin.isOfThisMachine
        guard realm.origin.scheme == "https" || isHere && origin.scheme == "http" else {
            throw Self.error(.refused, "it sends to \(realm.origin) for tokens, which others on the way could read")
        }
        return realm
    }

    /// Asks for a token, and again where that may help.
    private func ask(_ question: Question) throws(PluginError) -> RegistryToken {
        let end = ContinuousClock.now + min(Self.patience, configuration.patience?.silence ?? Self.patience)
        var wait = Duration.milliseconds(500)
        while true {
            var asked = Duration.zero
            do throws(PluginError) { return try askOnce(question, until: end, asked: &asked) } catch {
                let next = ContinuousClock.now + max(wait, asked)
                guard error.code == .unavailable, !isStopped(), next < end else { throw error }
                while ContinuousClock.now < next, !isStopped() { pauseThread(milliseconds: 100) }
                wait = min(wait * 2, .seconds(5))
            }
        }
    }

    /// - Parameter asked: The pause that the server asks for.
    private func askOnce(_ question: Question, until end: ContinuousClock.Instant, asked: inout Duration)
        throws(PluginError) -> RegistryToken
    {
        let origin = question.realm.origin
        var fields: [(String, String)] = []
        if let service = question.service { fields.append(("service", service)) }
        var headers = ["Accept: application/json"]
        var url = question.realm.text
        var body: [UInt8]?
        switch question.login?.login {
        case .identity(let token):
            if let scope = question.scope { fields.append(("scope", scope)) }
            fields += [("grant_type", "refresh_token"), ("client_id", "syncagent"), ("refresh_token", token)]
            headers.append("Content-Type: application/x-www-form-urlencoded")
            body = Array(Self.form(fields).utf8)
        case .password(let user, let password):
            headers.append("Authorization: Basic " + Data("\(user):\(password)".utf8).base64EncodedString())
            fields.append(("account", user))
        case nil: break
        }
        if body == nil {
            // A query has a field for each scope, a form all scopes in one field.
            fields += (question.scope?.split(separator: " ") ?? []).map { ("scope", String($0)) }
        }
        if body == nil, !fields.isEmpty { url += (question.realm.query == nil ? "?" : "&") + Self.form(fields) }
        let text: [UInt8]
        switch call(url, headers, body, question, until: end) {
        case .failure(let error): throw Self.error(.unavailable, "\(origin) gives no token: \(error.detail)")
        case .success((let status, let answer, let pause)):
            asked = pause
            switch status {
            case 200..<300: text = answer
            case 401, 403:
                throw Self.error(
                    .refused,
                    "\(origin) gives no token (status \(status)): "
                        + (question.login.map { "it refuses the login of \($0.place)" }
                            ?? "is it private? Log in with 'docker login'"))
            case 408, 429, 500...: throw Self.error(.unavailable, "\(origin) gives no token: status \(status)")
            default: throw Self.error(.badAnswer, "\(origin) gives no token: status \(status)")
            }
        }
        do throws(ListingError) { return try RegistryToken(text) } catch {
            throw Self.error(.badAnswer, "\(origin) gives no token: \(error)")
        }
    }

    /// Makes one request. No redirect is followed, so that nobody else is shown the login.
    private func call(
        _ url: String, _ headers: [String], _ body: [UInt8]?, _ question: Question, until end: ContinuousClock.Instant
    ) -> Result<(status: Int, answer: [UInt8], pause: Duration), CurlError> {
        Result { () throws(CurlError) in
            let call = try HTTPCall(url, headers: headers, body: body)
            try configuration.prepare(call, for: question.realm.origin)
            if question.isPublic, configuration.proxy(for: question.realm.origin) == nil {
                call.mayAsk = { isPublicAddress($0) == true }
            }
            var answer: [UInt8] = []
            let outcome = try call.perform(until: end, every: 200, isStopped: isStopped) { bytes, _ in
                answer += bytes
                return answer.count <= RegistryToken.limit
            }
            switch outcome {
            case .answered(let status):
                let now = configuration.clock.unixTime()
                let pause = call.headers.retryAfter.flatMap { retryAfter($0, now: now) } ?? 0
                return (status, answer, Duration.seconds(min(pause, 60)))
            case .failed(let code): throw CurlError(detail: call.easy.message(for: code))
            case .timedOut: throw CurlError(detail: "it has not answered in time")
            case .stopped: throw CurlError(detail: "stopped")
            }
        }
    }

    private static func form(_ fields: [(String, String)]) -> String {
        fields.map { "\($0.0)=\(percentEncoded(bytes: $0.1.utf8, keepsSlash: false))" }.joined(separator: "&")
    }
}

extension Origin {
    /// Whether the host is this machine, by its name.
    var isOfThisMachine: Bool {
        host == "localhost" || host == "[::1]" || host.hasPrefix("127.") && host.allSatisfy { $0.isNumber || $0 == "." }
    }
}

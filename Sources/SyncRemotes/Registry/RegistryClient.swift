import SyncManifest
import SyncModel
import SyncPlugins
import SyncPublisher
import SyncSystem
import SyncTransfer

/// Sends requests to one repository of a registry, and repeats requests that may succeed later. OCI Distribution
/// Specification 1.1.
///
/// All threads share one authorization: when the registry wants another one, one thread gets it and the others wait.
final class RegistryClient: Sendable {
    let address: RegistryAddress
    private let calls: StoreCalls
    private let state: Monitor<State>

    typealias Request = StoreCalls.Request
    typealias Answer = StoreCalls.Answer

    private struct State: Sendable {
        /// The registry's URL, once it has answered.
        var endpoint: String?
        /// Whether its last answer came from a public address: then requests to other hosts go to public addresses
        /// only.
        var isPublic = false
        /// `nil` for anonymous requests.
        var authorization: Credential.Kind?
        /// Raised with each new authorization.
        var version = 0
        var isAsking = false
        /// The actions that a token should permit.
        var actions: Set<String>
        /// The scopes of other repositories that a token should have, too.
        var others: Set<String> = []
        /// Whether blobs of other repositories may be mounted.
        var mounts = true
        /// Most **bytes** of one body, where the registry has refused longer ones.
        var longestBody: UInt64?
    }

    /// Most redirects that one request follows.
    private static let mostRedirects = 5
    /// Most authorizations that are tried for one request.
    private static let mostAuthorizations = 2
    /// Attempts of one request.
    private static let mostTries = 8

    /// - Parameters:
    ///   - configuration: For trust, proxies, rates and the credentials that answer challenges.
    ///   - notice: Gets the reason for a long wait, for people.
    ///   - isWriting: Whether something will be put there, so that one token is asked for that permits it.
    init(
        _ address: RegistryAddress, _ configuration: TransportConfiguration, isWriting: Bool,
        notice: @escaping @Sendable (String) -> Void, isStopped: @escaping @Sendable () -> Bool
    ) {
        self.address = address
        calls = StoreCalls(configuration, patience: .seconds(60), notice: notice, isStopped: isStopped)
        state = Monitor(State(actions: isWriting ? ["pull", "push"] : ["pull"]))
    }

    /// For people.
    var shown: String { "oci://\(address.host)/\(address.name)" }

    /// A request to the repository.
    ///
    /// - Parameter url: Absolute; or, with a leading slash, relative to the registry's own URL.
    func request(_ method: String = "GET", _ url: String, headers: [String] = [], text: [UInt8]? = nil) -> Request {
        Request(method: method, url: url, headers: headers, text: text, limit: RegistryAnswer.limit)
    }

    /// Waits before the next attempt of an operation that takes several requests.
    func pause(_ failures: Int, _ reason: String, _ answer: Answer?) { calls.pause(failures, reason, shown, answer) }

    /// Most **bytes** of one body; `nil` as long as none was refused.
    var longestBody: UInt64? { state.withLock(\.longestBody) }

    /// Notes that a body was refused for its length, and the length to try next.
    func shorten(to length: UInt64) {
        state.change { $0.longestBody = min($0.longestBody ?? .max, length) }
    }

    // MARK: Requests

    /// Sends a request until another attempt would not improve the answer.
    func send(_ request: Request) throws(PublishError) -> Answer {
        guard request.url.hasPrefix("/"), state.withLock(\.endpoint) == nil else {
            return try send(request, to: url(request.url))
        }
        // A server on this machine that speaks TLS answers plain HTTP with 400.
        for (position, endpoint) in address.endpoints.enumerated() {
            let answer = try send(request, to: endpoint + request.url)
            if answer.status == 400, position + 1 < address.endpoints.count { continue }
            state.change { $0.endpoint = $0.endpoint ?? endpoint }
            return answer
        }
        throw PublishError(.unavailable, "\(shown): there is no server to ask", "check the name of the registry")
    }

    private func url(_ text: String) -> String {
        text.hasPrefix("/") ? (state.withLock(\.endpoint) ?? address.endpoints[0]) + text : text
    }

    private func send(_ request: Request, to first: String) throws(PublishError) -> Answer {
        var (url, redirects, authorizations, failures) = (first, 0, 0, 0)
        while true {
            let known = state.wait { $0.isAsking ? nil : ($0.authorization, $0.version) }
            let isOwn = Self.isSame(url, state.withLock(\.endpoint) ?? first)
            var asked = request
            asked.url = url
            asked.mustBePublic = !isOwn && state.withLock(\.isPublic)
            var login: (user: String, password: String)?
            switch isOwn ? known.0 : nil {
            case .bearer(let token)?: asked.headers.append("Authorization: Bearer \(token)")
            case .basic(let user, let password)?: login = (user, password)
            default: break
            }
            switch try calls.send(asked, shown: shown, login: login, isOwn: isOwn) {
            case .success(let answer):
                if isOwn { state.withLock { $0.isPublic = answer.isPublic } }
                switch answer.status {
                case 401 where isOwn && authorizations < Self.mostAuthorizations:
                    guard let challenge = answer.headers.challenge,
                        try authorize(challenge, answer, instead: known.1, isAgain: authorizations > 0)
                    else { return answer }
                    authorizations += 1
                    continue
                case 301, 302, 303, 307, 308:
                    guard request.method == "GET" || request.method == "HEAD", redirects < Self.mostRedirects,
                        let next = answer.headers.location.flatMap({ target($0, from: url) })
                    else { return answer }
                    redirects += 1
                    url = next
                    continue
                case 408, 425, 429, 500, 502, 503, 504: break
                default: return answer
                }
                failures += 1
                guard request.mayRepeat, failures < Self.mostTries else { return answer }
                calls.pause(failures, "status \(answer.status)", shown, answer)
            case .failure(let error):
                failures += 1
                guard request.mayRepeat, failures < Self.mostTries else { throw unreachable(error.detail) }
                calls.pause(failures, error.detail, shown)
                // The target of a redirect may have been valid for a moment only.
                (url, redirects) = (first, 0)
            }
        }
    }

    private func unreachable(_ trouble: String) -> PublishError {
        PublishError(
            .unavailable, "\(shown): the registry cannot be reached: \(trouble)",
            "the published set is unchanged; run it again")
    }

    /// The absolute URL to which an answer leads; `nil` if it is not valid, or leads from HTTPS to another scheme.
    func target(_ location: String, from url: String) -> String? {
        guard let next = try? CurlURL(url).joined(location), let own = try? CurlURL(url) else { return nil }
        return own.origin.scheme == "https" && next.origin.scheme != "https" ? nil : next.text
    }

    private static func isSame(_ one: String, _ other: String) -> Bool {
        guard let one = try? CurlURL(one), let other = try? CurlURL(other) else { return false }
        return one.origin == other.origin
    }

    // MARK: Authorizations

    /// Gets a new authorization in place of the refused one, unless another thread has done so.
    ///
    /// - Returns: Whether there is one.
    private func authorize(_ challenge: String, _ refusal: Answer, instead version: Int, isAgain: Bool)
        throws(PublishError) -> Bool
    {
        guard let answers = calls.configuration.challenges, let origin = try? CurlURL(refusal.url).origin else {
            return false
        }
        let (mustAsk, text) = state.change { state -> (Bool, String) in
            guard state.version == version, !state.isAsking else { return (false, "") }
            state.isAsking = true
            return (true, widened(challenge, &state))
        }
        guard mustAsk else { return true }
        var request = CredentialRequest(origin: origin.description, refused: isAgain ? 401 : nil)
        (request.challenge, request.isPublic) = (text, refusal.isPublic)
        let outcome = Result { () throws(PluginError) in try answers.credential(for: request) }
        var authorization: Credential.Kind?
        switch (try? outcome.get())?.kind {
        case .basic, .bearer: authorization = (try? outcome.get())?.kind
        default: break
        }
        state.change { state in
            state.isAsking = false
            guard let authorization else { return }
            (state.authorization, state.version) = (authorization, state.version + 1)
        }
        guard case .failure(let error) = outcome else { return authorization != nil }
        let isPassing = error.code == .unavailable
        throw PublishError(
            isPassing ? .unavailable : .refused, "\(shown): \(escaped(error.message))",
            isPassing ? "run it again" : "log in with 'docker login \(address.host)' or 'oras login \(address.host)'")
    }

    /// The same challenge, for all scopes wanted so far, so that one token serves them all.
    private func widened(_ challenge: String, _ state: inout State) -> String {
        guard case .bearer(let realm, let service, let scope)? = RegistryChallenge(challenge) else { return challenge }
        let start = "repository:\(address.name):"
        let scopes = (scope ?? start).split(separator: " ")
        guard scopes.contains(where: { $0.hasPrefix(start) }) else { return challenge }
        for scope in scopes {
            if scope.hasPrefix(start) {
                state.actions.formUnion(scope.dropFirst(start.utf8.count).split(separator: ",").map(String.init))
            } else if state.others.count < Self.mostOthers {
                state.others.insert(String(scope))
            }
        }
        func quoted(_ text: String) -> String {
            "\"\(text.filter { $0 != "\\" && $0 != "\"" })\""
        }
        let order = ["pull", "push", "delete"]
        let wanted = order.filter(state.actions.contains) + state.actions.subtracting(order).sorted()
        let all = [start + wanted.joined(separator: ",")] + state.others.sorted()
        return "Bearer realm=\(quoted(realm))" + (service.map { ",service=\(quoted($0))" } ?? "")
            + ",scope=\(quoted(all.joined(separator: " ")))"
    }

    /// Most scopes of other repositories in one token.
    private static let mostOthers = 8

    /// Stops mounting blobs of other repositories.
    func mountNothing() { state.change { ($0.others, $0.mounts) = ([], false) } }

    var mayMount: Bool { state.withLock(\.mounts) }

    // MARK: Refusals

    /// The error for a registry's refusal.
    func refusal(_ answer: Answer, _ what: String) -> PublishError {
        let said = Self.words(answer.body).map { ": \($0)" } ?? ""
        switch answer.status {
        case 401, 403:
            return PublishError(
                .refused, "\(shown): the registry refuses \(what) (status \(answer.status)\(said))",
                "log in with 'docker login \(address.host)' or 'oras login \(address.host)' as somebody who may")
        case 404:
            return PublishError(
                .noInput, "\(shown): the registry does not have it (\(what): status 404\(said))",
                "check the name of the repository")
        case 408, 429, 500...:
            return PublishError(
                .unavailable, "\(shown): the registry cannot do it now (\(what): status \(answer.status)\(said))",
                "run it again later")
        default:
            return PublishError(
                .unavailable, "\(shown): the registry refuses \(what) (status \(answer.status)\(said))",
                "the published set is unchanged")
        }
    }

    /// The first of the registry's errors, in its own words.
    private static func words(_ body: [UInt8]) -> String? {
        guard body.count <= 64 << 10, let value = body.withUnsafeBytes({ JSONParser.parse($0) }),
            let first = value["errors"]?.array?.first
        else { return nil }
        let parts = [first["code"]?.string, first["message"]?.string].compactMap(\.self).filter { !$0.isEmpty }
        return parts.isEmpty ? nil : escaped(String(parts.joined(separator: ", ").prefix(200)))
    }
}

import SyncModel
package import SyncPlugins
import SyncSystem

/// A plugin, its name and its scope.
package struct Configured<Plugin: Sendable>: Sendable {
    /// The plugin's name in events.
    package var name: String
    package var plugin: Plugin
    package var scope: URLScope

    package init(name: String, plugin: Plugin, scope: URLScope = .all) {
        self.name = name
        self.plugin = plugin
        self.scope = scope
    }
}

package typealias ConfiguredResolver = Configured<any RequestResolver>
package typealias ConfiguredCredentialProvider = Configured<any CredentialProvider>

/// What resolvers put in the place of a request: a URL, headers for its origin, and the resolver that replaced it last.
typealias ResolvedLink = (url: CurlURL, headers: [HeaderField], resolver: String)

/// The combined answer of the resolvers about a request: what is requested instead, `nil` if it stays, or why it is not
/// sent.
typealias ResolverAnswer = Result<ResolvedLink?, TransferError>

extension RequestDisposition {
    /// The disposition as the answer of a resolver.
    ///
    /// - Returns: `nil` if it changes nothing.
    /// - Throws: Why it cannot be used; then it changes nothing either.
    fileprivate func answer(of name: String) throws(PluginError) -> ResolverAnswer? {
        switch self {
        case .proceed: return nil
        case .cancel(let reason, .cancelled):
            return .refused("plugin \(name) cancelled the request: \(escaped(reason))", .cancelled)
        case .cancel(let reason, let cause): return .refused(escaped(reason), cause)
        case .replace(let target, let fields):
            let url = try rethrowing(CurlURL(target)) { (error: URLError) in
                let text = "a replacement is not used: \(redacted(url: target)): \(error.description)"
                return PluginError(plugin: name, code: .badAnswer, message: text)
            }
            guard fields.allSatisfy(\.isClean) else {
                throw PluginError(plugin: name, code: .badAnswer, message: "a header with a line end in it")
            }
            return .success((url, fields, name))
        }
    }
}

extension ResolverAnswer {
    fileprivate static func refused(_ reason: String, _ cause: FailureCause) -> ResolverAnswer {
        let code = cause == .unreachable ? TransferError.Code.unreachable : .refusedByPolicy
        var error = TransferError(code: code, url: "", detail: reason)
        error.cause = cause
        return .failure(error)
    }

    /// The answer where the URL says nothing to any server: without an answer, there is nothing to send.
    fileprivate static func missing(_ failure: PluginError) -> ResolverAnswer {
        .refused("\(failure)", .serverTrouble)
    }
}

extension [ConfiguredResolver] {
    /// Whether only an answer says where a URL leads.
    func mustAnswer(_ url: String) -> Bool { contains { $0.scope.isMarked && $0.scope.covers(url) } }

    /// What is made of requests without an answer.
    func unanswered(_ requests: [ResolverRequest], _ failure: PluginError) -> [ResolverAnswer] {
        requests.map { mustAnswer($0.url) ? .missing(failure) : .success(nil) }
    }

    /// Asks every resolver, in order, about the requests in its scope; each sees the results of those before it.
    /// Blocks.
    ///
    /// - Returns: The answer to each request, and the failures on the way.
    func resolve(_ requests: [ResolverRequest]) -> (answers: [ResolverAnswer], failures: [PluginError]) {
        var answers = requests.map { _ in ResolverAnswer.success(nil) }
        var failures: [PluginError] = []
        for entry in self {
            var mine: [Int] = []
            var questions: [ResolverRequest] = []
            for (index, request) in requests.enumerated() {
                guard case .success(let link) = answers[index] else { continue }
                var question = request
                if let link { question.url = link.url.text }
                guard entry.scope.covers(question.url) else { continue }
                mine.append(index)
                questions.append(question)
            }
            guard !mine.isEmpty else { continue }
            do throws(PluginError) {
                let given = try entry.plugin.resolve(questions)
                guard given.count == questions.count else {
                    let text = "\(given.count) answers to \(questions.count) questions"
                    throw PluginError(plugin: entry.name, code: .badAnswer, message: text)
                }
                for (index, disposition) in zip(mine, given) {
                    do throws(PluginError) {
                        answers[index] = try disposition.answer(of: entry.name) ?? answers[index]
                    } catch {
                        failures.append(error)
                        if entry.scope.isMarked { answers[index] = .missing(error) }
                    }
                }
            } catch {
                failures.append(error)
                if entry.scope.isMarked { for index in mine { answers[index] = .missing(error) } }
            }
        }
        return (answers, failures)
    }
}

extension HeaderField {
    /// Whether the field is a single line of a request: RFC 9110 §5.5. Any other field could smuggle in other lines.
    var isClean: Bool {
        !name.isEmpty && name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: ":") } && value.isOneLine
    }
}

extension Credential.Kind {
    /// Whether the credential is free of control characters, so that nothing in it can become another line.
    var isClean: Bool {
        switch self {
        case .basic(let user, let password): user.isOneLine && password.isOneLine && !user.contains(":")
        case .bearer(let token): token.isOneLine
        case .sigV4(let access, let secret, let token, let region, let service):
            [access, secret, token ?? "", region, service].allSatisfy(\.isOneLine)
        case .headers(let fields): fields.allSatisfy(\.isClean)
        }
    }
}

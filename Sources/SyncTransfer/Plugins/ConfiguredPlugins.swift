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

/// The combined result of the resolvers for a request's URL.
struct Resolution: Sendable {
    /// The URL to request instead; `nil` if it stays.
    private(set) var url: CurlURL?
    private(set) var headers: [HeaderField] = []
    /// The resolver that replaced the URL last.
    private(set) var resolver = ""
    /// Why the request is not sent.
    private(set) var refusal: (reason: String, cause: FailureCause)?
    /// When ``url`` expires by its own parameters, **seconds** since 1970. One that had expired when it came is used
    /// all the same: clocks differ, and asking again at once would never end.
    var expires: Int64?
    /// Whether the request is resolved but not sent yet. If it is resolved too early, the URL may expire before that.
    var isAhead = true

    /// - Returns: Why the answer cannot be used, in which case it changes nothing.
    fileprivate mutating func take(_ answer: RequestDisposition, from name: String) -> PluginError? {
        switch answer {
        case .proceed: return nil
        case .cancel(let reason, .cancelled):
            refusal = ("plugin \(name) cancelled the request: \(escaped(reason))", .cancelled)
        case .cancel(let reason, let cause): refusal = (escaped(reason), cause)
        case .replace(let target, let fields):
            let replacement: CurlURL
            do { replacement = try CurlURL(target) } catch {
                let text = "a replacement is not used: \(redacted(url: target)): \(error.description)"
                return PluginError(plugin: name, code: .badAnswer, message: text)
            }
            guard fields.allSatisfy(\.isClean) else {
                return PluginError(plugin: name, code: .badAnswer, message: "a header with a line end in it")
            }
            (url, headers, resolver) = (replacement, fields, name)
        }
        return nil
    }

    /// Where the URL says nothing to any server, there is nothing to send without an answer.
    fileprivate mutating func refuse(_ failure: PluginError) { refusal = ("\(failure)", .serverTrouble) }
}

extension [ConfiguredResolver] {
    /// Whether only an answer says where a URL leads.
    func mustAnswer(_ url: String) -> Bool { contains { $0.scope.isMarked && $0.scope.covers(url) } }

    /// What is made of requests without an answer.
    func unanswered(_ requests: [ResolverRequest], _ failure: PluginError) -> [Resolution] {
        requests.map { request in
            var resolution = Resolution()
            if mustAnswer(request.url) { resolution.refuse(failure) }
            return resolution
        }
    }

    /// Asks every resolver, in order, about the requests in its scope; each sees the results of those before it.
    /// Blocks.
    ///
    /// - Returns: The resolution of each request, and the failures on the way.
    func resolve(_ requests: [ResolverRequest]) -> (resolved: [Resolution], failures: [PluginError]) {
        var resolved = requests.map { _ in Resolution() }
        var failures: [PluginError] = []
        for entry in self {
            var mine: [Int] = []
            var questions: [ResolverRequest] = []
            for (index, request) in requests.enumerated() where resolved[index].refusal == nil {
                var question = request
                if let url = resolved[index].url { question.url = url.text }
                guard entry.scope.covers(question.url) else { continue }
                mine.append(index)
                questions.append(question)
            }
            guard !mine.isEmpty else { continue }
            do throws(PluginError) {
                let answers = try entry.plugin.resolve(questions)
                guard answers.count == questions.count else {
                    let text = "\(answers.count) answers to \(questions.count) questions"
                    throw PluginError(plugin: entry.name, code: .badAnswer, message: text)
                }
                for (index, answer) in zip(mine, answers) {
                    guard let failure = resolved[index].take(answer, from: entry.name) else { continue }
                    failures.append(failure)
                    if entry.scope.isMarked { resolved[index].refuse(failure) }
                }
            } catch {
                failures.append(error)
                if entry.scope.isMarked { for index in mine { resolved[index].refuse(error) } }
            }
        }
        return (resolved, failures)
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

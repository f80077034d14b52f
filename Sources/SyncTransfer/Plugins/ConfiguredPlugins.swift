import SyncCurl
import SyncModel
package import SyncPlugins

/// A plugin and what it is for.
package struct Configured<Plugin: Sendable>: Sendable {
    /// Its name in events.
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

/// What all resolvers together made of one request.
struct Resolved: Sendable {
    var url: String
    var headers: [HeaderField] = []
    /// Who replaced it last; `nil` if none did.
    var resolver: String?
    /// Which resolver cancelled it, and why.
    var cancelled: (resolver: String, reason: String)?
}

extension [ConfiguredResolver] {
    /// Asks every resolver, in order, about the requests in its scope; each sees the results of those before it.
    /// Blocks.
    ///
    /// - Returns: What is to be asked for each, and what failed on the way.
    func resolve(_ requests: [ResolverRequest]) -> (resolved: [Resolved], failures: [PluginError]) {
        var resolved = requests.map { Resolved(url: $0.url) }
        var failures: [PluginError] = []
        for entry in self {
            let mine = requests.indices.filter { resolved[$0].cancelled == nil && entry.scope.covers(resolved[$0].url) }
            guard !mine.isEmpty else { continue }
            let questions = mine.map { index in
                var question = requests[index]
                question.url = resolved[index].url
                return question
            }
            do throws(PluginError) {
                let answers = try entry.plugin.resolve(questions)
                guard answers.count == questions.count else {
                    let text = "\(answers.count) answers to \(questions.count) questions"
                    throw PluginError(plugin: entry.name, code: .badAnswer, message: text)
                }
                for (index, answer) in zip(mine, answers) {
                    if let failure = resolved[index].take(answer, from: entry.name) { failures.append(failure) }
                }
            } catch { failures.append(error) }
        }
        return (resolved, failures)
    }
}

extension Resolved {
    /// - Returns: Why the answer cannot be used; it then changes nothing.
    fileprivate mutating func take(_ answer: RequestDisposition, from name: String) -> PluginError? {
        switch answer {
        case .proceed: return nil
        case .cancel(let reason): cancelled = (name, escaped(reason))
        case .replace(let target, let fields):
            guard (try? CurlURL(target)) != nil else {
                let text = "not an http or https URL: \(redacted(url: target))"
                return PluginError(plugin: name, code: .badAnswer, message: text)
            }
            guard fields.allSatisfy(\.isClean) else {
                return PluginError(plugin: name, code: .badAnswer, message: "a header with a line end in it")
            }
            (url, headers, resolver) = (target, fields, name)
        }
        return nil
    }
}

extension HeaderField {
    /// Whether it is a single line of a request: RFC 9110 §5.5. Anything else could smuggle in other lines.
    var isClean: Bool {
        !name.isEmpty && name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: ":") } && value.isOneLine
    }
}

extension Credential.Kind {
    /// Whether it is free of control characters, so that nothing in it can become another line.
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

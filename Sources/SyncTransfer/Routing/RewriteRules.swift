package import SyncCurl
package import SyncPlugins

/// A rule that turns a URL into another: a server that has moved, a mirror nearby.
///
/// Content is identified by its hash, so a rule never changes which bytes are right.
package struct RewriteRule: Sendable, Equatable, CustomStringConvertible {
    /// Which URLs it applies to.
    package enum Pattern: Sendable, Equatable {
        /// URLs with this prefix; a scheme, host and port in it are compared as an origin.
        case prefix(String)
        /// URLs in which this regular expression matches somewhere; the first match is replaced.
        case expression(String)
    }

    /// Which URLs it applies to.
    package let pattern: Pattern
    /// What replaces the prefix or the match; in an expression `$1` … `$9` are its groups and `$$` is a dollar sign.
    package let replacement: String

    /// Why a text is no rule.
    package struct SyntaxError: Error, Equatable, CustomStringConvertible { package let description: String }

    /// Reads `PREFIX REPLACEMENT`, or `~EXPRESSION REPLACEMENT` as nginx marks expressions. One blank divides them.
    package init(_ text: String) throws(SyntaxError) {
        let parts = text.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, let from = parts.first, let to = parts.last, !from.isEmpty, !to.isEmpty else {
            throw SyntaxError(description: "a rule is PREFIX REPLACEMENT or ~EXPRESSION REPLACEMENT, with one space")
        }
        if from.hasPrefix("~") {
            pattern = .expression(String(from.dropFirst()))
            do { _ = try Regex(String(from.dropFirst())) } catch {
                throw SyntaxError(description: "not a regular expression: \(from.dropFirst())")
            }
        } else {
            pattern = .prefix(from)
            if case .failure(let error) = RewriteRules.Prefix.read(from) {
                throw SyntaxError(description: "not the beginning of a URL: \(error.description)")
            }
        }
        replacement = to
    }

    /// The rule as it is written.
    package var description: String {
        switch pattern {
        case .prefix(let text): "\(text) \(replacement)"
        case .expression(let text): "~\(text) \(replacement)"
        }
    }
}

/// Rules in order, ready for use. Belongs to one thread: `Regex` is not `Sendable`.
package struct RewriteRules {
    private let rules: [(rule: RewriteRule, matcher: Matcher)]

    private enum Matcher {
        /// With the replacement's origin if it has a complete one: what follows the prefix must not extend its host.
        case prefix(Prefix, Origin?)
        case expression(Regex<AnyRegexOutput>)
        case nothing
    }

    /// The beginning of a URL.
    enum Prefix {
        /// An origin, and the beginning of what follows it, as written.
        case origin(Origin, rest: Substring)
        /// Less than an origin, such as `https://`.
        case text(String)

        /// - Returns: A failure for an http or https URL whose host or port libcurl refuses.
        static func read(_ text: String) -> Result<Prefix, URLError> {
            let parts = text.split(separator: "://", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, ["http", "https"].contains(parts[0].lowercased()) else {
                return .success(.text(text))
            }
            let authority = parts[1].prefix { !"/?#".contains($0) }
            guard !authority.isEmpty else { return .success(.text(text)) }
            return Result { () throws(URLError) in
                .origin(try CurlURL("\(parts[0])://\(authority)/").origin, rest: parts[1][authority.endIndex...])
            }
        }

        /// The rest of a URL after this prefix; `nil` if it has another.
        func rest(of url: CurlURL) -> Substring? {
            switch self {
            case .text(let text): return url.text.hasPrefix(text) ? url.text.dropFirst(text.count) : nil
            case .origin(let origin, let rest):
                guard origin == url.origin, url.target.hasPrefix(rest) else { return nil }
                return url.target.dropFirst(rest.count)
            }
        }
    }

    package init(_ rules: [RewriteRule]) {
        // Unreadable rules were refused when they were made.
        self.rules = rules.map { rule in
            switch rule.pattern {
            case .prefix(let text):
                guard let prefix = try? Prefix.read(text).get() else { return (rule, .nothing) }
                return (rule, .prefix(prefix, (try? CurlURL(rule.replacement))?.origin))
            case .expression(let text): return (rule, (try? Regex(text)).map { .expression($0) } ?? .nothing)
            }
        }
    }

    /// Applies the first rule that matches and leads to another, usable URL.
    ///
    /// - Returns: The URL, and the rule's place from 1.
    package func apply(to url: CurlURL) -> (url: CurlURL, rule: Int)? {
        for (index, (rule, matcher)) in rules.enumerated() {
            guard let text = rewritten(url, by: rule, matcher), text != url.text else { continue }
            // A rule that yields no URL does nothing.
            guard let target = try? CurlURL(text) else { continue }
            if case .prefix(_, let origin?) = matcher, origin != target.origin { continue }
            return (target, index + 1)
        }
        return nil
    }

    private func rewritten(_ url: CurlURL, by rule: RewriteRule, _ matcher: Matcher) -> String? {
        switch matcher {
        case .nothing: return nil
        case .prefix(let prefix, _): return prefix.rest(of: url).map { rule.replacement + $0 }
        case .expression(let expression):
            let text = url.text
            guard let match = try? expression.firstMatch(in: text) else { return nil }
            return text[..<match.range.lowerBound] + fill(rule.replacement, match.output)
                + text[match.range.upperBound...]
        }
    }

    private func fill(_ template: String, _ groups: AnyRegexOutput) -> String {
        var result = ""
        var rest = Substring(template)
        while let character = rest.popFirst() {
            guard character == "$", let next = rest.first else {
                result.append(character)
                continue
            }
            if next == "$" {
                result.append("$")
            } else if let index = next.wholeNumberValue, next.isASCII {
                if index < groups.count, let group = groups[index].substring { result += group }
            } else {
                result.append("$")
                continue
            }
            rest.removeFirst()
        }
        return result
    }
}

/// Rewriting rules as the built-in resolver.
///
/// The transport applies ``TransportConfiguration/rewriteRules`` itself, with the same result.
package struct RewriteResolver: RequestResolver {
    private let rules: [RewriteRule]

    /// First match wins.
    package init(_ rules: [RewriteRule]) { self.rules = rules }

    package func resolve(_ requests: [ResolverRequest]) -> [RequestDisposition] {
        let prepared = RewriteRules(rules)
        return requests.map { request in
            guard let url = try? CurlURL(request.url), let target = prepared.apply(to: url) else { return .proceed }
            return .replace(url: target.url.text, headers: [])
        }
    }
}
